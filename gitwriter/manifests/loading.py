"""A document read as Kubernetes reads it.

Loading answers two questions: what the object is (exactly: integers stay integers, a date stays text, later
merge keys override earlier keys just as in the Kubernetes reader) and whether the document uses constructs
that a Kubernetes object cannot carry. Aliases are shared, never copied; a document whose expansion would
explode is read for its identity only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reverser.errors import YamlRefused

from .limits import DEFAULT_LIMITS, Limits
from .nodes import UNREAD, Kind, Node, Tree, parse_tree
from .scalars import Scalar, key_text, resolve_plain, resolve_tagged

YamlError = YamlRefused

BOM = "\ufeff"
_EXPANSION_LIMIT = 200_000


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """One document. ``value`` is plain Python (None for an empty document); aliases inside it are shared
    objects.

    ``constructs`` names what was seen of: anchor, alias, merge-key, duplicate-key, binary, local-tag,
    excessive-aliases (then ``value`` holds the identity only). ``is_sops`` is true for a top-level ``sops``
    mapping with a ``mac``.
    """

    value: Any
    constructs: frozenset[str]
    is_sops: bool
    api_version: str
    kind: str
    namespace: str
    name: str
    tree: Tree = field(repr=False, compare=False)
    text: str = field(repr=False, compare=False)


def decode_body(body: bytes) -> str:
    """The text of a document; raises YamlRefused where it is not UTF-8."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise YamlRefused(
            "invalid-yaml", f"line {line}: not UTF-8 text; save the file as UTF-8", line=line
        ) from error


def load_document(body: bytes, *, limits: Limits = DEFAULT_LIMITS) -> LoadedDocument:
    """Read one document's bytes (a byte order mark is allowed).

    Raises YamlRefused: invalid-yaml, too-deep, too-big, excessive-aliases, recursive-alias.
    """
    if len(body) > limits.file_bytes:
        raise YamlRefused(
            "too-big", f"the document is larger than {limits.file_bytes} bytes; split it or raise the limit"
        )
    return load_text(decode_body(body).removeprefix(BOM), limits=limits)


def load_text(
    text: str, *, limits: Limits = DEFAULT_LIMITS, text_keys: frozenset[str] = frozenset()
) -> LoadedDocument:
    """Read one document's text (without byte order mark); raises YamlRefused as load_document.

    ``text_keys`` are words such as ``on`` that stand for themselves where they are mapping keys.
    """
    tree = parse_tree(text, limits=limits)
    constructs = set(tree.constructs)
    root = tree.root
    value: Any
    if root is None:
        value = None
    elif root.size > _EXPANSION_LIMIT and "alias" in constructs:
        constructs.add("excessive-aliases")
        value = _identity_only(root)
    else:
        value = Constructor(constructs, text_keys).value_of(root)
    top = value if isinstance(value, dict) else {}
    metadata = top.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    sops = top.get("sops")
    return LoadedDocument(
        value=value,
        constructs=frozenset(constructs),
        is_sops=isinstance(sops, dict) and bool(sops.get("mac")),
        api_version=_string(top.get("apiVersion")),
        kind=_string(top.get("kind")),
        namespace=_string(metadata.get("namespace")),
        name=_string(metadata.get("name")),
        tree=tree,
        text=text,
    )


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def scalar_value(node: Node) -> Scalar:
    """Value of a scalar node as Kubernetes reads it; raises YamlRefused where text and tag do not fit."""
    if node.tag is not None:
        try:
            return resolve_tagged(node.text, node.tag)
        except ValueError as error:
            raise YamlRefused("invalid-yaml", str(error)) from error
    return resolve_plain(node.text) if node.style == "" else node.text


def key_of(node: Node) -> str:
    """A mapping key as JSON object key; raises YamlRefused for collections and null keys."""
    known = node.value
    if type(known) is str and node.target is None:
        return known
    target = node.resolved()
    if target.kind is not Kind.SCALAR:
        raise YamlRefused("invalid-yaml", "a mapping key is itself a collection; Kubernetes cannot read it")
    try:
        key = key_text(scalar_value(target))
    except ValueError as error:
        raise YamlRefused("invalid-yaml", f"{error}; quote it") from error
    if target is node and node.anchor is None:
        node.value = key  # a key is never read as a value
    return key


class Constructor:
    """Reads values from nodes and leaves them at the nodes; adds ``duplicate-key`` to ``constructs`` where
    one
    is met."""

    def __init__(self, constructs: set[str], text_keys: frozenset[str] = frozenset()) -> None:
        self._constructs = constructs
        self._text_keys = text_keys

    def value_of(self, node: Node) -> Any:
        """The value of a node and everything below it; an anchored value is one object wherever it is
        used."""
        while node.target is not None:
            node = node.target
        if node.value is not UNREAD:
            return node.value
        value: Any
        if node.kind is Kind.SCALAR:
            if node.tag is None:
                value = resolve_plain(node.text) if node.style == "" else node.text
            else:
                value = scalar_value(node)
        elif node.kind is Kind.SEQUENCE:
            value = [self.value_of(item) for item in node.items]
        else:
            value = self._mapping(node)
        node.value = value
        return value

    def _mapping(self, node: Node) -> dict[str, Any]:
        value: dict[str, Any] = {}
        own: set[str] = set()
        merging = "merge-key" in self._constructs
        for key_node, value_node in node.entries:
            if merging and key_node.is_merge_key():
                for source in self._merge_sources(value_node):
                    value.update(source)
                continue
            if self._text_keys and key_node.text in self._text_keys and key_node.tag is None:
                key_node.value = key_node.text
            key = key_of(key_node)
            if key in own:
                self._constructs.add("duplicate-key")
            own.add(key)
            value[key] = self.value_of(value_node)
        return value

    def _merge_sources(self, node: Node) -> list[dict[str, Any]]:
        """What a merge brings in, weakest first (the first of a list wins)."""
        target = node.resolved()
        sources = target.items[::-1] if target.kind is Kind.SEQUENCE else [target]
        if any(source.resolved().kind is not Kind.MAPPING for source in sources):
            raise YamlRefused("invalid-yaml", "a merge key needs a mapping or a list of mappings")
        return [self.value_of(source) for source in sources]


def _identity_only(root: Node) -> dict[str, Any]:
    identity: dict[str, Any] = {}
    for key, value in root.entries:
        if key.text in ("apiVersion", "kind") and value.kind is Kind.SCALAR:
            identity[key.text] = scalar_value(value)
        elif key.text == "metadata" and value.kind is Kind.MAPPING:
            identity["metadata"] = {
                inner.text: scalar_value(named)
                for inner, named in value.entries
                if inner.text in ("name", "namespace") and named.kind is Kind.SCALAR
            }
    return identity
