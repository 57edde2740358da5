"""What a document should say, given what it says now.

Three things make this differ from the live object: fields that only Git holds, server defaults that a
hand-written file left out, and lists whose order means nothing. Resolving them before anything is compared
keeps the comparison itself plain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from .alignment import align
from .compare import equal_as_kubernetes

_ABSENT: Final = object()
_END: Final = None  # key of a trie node at which a pointer ends
_Trie = dict[Any, Any]
_MAX_COMPARED: Final = 500  # each item is compared with each; nobody writes longer lists of these by hand
_NO_TRIE: Final[_Trie] = {}

# Lists that the API server reorders at will: order carries no meaning there. The kind is None where it holds
# for every object; a list of the same name in another kind may well be ordered.
_UNORDERED: Final = (
    (None, ("metadata", "finalizers")),
    (None, ("metadata", "ownerReferences")),
    ("HorizontalPodAutoscaler", ("spec", "metrics")),
    ("PersistentVolume", ("spec", "accessModes")),
    ("PersistentVolumeClaim", ("spec", "accessModes")),
    ("ServiceAccount", ("secrets",)),
    ("ServiceAccount", ("imagePullSecrets",)),
)


def effective_target(
    current: Mapping[str, Any],
    desired: Mapping[str, Any],
    *,
    keep: Collection[str] = (),
    optional: Collection[str] = (),
) -> dict[str, Any]:
    """The object that the document should hold after the edit.

    ``keep`` and ``optional`` are JSON pointers; a list index counts in ``desired`` and ``*`` stands for every
    item. At a kept pointer Git's value stays, present or absent. An optional pointer is not added where Git
    lacks it.
    """
    target = dict(desired)
    if keep or optional:
        merged = _merge(current, target, _trie(keep), _trie(optional))
        target = merged if isinstance(merged, dict) else {}
    _settle_metadata(current, target)
    for kind, path in _UNORDERED:
        if kind in (None, target.get("kind")):
            _follow_order(current, target, path)
    return target


def _trie(pointers: Collection[str]) -> _Trie:
    root: _Trie = {}
    for pointer in pointers:
        node = root
        for part in pointer.split("/")[1:]:
            node = node.setdefault(part.replace("~1", "/").replace("~0", "~"), {})
        node[_END] = True
    return root


def _merge(current: Any, desired: Any, keep: _Trie, optional: _Trie) -> Any:
    if _END in keep:
        return current
    if not keep and not optional:
        return desired
    if isinstance(desired, Mapping):
        return _merge_mapping(current, desired, keep, optional)
    if isinstance(desired, list | tuple):
        return _merge_list(current, desired, keep, optional)
    return desired


def _merge_mapping(current: Any, desired: Mapping[str, Any], keep: _Trie, optional: _Trie) -> Any:
    known = current if isinstance(current, Mapping) else {}
    result: dict[str, Any] = {}
    for key, value in desired.items():
        below = optional.get(key, _NO_TRIE)
        if key not in known and _END in below:
            continue
        merged = _merge(known.get(key, _ABSENT), value, keep.get(key, _NO_TRIE), below)
        if merged is not _ABSENT:
            result[key] = merged
    for key, below in keep.items():
        if key is not _END and key not in desired and key in known:
            kept = _kept_part(known[key], below)
            if kept is not _ABSENT:
                result[key] = kept
    return _ABSENT if desired and not result and current is _ABSENT else result


def _merge_list(current: Any, desired: Sequence[Any], keep: _Trie, optional: _Trie) -> list[Any]:
    known = current if isinstance(current, list) else []
    match = align(known, desired).match
    result: list[Any] = []
    for index, value in enumerate(desired):
        old = match[index]
        merged = _merge(
            _ABSENT if old is None else known[old],
            value,
            keep.get(str(index)) or keep.get("*", _NO_TRIE),
            optional.get(str(index)) or optional.get("*", _NO_TRIE),
        )
        result.append({} if merged is _ABSENT else merged)
    return result


def _kept_part(value: Any, keep: _Trie) -> Any:
    """The part of Git's value that kept pointers reach, for a parent that the live object lacks."""
    if _END in keep:
        return value
    if not isinstance(value, Mapping):
        return _ABSENT
    parts = {key: _kept_part(value[key], below) for key, below in keep.items() if key in value}
    parts = {key: part for key, part in parts.items() if part is not _ABSENT}
    return parts or _ABSENT


def _settle_metadata(current: Mapping[str, Any], target: dict[str, Any]) -> None:
    """Empty labels and annotations mean the same as none: whichever Git has stays."""
    metadata = target.get("metadata")
    if not isinstance(metadata, Mapping):
        return
    known = current.get("metadata")
    known = known if isinstance(known, Mapping) else {}
    settled = dict(metadata)
    for key in ("labels", "annotations"):
        if not settled.get(key):
            settled.pop(key, None)
            if key in known and known[key] in ({}, None):
                settled[key] = known[key]
    target["metadata"] = settled


def _follow_order(current: Mapping[str, Any], target: dict[str, Any], path: tuple[str, ...]) -> None:
    """Put the target's list at the path into Git's order, new items last."""
    old: Any = current
    parent: Any = target
    for key in path[:-1]:
        old = old.get(key) if isinstance(old, Mapping) else None
        parent = parent.get(key) if isinstance(parent, Mapping) else None
    if not isinstance(old, Mapping) or not isinstance(parent, Mapping):
        return
    known, wanted = old.get(path[-1]), parent.get(path[-1])
    if not isinstance(known, list) or not isinstance(wanted, list) or known == wanted:
        return
    replaced = {**parent, path[-1]: _in_order_of(known, wanted)}
    if len(path) == 1:
        target.update(replaced)
    else:
        target[path[0]] = replaced


def _in_order_of(known: list[Any], wanted: list[Any]) -> list[Any]:
    """The wanted items in the order of the known ones: equal ones first, then each changed one where the
    item stands that it is most like, so that a changed item keeps its place and its comments."""
    if max(len(known), len(wanted)) > _MAX_COMPARED:
        return wanted
    rest = list(wanted)
    slots: list[list[Any]] = [[] for _item in known]
    changed = []
    for slot, item in zip(slots, known, strict=True):
        found = next((i for i, other in enumerate(rest) if equal_as_kubernetes(item, other)), None)
        if found is None:
            changed.append((slot, item))
        else:
            slot.append(rest.pop(found))
    same_number = len(changed) == len(rest)
    for slot, item in changed:
        alike = [_likeness(item, other) for other in rest]
        best = max(alike, default=0)
        if rest and (best or same_number):
            slot.append(rest.pop(alike.index(best)))
    return [item for slot in slots for item in slot] + rest


def _likeness(left: Any, right: Any) -> int:
    """How many scalars two values have in common at the same place."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return sum(_likeness(value, right[key]) for key, value in left.items() if key in right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return sum(_likeness(one, other) for one, other in zip(left, right, strict=False))
    return int(equal_as_kubernetes(left, right))
