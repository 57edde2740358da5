"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch, on plain values.

Every function returns a new document and leaves its arguments as they were, because the caller keeps the
stored object for the optimistic-concurrency check. Strategic merge follows the facts of `mergekeys`, which
the OpenAPI documents publish too, so that what kubectl computes and what the server applies agree.
"""

import copy
import json
from typing import Any

from reverser.sandbox.mergekeys import ListStrategy, MergeNode, merge_schema

Json = Any

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_PRIMITIVE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class PatchError(Exception):
    """A patch that cannot be applied; `code` and `reason` are those of the Status to answer with."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


# --- JSON merge patch -------------------------------------------------------------------------------


def merge_patch(doc: Json, patch: Json) -> Json:
    """RFC 7386: a null removes a key, an object merges, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(doc) if isinstance(doc, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return copy.deepcopy(result)


# --- JSON patch -------------------------------------------------------------------------------------


def json_patch(doc: Json, ops: Json) -> Json:
    """RFC 6902 with the API server's errors: a patch that does not fit is 422, one that is no patch 400."""
    if not isinstance(ops, list):
        raise PatchError(400, "BadRequest", "error decoding patch: a JSON patch must be a list of operations")
    result = copy.deepcopy(doc)
    for op in ops:
        result = _apply_operation(result, op)
    return result


def _apply_operation(doc: Json, op: Json) -> Json:
    if not isinstance(op, dict) or not isinstance(op.get("path"), str):
        raise PatchError(400, "BadRequest", "error decoding patch: every operation needs a path")
    kind, path = op.get("op"), op["path"]
    tokens = _tokens(path)
    if kind in ("add", "replace", "test") and "value" not in op:
        raise PatchError(400, "BadRequest", f"error decoding patch: operation {kind} needs a value")
    if kind == "add":
        return _add(doc, tokens, copy.deepcopy(op["value"]), path)
    if kind == "remove":
        return _remove(doc, tokens, path, "remove")[0]
    if kind == "replace":
        if not tokens:
            return copy.deepcopy(op["value"])
        _get(doc, tokens, path, "replace")
        parent = _get(doc, tokens[:-1], path, "replace")
        parent[_index(parent, tokens[-1], path, "replace")] = copy.deepcopy(op["value"])
        return doc
    if kind in ("move", "copy"):
        if not isinstance(op.get("from"), str):
            raise PatchError(400, "BadRequest", f"error decoding patch: operation {kind} needs from")
        source = _tokens(op["from"])
        if kind == "move":
            if tokens[: len(source)] == source and len(tokens) > len(source):
                raise _unfit()
            doc, value = _remove(doc, source, op["from"], "move")
        else:
            value = copy.deepcopy(_get(doc, source, op["from"], "copy"))
        return _add(doc, tokens, value, path)
    if kind == "test":
        if not _same(_get(doc, tokens, path, "test", missing=None), op["value"]):
            raise _unfit()
        return doc
    raise PatchError(400, "BadRequest", f"Unexpected kind: {kind}")


def _same(left: Json, right: Json) -> bool:
    """Equality of JSON values: true is not 1, and 1 is 1.0."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True) or (
        not isinstance(left, bool)
        and not isinstance(right, bool)
        and isinstance(left, int | float)
        and isinstance(right, int | float)
        and left == right
    )


def _unfit() -> PatchError:
    """422 for operations that do not fit the document; the server does not tell which."""
    return PatchError(422, "Invalid", "the server rejected our request due to an error in our request")


def _tokens(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise PatchError(400, "BadRequest", f"error decoding patch: path {path!r} must start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


_REQUIRED = object()


def _get(doc: Json, tokens: list[str], path: str, op: str, *, missing: Json = _REQUIRED) -> Json:
    for token in tokens:
        try:
            doc = doc[_index(doc, token, path, op)]
        except PatchError:
            if missing is _REQUIRED:
                raise
            return missing
    return doc


def _index(container: Json, token: str, path: str, op: str, *, inserting: bool = False) -> Any:
    if isinstance(container, dict):
        if not inserting and token not in container:
            raise _unfit()
        return token
    if isinstance(container, list):
        if inserting and token == "-":  # noqa: S105
            return len(container)
        if not (token.isascii() and token.isdigit()) or (len(token) > 1 and token[0] == "0"):
            raise _unfit()
        position = int(token)
        if position > len(container) - (0 if inserting else 1):
            raise _unfit()
        return position
    raise _unfit()


def _add(doc: Json, tokens: list[str], value: Json, path: str) -> Json:
    if not tokens:
        return value
    parent = _get(doc, tokens[:-1], path, "add")
    key = _index(parent, tokens[-1], path, "add", inserting=True)
    if isinstance(parent, list):
        parent.insert(key, value)
    else:
        parent[key] = value
    return doc


def _remove(doc: Json, tokens: list[str], path: str, op: str) -> tuple[Json, Json]:
    if not tokens:
        return None, doc
    parent = _get(doc, tokens[:-1], path, op)
    key = _index(parent, tokens[-1], path, op)
    return doc, parent.pop(key)


# --- strategic merge patch --------------------------------------------------------------------------


def strategic_merge_patch(kind_key: tuple[str, str], doc: Json, patch: Json) -> Json:
    """Apply a strategic merge patch to an object of the built-in type `(group, kind)`.

    Understands `$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList/…` and
    `$setElementOrder/…`. Raises PatchError (422 or 400) where the patch contradicts itself.
    """
    if not isinstance(patch, dict):
        raise PatchError(400, "BadRequest", "error decoding patch: a strategic merge patch must be an object")
    return _merge_map(copy.deepcopy(doc), copy.deepcopy(patch), merge_schema(*kind_key))


def _merge_map(doc: dict[str, Json], patch: dict[str, Json], schema: MergeNode) -> dict[str, Json]:
    directive = patch.pop(_DIRECTIVE, None)
    if directive == "replace":
        return _strip_map(patch)
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(400, "BadRequest", f"Unknown patch type: {directive}")
    retain = patch.pop(_RETAIN, None)
    if retain is not None:
        if not isinstance(retain, list):
            raise PatchError(400, "BadRequest", "invalid retainKeys format")
        if any(key not in retain for key, value in patch.items() if value is not None and key[:1] != "$"):
            raise PatchError(400, "BadRequest", f"retainKeys list {retain} doesn't contain all patched keys")
        doc = {key: value for key, value in doc.items() if key in retain}
    deletions = {
        k[len(_DELETE_PRIMITIVE) :]: patch.pop(k) for k in list(patch) if k.startswith(_DELETE_PRIMITIVE)
    }
    orders = {k[len(_ORDER) :]: patch.pop(k) for k in list(patch) if k.startswith(_ORDER)}
    for key, unwanted in deletions.items():
        if isinstance(doc.get(key), list):
            doc[key] = [item for item in doc[key] if item not in unwanted]
    for key, value in patch.items():
        child = schema.child(key)
        if value is None:
            doc.pop(key, None)
        elif isinstance(value, dict):
            current = doc.get(key)
            if child.replace_map or not isinstance(current, dict):
                doc[key] = _strip_directives(value)
            else:
                doc[key] = _merge_map(current, value, child)
        elif isinstance(value, list) and child.strategy is not ListStrategy.ATOMIC:
            current = doc.get(key)
            live = current if isinstance(current, list) else []
            merged = _merge_list(live, value, child)
            order = orders.pop(key, None)
            doc[key] = merged if order is None else _sorted(merged, order, live, child)
        else:
            doc[key] = value
    for key, order in orders.items():
        if isinstance(doc.get(key), list):
            doc[key] = _sorted(doc[key], order, doc[key], schema.child(key))
    return doc


def _strip_map(value: dict[str, Json]) -> dict[str, Json]:
    return {k: _strip_directives(v) for k, v in value.items() if v is not None and not k.startswith("$")}


def _strip_directives(value: Json) -> Json:
    """A value that has nothing to merge with: its nulls and directives mean nothing and vanish."""
    if isinstance(value, dict):
        if value.get(_DIRECTIVE) == "delete":
            return {}
        return _strip_map(value)
    if isinstance(value, list):
        return [
            _strip_directives(item)
            for item in value
            if not (isinstance(item, dict) and item.get(_DIRECTIVE) in ("delete", "replace"))
        ]
    return value


def _merge_list(live: list[Json], patch: list[Json], schema: MergeNode) -> list[Json]:
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return _strip_directives(patch)  # type: ignore[no-any-return]
    if schema.strategy is ListStrategy.SET:
        merged = list(live)
        merged.extend(item for item in patch if item not in merged)
        return _sorted(merged, patch, live, schema)
    key = schema.merge_key
    result = list(live)
    touched: list[Json] = []
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise PatchError(422, "Invalid", f"map: {item} does not contain declared merge key: {key}")
        positions = [i for i, old in enumerate(result) if isinstance(old, dict) and old.get(key) == item[key]]
        if item.get(_DIRECTIVE) == "delete":
            result = [old for i, old in enumerate(result) if i not in positions]
            continue
        if positions:
            merged_item = _merge_map(result[positions[0]], item, schema.item())
        else:
            merged_item = _strip_directives(item)
            result.append(merged_item)
            positions = [len(result) - 1]
        result[positions[0]] = merged_item
        touched.append(merged_item)
    return _sorted(result, touched, live, schema)


def _sorted(merged: list[Json], order: list[Json], server_order: list[Json], schema: MergeNode) -> list[Json]:
    """Order a merged list: items named by `order` in that order, the others as the server had them.

    The two sequences are interleaved by the position the items had on the server; an item that the server did
    not have comes before whatever still waits.
    """
    key = schema.merge_key if schema.strategy is ListStrategy.MAP else None

    def ident(item: Json) -> str:
        return json.dumps(item.get(key) if key and isinstance(item, dict) else item, sort_keys=True)

    wanted = {ident(item): index for index, item in reversed(list(enumerate(order)))}
    old = {ident(item): index for index, item in reversed(list(enumerate(server_order)))}
    named = sorted((i for i in merged if ident(i) in wanted), key=lambda i: wanted[ident(i)])
    others = sorted((i for i in merged if ident(i) not in wanted), key=lambda i: old.get(ident(i), len(old)))
    result: list[Json] = []
    while named and others:
        left, right = old.get(ident(others[0])), old.get(ident(named[0]))
        take_other = left is not None and right is not None and left < right
        result.append(others.pop(0) if take_other else named.pop(0))
    return result + named + others
