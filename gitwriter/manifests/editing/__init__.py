"""Changing one document of a file as a careful human would.

Only the lines of nodes that differ are touched. The edit is planned on the text, made, read back and compared
with what was asked for; a result that does not read back exactly is never accepted. Instead the node is
rewritten, then its parent, at last the whole document, and the result says which of these it took.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from reverser.errors import YamlRefused

from ..emitter import check_writable, render_object
from ..limits import DEFAULT_LIMITS, Limits
from ..loading import BOM, LoadedDocument, load_document, load_text
from ..nodes import Node
from ..scalars import BOOLEAN_WORDS, resolve_plain
from ..splitting import split_documents
from .compare import equal_as_kubernetes, first_difference
from .fallback import Fallback, Parents, node_at
from .openblock import is_closed_in, open_block, reopened
from .plan import NodeKey, Planner
from .source import PlanConflict, Source, apply_edits
from .target import effective_target

__all__ = [
    "NOT_EDITABLE",
    "EditMode",
    "EditResult",
    "Fallback",
    "edit_body",
    "edit_document",
    "equal_as_kubernetes",
]

NOT_EDITABLE = {
    "duplicate-key": "has a key twice in one mapping; remove one of the two to have the document edited",
    "binary": "holds a !!binary value; write it as a string to have the document edited",
    "local-tag": "holds a local tag (!name), unknown to Kubernetes; remove it to have the document edited",
    "excessive-aliases": "expands to too many nodes through aliases; write it out to have it edited",
}
_ANCHORING = frozenset(("anchor", "alias", "merge-key"))
_MAX_ATTEMPTS = 8


class EditMode(StrEnum):
    """What was done to the document."""

    NO_CHANGE = "no-change"
    PATCHED = "patched"
    WHOLE_REPLACE = "whole-replace"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class EditResult:
    """The bytes after the edit. ``diagnostic`` says why a document was skipped or rewritten, and what can be
    done."""

    data: bytes
    mode: EditMode
    diagnostic: str | None = None
    fallback: Fallback = Fallback.NONE


def edit_document(
    data: bytes,
    index: int,
    desired: Mapping[str, Any],
    *,
    keep: Collection[str] = (),
    optional: Collection[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    as_given: bool = False,
) -> EditResult:
    """Make document ``index`` of a file equal to ``desired``; every other byte of the file stays.

    ``keep`` names JSON pointers at which Git's value stays, present or absent; ``optional`` those of server
    defaults that are not added where Git lacks them. A list index in a pointer counts in ``desired``; ``*``
    stands for each item. With ``as_given`` the keys of new mappings come in their order, not in that of their
    names.
    """
    documents = split_documents(data)
    if not 0 <= index < len(documents):
        return EditResult(data, EditMode.SKIPPED, f"the file has no document {index}; it changed meanwhile")
    document = documents[index]
    result = edit_body(
        document.body(data), desired, keep=keep, optional=optional, limits=limits, as_given=as_given
    )
    if result.mode in (EditMode.NO_CHANGE, EditMode.SKIPPED):
        return EditResult(data, result.mode, result.diagnostic)
    edited = data[: document.start] + result.data + data[document.end :]
    return EditResult(edited, result.mode, result.diagnostic, result.fallback)


def edit_body(
    body: bytes,
    desired: Mapping[str, Any],
    *,
    keep: Collection[str] = (),
    optional: Collection[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    as_given: bool = False,
) -> EditResult:
    """As edit_document, for the bytes of one document alone."""
    try:
        loaded = load_document(body, limits=limits)
    except YamlRefused as error:
        return EditResult(body, EditMode.SKIPPED, f"cannot be read: {error}")
    try:
        check_writable(dict(desired), limits=limits)
    except (TypeError, ValueError) as error:
        return EditResult(body, EditMode.SKIPPED, f"the object cannot be written as YAML: {error}")
    if (refusal := _refusal(loaded, desired)) is not None:
        return EditResult(body, EditMode.SKIPPED, refusal)
    text_keys = _text_keys(loaded, desired)
    block = open_block(loaded.tree.root, loaded.text)
    ending = ""
    if block is not None and is_closed_in(block, desired):
        ending = loaded.text[block.start :]
        newline = "\r\n" if "\r\n" in loaded.text else "\n"
        loaded = load_text(loaded.text + newline, limits=limits, text_keys=text_keys)
    elif text_keys:
        loaded = load_text(loaded.text, limits=limits, text_keys=text_keys)
    target = effective_target(loaded.value, desired, keep=keep, optional=optional)
    if equal_as_kubernetes(loaded.value, target):
        return EditResult(body, EditMode.NO_CHANGE)
    head = BOM.encode() if body.startswith(BOM.encode()) else b""
    only_cr = "\r" in loaded.text and "\n" not in loaded.text
    if only_cr:
        loaded = load_text(loaded.text.replace("\r", "\n"), limits=limits, text_keys=text_keys)
    text, fallback = _edit_text(loaded, target, limits, text_keys, as_given=as_given)
    if text is not None and only_cr:
        text = text.replace("\n", "\r")
    if text is not None:
        if ending:
            text = reopened(text, ending, partial(_reads_as, target, limits=limits, text_keys=text_keys))
        diagnostic = None if fallback is Fallback.NONE else _FALLBACK_TEXT[fallback]
        return EditResult(head + text.encode("utf-8"), EditMode.PATCHED, diagnostic, fallback)
    if loaded.constructs & _ANCHORING:
        return EditResult(
            body,
            EditMode.SKIPPED,
            "the change reaches through an anchor, alias or merge key and cannot be written in place; "
            "write the shared part out in the file",
        )
    return _rewritten(body, loaded, target, limits)


_FALLBACK_TEXT = {
    Fallback.NODE: "a value was written afresh because its spelling could not be kept",
    Fallback.PARENT: "a block was written afresh because a part of it could not be edited in place",
    Fallback.DOCUMENT: "the document was written afresh without its comments: no edit in place was possible",
}


def _refusal(loaded: LoadedDocument, desired: Mapping[str, Any]) -> str | None:
    """Why a document must not be edited at all, or None."""
    if loaded.tree.root is None:
        return "the document is empty"
    if loaded.is_sops:
        return "the document is encrypted; it can only be encrypted anew as a whole"
    for construct, remedy in NOT_EDITABLE.items():
        if construct in loaded.constructs:
            return f"the document {remedy}"
    if not isinstance(loaded.value, Mapping):
        return "the document is not a mapping"
    metadata = desired.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    for found, wanted in ((loaded.kind, desired.get("kind")), (loaded.name, name)):
        if found and wanted and found != wanted:
            return f"the document is another object now ({loaded.kind} {loaded.name}); scan the file again"
    return None


_BOOLEAN_KEY = re.compile(r"(?:^|[\s{,?])(?:y|n|yes|no|on|off|true|false)[ \t]*:", re.IGNORECASE)


def _text_keys(loaded: LoadedDocument, desired: Mapping[str, Any]) -> frozenset[str]:
    """Bare words such as ``on`` that are keys of the desired object and so stand for themselves.

    Readers disagree about such keys: kubectl takes ``on`` for ``true``, kustomize for the word. The live
    object shows which reading was applied.
    """
    keys: set[str] = set()
    stack: list[Any] = [desired]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            keys.update(node)
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)
    words = keys & BOOLEAN_WORDS
    if not words or not _BOOLEAN_KEY.search(loaded.text):
        return frozenset()
    return frozenset(word for word in words if ("true" if resolve_plain(word) else "false") not in keys)


def _reads_as(target: Mapping[str, Any], text: str, *, limits: Limits, text_keys: frozenset[str]) -> bool:
    return equal_as_kubernetes(load_text(text, limits=limits, text_keys=text_keys).value, target)


def _edit_text(
    loaded: LoadedDocument,
    target: Mapping[str, Any],
    limits: Limits,
    text_keys: frozenset[str],
    *,
    as_given: bool,
) -> tuple[str | None, Fallback]:
    """The edited text that reads back as the target, or None; and how far it had to fall back."""

    def read(text: str) -> Any:
        return load_text(text, limits=limits, text_keys=text_keys).value

    source = Source(loaded.text)
    forced: set[NodeKey] = set()
    parents: Parents | None = None
    fallback = Fallback.NONE
    part_moved = False
    for _attempt in range(_MAX_ATTEMPTS):
        planner = Planner(source, loaded.tree, forced=forced, part_moved=part_moved, as_given=as_given)
        suspects: list[Node]
        try:
            plan = planner.plan(target)
            whole = apply_edits(source.work, plan.edits)
            text = source.finish(whole)
            path = first_difference(read(text), target)
            if path is not None and text != whole:
                # A block scalar at the end may need the final newline that the file did without.
                text = whole
                path = first_difference(read(text), target)
        except (PlanConflict, YamlRefused):
            if "alias" in loaded.constructs and not part_moved:
                part_moved = True
                continue
            suspects = list(planner.touched)
        else:
            if path is None:
                return text, max(fallback, Fallback.PARENT if planner.rewrote_block else Fallback.NONE)
            suspects = [node_at(planner, loaded.tree.root, target, path)]
        if parents is None:
            assert loaded.tree.root is not None
            parents = Parents(loaded.tree.root)
        widened = parents.widen(suspects, forced)
        if widened is None:
            break
        fallback = max(fallback, widened)
    return None, Fallback.DOCUMENT


def _rewritten(body: bytes, loaded: LoadedDocument, target: Mapping[str, Any], limits: Limits) -> EditResult:
    """The document in canonical form, with the line endings of the old one."""
    rendered = render_object(target)
    if not equal_as_kubernetes(load_document(rendered, limits=limits).value, target):
        return EditResult(body, EditMode.SKIPPED, "the object cannot be written as YAML that reads the same")
    if b"\r\n" in body:
        rendered = rendered.replace(b"\n", b"\r\n")
    return EditResult(rendered, EditMode.WHOLE_REPLACE, _FALLBACK_TEXT[Fallback.DOCUMENT], Fallback.DOCUMENT)
