"""Server-side apply: merge what a manager wants into the live object, and keep who owns which field.

A field that another manager owns with another value is a conflict, unless forced; a field that this manager
applied before and leaves out now is removed, unless somebody else owns it too.
"""

import copy
import json
from typing import Any

from reverser.sandbox.managed import Path, as_held, fields_of, in_order, to_fields, to_paths
from reverser.sandbox.mergekeys import ListStrategy, MergeNode
from reverser.sandbox.status import ApiError

Obj = dict[str, Any]


def apply_patch(
    live: Obj | None,
    patch: Obj,
    *,
    manager: str,
    force: bool,
    api_version: str,
    subresource: str,
    time: str,
    schema: MergeNode,
) -> tuple[Obj, list[Obj]]:
    """The merged object and its managedFields. Raises 409 with one cause per conflicting field."""
    # Applying an entry of a map does not own the map itself.
    wanted = {
        path: value
        for path, value in fields_of(patch, schema)
        if path[-1] != "." or path[-2].startswith("k:")
    }
    held = dict(fields_of(live, schema)) if live is not None else {}
    entries: list[Obj] = list((live or {}).get("metadata", {}).get("managedFields") or [])
    mine = [e for e in entries if _is_mine(e, manager, subresource)]
    others = [(e, as_held(to_paths(e.get("fieldsV1") or {}), held)) for e in entries if e not in mine]
    clashes = [
        (entry, sorted(p for p in paths & wanted.keys() if p in held and held[p] != wanted[p]))
        for entry, paths in others
    ]
    clashes = [(entry, paths) for entry, paths in clashes if paths]
    if clashes and not force:
        raise _conflict(clashes)
    merged = _merge(copy.deepcopy(live), patch, schema) if live is not None else copy.deepcopy(patch)
    before = to_paths(mine[0].get("fieldsV1") or {}) if mine else set()
    kept_by_others = set().union(*(paths for _, paths in others))
    for path in before - wanted.keys() - kept_by_others:
        _remove(merged, path)
    taken = {path for _, paths in clashes for path in paths}
    result = []
    for entry, paths in others:
        rest = paths - taken
        if rest == paths:
            result.append(entry)
        elif rest:
            result.append(entry | {"fieldsV1": to_fields(rest)})
    unchanged = bool(mine) and before == wanted.keys() and live is not None and _same(live, merged)
    own: Obj = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": api_version,
        "time": mine[0].get("time", time) if unchanged else time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields(set(wanted)),
    }
    if subresource:
        own["subresource"] = subresource
    if wanted:  # who gives up everything is not listed any more
        result.append(own)
    return merged, in_order(result)


def _is_mine(entry: Obj, manager: str, subresource: str) -> bool:
    return (entry["manager"], entry["operation"], entry.get("subresource", "")) == (
        manager,
        "Apply",
        subresource,
    )


def _same(live: Obj, merged: Obj) -> bool:
    return {k: v for k, v in live.items() if k != "metadata"} == {
        k: v for k, v in merged.items() if k != "metadata"
    } and all(live["metadata"].get(k) == v for k, v in merged["metadata"].items() if k != "managedFields")


def _merge(live: Any, patch: Any, node: MergeNode) -> Any:
    if isinstance(live, dict) and isinstance(patch, dict):
        for key, value in patch.items():
            live[key] = _merge(live[key], value, node.child(key)) if key in live else copy.deepcopy(value)
        return live
    if isinstance(live, list) and isinstance(patch, list) and node.strategy is not ListStrategy.ATOMIC:
        if node.strategy is ListStrategy.SET:
            return live + [item for item in patch if item not in live]
        result = list(live)
        for item in patch:
            identity = _identity(item, node)
            position = next((i for i, old in enumerate(result) if _identity(old, node) == identity), None)
            if position is None:
                result.append(copy.deepcopy(item))
            else:
                result[position] = _merge(result[position], item, node.item())
        return result
    return copy.deepcopy(patch)


def _identity(item: Any, node: MergeNode) -> Any:
    if not isinstance(item, dict):
        return item
    return {key: item.get(key, node.key_defaults.get(key)) for key in node.keys}


def _remove(value: Any, path: Path) -> None:
    """Take the field at a path away, and the maps that become empty by it."""
    key, rest = path[0], path[1:]
    kind, _, name = key.partition(":")
    if kind == "f" and isinstance(value, dict) and name in value:
        if not rest or rest == (".",):
            if not rest or not value[name]:
                del value[name]
            return
        _remove(value[name], rest)
        if value[name] in ({}, []):
            del value[name]
    elif kind == "k" and isinstance(value, list):
        wanted = json.loads(name)
        for item in list(value):
            if isinstance(item, dict) and all(item.get(k) == v for k, v in wanted.items()):
                if rest and rest != (".",):
                    _remove(item, rest)
                if item.keys() <= wanted.keys():
                    value.remove(item)
    elif kind == "v" and isinstance(value, list) and json.loads(name) in value:
        value.remove(json.loads(name))


def _conflict(clashes: list[tuple[Obj, list[Path]]]) -> ApiError:
    causes, texts = [], []
    count = 0
    for entry, paths in clashes:
        who = f'"{entry["manager"]}"'
        if entry.get("subresource"):
            who += f' with subresource "{entry["subresource"]}"'
        who += f" using {entry['apiVersion']}"
        shown = [_shown(path) for path in paths]
        count += len(shown)
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": field}
            for field in shown
        ]
        if len(shown) == 1:
            texts.append(f"conflict with {who}: {shown[0]}")
        else:
            texts.append(f"conflicts with {who}:\n" + "\n".join(f"- {field}" for field in shown))
    plural = "" if count == 1 else "s"
    return ApiError(
        409,
        "Conflict",
        f"Apply failed with {count} conflict{plural}: " + "\n".join(texts),
        details={"causes": causes},
    )


def _shown(path: Path) -> str:
    text = ""
    for key in path:
        kind, _, name = key.partition(":")
        if kind == "f":
            text += f".{name}"
        elif kind == "k":
            listed = ",".join(f"{k}={json.dumps(v)}" for k, v in json.loads(name).items())
            text += f"[{listed}]"
        elif kind == "v":
            text += f"[={name}]"
    return text
