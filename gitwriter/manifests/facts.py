"""What the index knows of one file, at the cost of one pass of the YAML parser.

Values are not kept: a folder of ten thousand files must index in about the time that parsing it takes,
and the index must be safe to write to disk beside the clone. So documents are read as a stream of parser
events, aliases are never expanded, and only identity, class and the constructs that bear on editing are
remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]

from .identity import describe, split_api_version
from .limits import CONTEXT_LIMITS, DEFAULT_LIMITS, Limits
from .loading import YamlError, load_document
from .remembered import Remembered
from .scalars import resolve_plain
from .splitting import split_documents
from .surrogates import is_concerned, readable


class DocumentClass(StrEnum):
    """What one document is."""

    KRM = "krm"
    EMPTY = "empty"
    NON_KRM = "non-krm"
    INVALID = "invalid-yaml"


@dataclass(frozen=True, slots=True)
class DocumentFact:
    """One document of a file.

    `constructs` names what YAML can say and a Kubernetes object cannot (anchor, alias, merge-key,
    duplicate-key, binary, local-tag), and excessive-aliases. `blank` marks an empty document without even a
    comment. `detail` is the parser's complaint, or what keeps a document from being a manifest.
    """

    index: int
    document_class: DocumentClass
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    constructs: tuple[str, ...] = ()
    has_sops: bool = False
    sealed: bool = False
    blank: bool = False
    detail: str = ""

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return split_api_version(self.api_version)[0]

    @property
    def is_krm(self) -> bool:
        return self.document_class is DocumentClass.KRM

    def describe(self) -> str:
        """The identity as written in the file."""
        return describe(self.api_version, self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file's documents, and the values files that its Helm objects name."""

    documents: tuple[DocumentFact, ...]
    values_files: tuple[str, ...] = ()
    too_many: bool = False


_IDENTITY = ("/apiVersion", "/kind", "metadata/name")
_HELM_KINDS = frozenset({("helm.toolkit.fluxcd.io", "HelmRelease"), ("argoproj.io", "Application")})


def read_facts(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> FileFacts:
    """Index one file's bytes; never raises for what a file contains."""
    parts = split_documents(data, at_most=limits.documents_per_file)
    if len(parts) > limits.documents_per_file:
        return FileFacts(documents=(), too_many=True)
    documents: list[DocumentFact] = []
    values: list[str] = []
    for part in parts:
        body = data if len(parts) == 1 else data[part.start : part.end]
        fact = read_document_fact(body, part.index, limits=limits)
        documents.append(fact)
        if fact.is_krm and (fact.group, fact.kind) in _HELM_KINDS:
            values.extend(_values_files(body))
    return FileFacts(documents=tuple(documents), values_files=tuple(values))


def read_document_fact(body: bytes, index: int, *, limits: Limits = DEFAULT_LIMITS) -> DocumentFact:
    """Index one document's bytes."""
    if _is_blank(body):
        return DocumentFact(index, DocumentClass.EMPTY, blank=True)
    walk = _Walk(limits)
    try:
        walk.run(body)
    except yaml.YAMLError as error:
        directive = body.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"%")
        text = "it begins with a directive (%YAML or %TAG), which Kubernetes does not need; remove that line"
        complaint = text if directive else _complaint(error) + _hint(body)
        return DocumentFact(index, DocumentClass.INVALID, detail=complaint)
    except (ValueError, RecursionError) as error:
        return DocumentFact(index, DocumentClass.INVALID, detail=str(error) + _hint(body))
    if walk.empty:
        return DocumentFact(index, DocumentClass.EMPTY)
    return walk.fact(index)


def _is_blank(body: bytes) -> bool:
    return not body.removeprefix(b"\xef\xbb\xbf").strip()


def _hint(body: bytes) -> str:
    return "; it looks like a template that has yet to be rendered" if b"{{" in body else ""


def _complaint(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read as YAML"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark is not None else str(problem)


class _Frame:
    """One open collection: for a mapping, the keys seen so far and the key that waits for its value."""

    __slots__ = ("is_mapping", "key", "keys", "path")

    def __init__(self, is_mapping: bool, path: str | None) -> None:
        self.is_mapping = is_mapping
        self.keys: set[str] = set()
        self.key: str | None = None
        self.path = path


class _Walk:
    """Reads one document's events. `path` is followed only into `metadata` and `sops`; elsewhere it is
    None.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._references = 0
        self._constructs: set[str] = set()
        self._found: dict[str, str] = {}
        self._not_text: dict[str, str] = {}
        self._root_is_mapping = False
        self._has_sops = False
        self._metadata_by_alias = False
        self.empty = True

    def run(self, body: bytes) -> None:
        parser = CParser(readable(body.decode("utf-8")) if is_concerned(body) else body)
        try:
            self._consume(parser)
        finally:
            parser.dispose()

    def _consume(self, parser: Any) -> None:
        stack: list[_Frame] = []
        get_event = parser.get_event
        documents = nodes = 0
        most = self._limits.nodes
        while True:
            event = get_event()
            kind = type(event)
            nodes += 1
            if nodes > most:
                raise ValueError(f"holds more than {most} keys and values; split it")
            if kind is yaml.ScalarEvent:
                self._scalar(event, stack)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, stack, kind is yaml.MappingStartEvent)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                nodes -= 1
                stack.pop()
                if stack:
                    stack[-1].key = None
            elif kind is yaml.AliasEvent:
                self._refer("alias")
                self.empty = False
                self._alias(stack)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise ValueError("holds a second document that no separator line announces")
            elif event is None or kind is yaml.StreamEndEvent:
                return

    def _alias(self, stack: list[_Frame]) -> None:
        if not stack or not stack[-1].is_mapping:
            return
        frame = stack[-1]
        if frame.key is None:
            frame.key = ""
            return
        if frame.path == "" and frame.key == "metadata":
            self._metadata_by_alias = True
        frame.key = None

    def _open(self, event: Any, stack: list[_Frame], is_mapping: bool) -> None:
        self.empty = False
        path: str | None = None
        if stack:
            frame = stack[-1]
            if frame.is_mapping:
                if frame.key is None:
                    raise ValueError("a mapping key is itself a collection")
                if frame.path == "" and frame.key in ("metadata", "sops") and is_mapping:
                    path = frame.key
        else:
            path = ""
            self._root_is_mapping = is_mapping
        if event.anchor is not None:
            self._refer("anchor")
        if event.tag is not None:
            self._tag(event.tag)
        stack.append(_Frame(is_mapping, path))
        if len(stack) > self._limits.depth:
            raise ValueError(f"nests deeper than {self._limits.depth} levels")

    def _scalar(self, event: Any, stack: list[_Frame]) -> None:
        value: str = event.value
        if event.anchor is not None:
            self._refer("anchor")
        if event.tag is not None:
            self._tag(event.tag)
        if not stack:
            self.empty = value == "" and event.implicit[0]
            return
        frame = stack[-1]
        if not frame.is_mapping:
            return
        key = frame.key
        if key is None:
            if value == "<<" and event.implicit[0]:
                self._constructs.add("merge-key")
            elif value in frame.keys:
                self._constructs.add("duplicate-key")
            frame.keys.add(value)
            frame.key = value
            if value == "sops" and frame.path == "":
                self._has_sops = True
            return
        if frame.path is not None:
            is_text = event.implicit[1] or isinstance(resolve_plain(value), str)
            (self._found if is_text else self._not_text)[f"{frame.path}/{key}"] = value
        frame.key = None

    def _refer(self, construct: str) -> None:
        self._constructs.add(construct)
        self._references += 1
        if self._references > self._limits.aliases:
            self._constructs.add("excessive-aliases")

    def _tag(self, tag: str) -> None:
        if tag == "tag:yaml.org,2002:binary":
            self._constructs.add("binary")
        elif not tag.startswith("tag:yaml.org,2002:") and tag != "!":
            self._constructs.add("local-tag")

    def fact(self, index: int) -> DocumentFact:
        found = self._found
        api_version, kind, name = (
            found.get("/apiVersion", ""),
            found.get("/kind", ""),
            found.get("metadata/name", ""),
        )
        krm = self._root_is_mapping and bool(api_version and kind and name)
        odd = next((key for key in _IDENTITY if self._not_text.get(key)), None) if not krm else None
        text = f'{odd.lstrip("/").replace("/", ".")} is "{self._not_text[odd]}"' if odd else ""
        return DocumentFact(
            index,
            DocumentClass.KRM if krm else DocumentClass.NON_KRM,
            api_version=api_version,
            kind=kind,
            namespace=found.get("metadata/namespace", ""),
            name=name,
            constructs=tuple(sorted(self._constructs)),
            has_sops=self._has_sops,
            sealed=self._has_sops and bool(found.get("sops/mac")),
            detail=f"{text}, which is no text to Kubernetes: quote it" if odd else "",
        )


def _values_files(body: bytes) -> list[str]:
    """Paths of the values files that a HelmRelease or an Argo CD Application names, as written."""
    try:
        value = load_document(body, limits=CONTEXT_LIMITS).value
    except YamlError:
        return []
    spec = _mapping(_mapping(value).get("spec"))
    found: list[str] = list(_strings(_mapping(_mapping(spec.get("chart")).get("spec")).get("valuesFiles")))
    sources = spec.get("sources")
    for source in [spec.get("source"), *(sources if isinstance(sources, list) else [])]:
        folder = _mapping(source).get("path")
        for path in _strings(_mapping(_mapping(source).get("helm")).get("valueFiles")):
            found.append(path)
            if isinstance(folder, str):
                found.append(f"{folder}/{path}")
    return found


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _strings(value: object) -> Sequence[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


class IndexCache(Remembered[str, FileFacts]):
    """Facts by blob id: the same bytes are parsed once, whatever their path."""

    @staticmethod
    def to_row(key: str, value: FileFacts) -> list[Any]:
        """Blob id and facts."""
        return [key, value]

    @staticmethod
    def from_row(row: list[Any]) -> tuple[str, FileFacts]:
        """Blob id and facts."""
        blob, facts = row
        return str(blob), _facts_from_row(facts)


def _facts_from_row(row: dict[str, Any]) -> FileFacts:
    documents = tuple(
        DocumentFact(
            **{
                **document,
                "document_class": DocumentClass(document["document_class"]),
                "constructs": tuple(document["constructs"]),
            }
        )
        for document in row["documents"]
    )
    return FileFacts(documents, tuple(row["values_files"]), row["too_many"])
