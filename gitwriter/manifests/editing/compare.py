"""Equality of two objects as Kubernetes sees it, and where two objects first differ.

A notation is not a value: ``1.0`` equals ``1``. A type is: ``"3"`` is not ``3`` and ``true`` is not ``1``.
Integers are compared exactly as far as the API keeps them exact (64 bits); beyond that the API stores a
floating-point number, so two integers that round to the same one are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..scalars import INT64_MAX, INT64_MIN

Path = tuple[str | int, ...]


def equal_scalars(left: Any, right: Any) -> bool:
    """Equality of two scalars."""
    if type(left) is type(right) is str:
        return bool(left == right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        if left == right:
            return True
        if isinstance(left, int) and INT64_MIN <= left <= INT64_MAX:
            return False
        if isinstance(right, int) and INT64_MIN <= right <= INT64_MAX:
            return False
        return float(left) == float(right)
    return type(left) is type(right) and bool(left == right)


def equal_as_kubernetes(left: Any, right: Any) -> bool:
    """True when both objects are the same to Kubernetes."""
    if left is right:
        return True
    kind = type(left)
    if kind is str:
        return bool(left == right)
    if kind is dict or isinstance(left, Mapping):
        if not isinstance(right, Mapping) or len(left) != len(right):
            return False
        for key, value in left.items():
            if key not in right or not equal_as_kubernetes(value, right[key]):
                return False
        return True
    if kind is list or kind is tuple:
        if not isinstance(right, list | tuple) or len(left) != len(right):
            return False
        return all(map(equal_as_kubernetes, left, right))
    return equal_scalars(left, right)


def first_difference(left: Any, right: Any) -> Path | None:
    """Path to the first place at which the objects differ, or None where they are equal."""
    if equal_as_kubernetes(left, right):
        return None
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in left:
            if key not in right:
                return (key,)
        for key, value in right.items():
            if key not in left:
                return (key,)
            if (path := first_difference(left[key], value)) is not None:
                return (key, *path)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            return ()
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            if (path := first_difference(one, other)) is not None:
                return (index, *path)
    return ()


def pointer_of(path: Path) -> str:
    """The path as a JSON pointer; that of the whole object is ``/``."""
    return "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)
