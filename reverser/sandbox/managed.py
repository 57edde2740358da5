"""`metadata.managedFields` of ordinary writes: who last set which field.

A create or update makes its manager the owner of every field it changed and takes those fields from all
others; fields that vanish vanish from every owner. Its time is when a manager last set something: what only
takes away is not timed. Paths are tuples of `fieldsV1` keys (`f:spec`,
`k:{"name":"c"}`), lists that merge by key are followed as `mergekeys` describes them, all others are one
field.
"""

import json
from collections.abc import Collection, Iterator
from typing import Any

from reverser.sandbox.mergekeys import ListStrategy, MergeNode

Obj = dict[str, Any]
Path = tuple[str, ...]

_NEVER = frozenset({"apiVersion", "kind"})
_NEVER_METADATA = frozenset(
    {
        "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
        "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
    }
)  # fmt: skip
#: Fields that are maps, not structures: owning an entry owns the map itself too (`.`).
_MAPS = frozenset(
    {
        "f:labels", "f:annotations", "f:data", "f:binaryData", "f:matchLabels", "f:nodeSelector", "f:limits",
        "f:requests", "f:parameters", "f:selector",
    }
)  # fmt: skip


def manager_of(field_manager: str, user_agent: str) -> str:
    """The manager's name: what the request says, else the program part of the user agent."""
    return field_manager or user_agent.split("/", 1)[0][:128] or "unknown"


def track(
    live: Obj | None,
    new: Obj,
    *,
    manager: str,
    api_version: str,
    subresource: str,
    time: str,
    schema: MergeNode,
) -> list[Obj]:
    """The managedFields of `new` after `manager` wrote it over `live`."""
    before = dict(fields_of(live, schema)) if live is not None else {}
    after = dict(fields_of(new, schema))
    entries: list[Obj] = list((live or {}).get("metadata", {}).get("managedFields") or [])
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    if not changed and not removed:
        return entries
    kept: list[Obj] = []
    own: Obj | None = None
    for entry in entries:
        paths = as_held(to_paths(entry.get("fieldsV1") or {}), before.keys() | after.keys())
        mine = entry["operation"] == "Update" and (
            entry["manager"],
            entry["apiVersion"],
            entry.get("subresource", ""),
        ) == (manager, api_version, subresource)
        rest = (paths | changed) - removed if mine else paths - changed - removed
        took = mine and bool(changed)
        if rest == paths and not took:
            kept.append(entry)
        elif rest:
            kept.append(_entry(entry, rest, time if took else ""))
        if mine:
            own = entry
    if own is None and changed:
        fresh: Obj = {
            "manager": manager,
            "operation": "Update",
            "apiVersion": api_version,
            "time": time,
            "fieldsType": "FieldsV1",
        }
        if subresource == "scale":
            del fresh["time"]
        if subresource:
            fresh["subresource"] = subresource
        kept.append(_entry(fresh, changed, ""))
    return in_order(kept)


def in_order(entries: list[Obj]) -> list[Obj]:
    """The order a server keeps entries in: operation, time, manager, version, subresource."""
    return sorted(
        entries,
        key=lambda e: (
            e["operation"],
            e.get("time", ""),
            e["manager"],
            e["apiVersion"],
            e.get("subresource", ""),
        ),
    )


def to_paths(fields: Obj, prefix: Path = ()) -> set[Path]:
    """`fieldsV1` as a set of paths."""
    found: set[Path] = set()
    for key, below in fields.items():
        if below:
            found |= to_paths(below, (*prefix, key))
        else:
            found.add((*prefix, key))
    return found


def to_fields(paths: set[Path]) -> Obj:
    """A set of paths as `fieldsV1`."""
    fields: Obj = {}
    for path in sorted(paths):
        node = fields
        for key in path:
            node = node.setdefault(key, {})
    return _folded(fields)


def _folded(fields: Obj) -> Obj:
    """A map of which nothing but itself is owned is written as a plain field."""
    return {key: {} if below == {".": {}} else _folded(below) for key, below in fields.items()}


def as_held(paths: set[Path], held: Collection[Path]) -> set[Path]:
    """Paths out of `fieldsV1` as `fields_of` names them: a plain field may be a map that is owned itself."""
    return {(*path, ".") if path not in held and (*path, ".") in held else path for path in paths}


def _entry(entry: Obj, paths: set[Path], time: str) -> Obj:
    subresource = entry.get("subresource")
    fresh = {key: value for key, value in entry.items() if key not in ("fieldsV1", "subresource")}
    if time and "time" in fresh:
        fresh["time"] = time
    fresh["fieldsV1"] = to_fields(paths)
    if subresource:
        fresh["subresource"] = subresource
    return fresh


def fields_of(obj: Obj, schema: MergeNode) -> Iterator[tuple[Path, Any]]:
    """Every field of an object that can be owned, with its value."""
    for key, value in obj.items():
        if key in _NEVER:
            continue
        if key == "metadata":
            for inner, below in value.items():
                if inner not in _NEVER_METADATA:
                    yield from _walk(below, ("f:metadata", f"f:{inner}"), schema.child(key).child(inner))
        else:
            yield from _walk(value, (f"f:{key}",), schema.child(key), maps=schema.schemaless)


def _walk(value: Any, path: Path, node: MergeNode, *, maps: bool = False) -> Iterator[tuple[Path, Any]]:
    """``maps``: every map can be owned itself, as in objects whose type has no structures."""
    if isinstance(value, dict) and value:
        if maps or path[-1] in _MAPS or path[-1].startswith("k:"):
            yield (*path, "."), None
        for key, below in value.items():
            yield from _walk(below, (*path, f"f:{key}"), node.child(key), maps=maps)
        return
    if isinstance(value, list) and value and node.strategy is not ListStrategy.ATOMIC:
        yield (*path, "."), None
        for item in value:
            if node.strategy is ListStrategy.SET or not isinstance(item, dict):
                yield (*path, f"v:{json.dumps(item, separators=(',', ':'))}"), None
                continue
            keys = {k: item.get(k, node.key_defaults.get(k)) for k in node.keys}
            identity = json.dumps(keys, separators=(",", ":"), sort_keys=True)
            yield from _walk(item, (*path, f"k:{identity}"), node.item(), maps=maps)
        return
    yield path, value
