"""A document, a change of its object, and the file after the edit."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from gitwriter.manifests.editing import EditMode, Fallback, edit_document
from gitwriter.manifests.loading import load_document
from gitwriter.manifests.splitting import split_documents

HEAD = "apiVersion: v1\nkind: Thing\nmetadata:\n  name: menu\n"


def changed(before: str, *changes: tuple[str, Any], index: int = 0) -> dict[str, Any]:
    """The object of a document with values set at JSON pointers (`...` removes)."""
    data = before.encode()
    loaded = load_document(split_documents(data)[index].body(data)).value
    value: dict[str, Any] = json.loads(json.dumps(loaded))
    for pointer, new in changes:
        *path, last = pointer.split("/")[1:]
        node: Any = value
        for step in path:
            node = node[int(step) if isinstance(node, list) else step]
        key: Any = int(last) if isinstance(node, list) else last
        if new is ...:
            del node[key]
        elif isinstance(node, list) and key == len(node):
            node.append(new)
        else:
            node[key] = new
    return value


def edited(before: str, desired: dict[str, Any], *, index: int = 0, **pointers: Collection[str]) -> str:
    """The file after the edit, after checking that it reads as desired and that a second run changes
    nothing."""
    result = edit_document(before.encode(), index, desired, **pointers)
    assert result.mode is EditMode.PATCHED, result.diagnostic
    assert result.fallback is Fallback.NONE, result.diagnostic
    again = edit_document(result.data, index, desired, **pointers)
    assert (again.mode, again.data) == (EditMode.NO_CHANGE, result.data)
    return result.data.decode()
