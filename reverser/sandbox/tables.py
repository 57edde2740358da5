"""Tables: the rows and columns `kubectl get` prints.

The server renders them, so that a client needs to know nothing about a type. Custom resources take their
columns from the definition, built-in types from `columns`; both start with the name. Ages are words relative
to now, because kubectl prints what it is given.
"""

import datetime
from collections.abc import Sequence
from typing import Any

from reverser.sandbox.causes import go_value
from reverser.sandbox.columns import NAME, builtin_columns
from reverser.sandbox.jsonpath import find
from reverser.sandbox.times import age
from reverser.sandbox.types import PrinterColumn, ResourceType

Object = dict[str, Any]


def render_table(
    rtype_or_columns: ResourceType | Sequence[PrinterColumn],
    objects: Sequence[Object],
    *,
    list_meta: Object,
    now: datetime.datetime | None = None,
) -> Object:
    """A meta.k8s.io/v1 Table of the objects, without the rows' `object`, which the caller chooses.

    A built-in type is rendered with the columns it has on a real server; a sequence of columns (without the
    name, which is always first) renders custom resources.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    if isinstance(rtype_or_columns, ResourceType):
        columns = builtin_columns(rtype_or_columns.group, rtype_or_columns.kind)
        definitions = [column.definition for column in columns]
        rows = [[column.cell(obj, now) for column in columns] for obj in objects]
    else:
        definitions = [NAME, *rtype_or_columns]
        rows = [
            [
                obj.get("metadata", {}).get("name", ""),
                *(_custom_cell(column, obj, now) for column in rtype_or_columns),
            ]
            for obj in objects
        ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": [_definition(column) for column in definitions],
        "rows": [{"cells": cells} for cells in rows],
    }


def _definition(column: PrinterColumn) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _custom_cell(column: PrinterColumn, obj: Object, now: datetime.datetime) -> Any:
    """The first value at the column's path in the column's type, null where there is none."""
    try:
        found = find(column.json_path, obj)
    except ValueError:
        return None
    if not found:
        return None
    value = found[0]
    if column.type == "string":
        return _text(value)
    if column.type == "integer":
        return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if column.type == "number":
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if column.type == "boolean":
        return value if isinstance(value, bool) else None
    if column.type == "date":
        return age(value, now) if isinstance(value, str) else None
    return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<none>"
    return go_value(value)
