"""Comparing what the sandbox answers with a document that has placeholders for what differs from run to run.

A placeholder stands for one value throughout a scenario. Versions must also keep their order: `<rv:3>` is
older than `<rv:5>`. Names that the server generated are placeholders too.
"""

import re
from typing import Any

_PLACEHOLDER = re.compile(r"<(uid|audit-id|rv|time|ca|server|continue)(?::(\d+))?>")
_GENERATED = re.compile(r"^gen-[bcdfghjklmnpqrstvwxz2-9]{5}$")
_FREE = {"time", "ca", "server", "continue"}


def _owner(entry: Any) -> tuple[str, str, str]:
    return entry["manager"], entry["operation"], entry.get("subresource", "")


class Mismatch(AssertionError):
    """The documents differ; the text names the place."""


class Matcher:
    """Binds placeholders as it compares."""

    def __init__(self, ignored: frozenset[str] = frozenset({"fieldsV1"})) -> None:
        self.bound: dict[str, str] = {}
        self._ignored = ignored

    def match(self, expected: Any, actual: Any, where: str = "") -> None:
        """Raises Mismatch where they differ."""
        if isinstance(expected, dict) and isinstance(actual, dict):
            left = {k: v for k, v in expected.items() if k not in self._ignored}
            right = {k: v for k, v in actual.items() if k not in self._ignored}
            if left.keys() != right.keys():
                raise Mismatch(
                    f"{where}: missing {sorted(left.keys() - right.keys())}, "
                    f"unexpected {sorted(right.keys() - left.keys())}"
                )
            for key, value in left.items():
                below = right[key]
                if key == "managedFields" and isinstance(below, list):
                    # Their order depends on the second in which each was written.
                    value, below = sorted(value, key=_owner), sorted(below, key=_owner)
                self.match(value, below, f"{where}.{key}")
        elif isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                raise Mismatch(f"{where}: {len(expected)} items expected, got {len(actual)}: {actual}")
            for index, value in enumerate(expected):
                self.match(value, actual[index], f"{where}[{index}]")
        elif isinstance(expected, str) and isinstance(actual, str):
            self._match_text(expected, actual, where)
        elif expected != actual or type(expected) is not type(actual):
            raise Mismatch(f"{where}: expected {expected!r}, got {actual!r}")

    def fill(self, value: Any) -> Any:
        """A document with its bound placeholders replaced."""
        if isinstance(value, dict):
            return {key: self.fill(below) for key, below in value.items()}
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        if isinstance(value, str):
            return _PLACEHOLDER.sub(lambda m: self.bound.get(m.group(0), m.group(0)), value)
        return value

    def check_order(self) -> None:
        """Versions are in the order of their placeholders."""
        versions = sorted(
            (int(key[4:-1]), int(value)) for key, value in self.bound.items() if key.startswith("<rv:")
        )
        actual = [value for _, value in versions]
        if actual != sorted(set(actual)):
            raise Mismatch(f"versions are out of order: {versions}")

    def _match_text(self, expected: str, actual: str, where: str) -> None:
        if _GENERATED.match(expected):
            if not _GENERATED.match(actual):
                raise Mismatch(f"{where}: {actual!r} is not a generated name")
            self._bind(expected, actual, where)
            return
        found = _PLACEHOLDER.fullmatch(expected)
        if found is None:
            if expected != actual:
                raise Mismatch(f"{where}: expected {expected!r}, got {actual!r}")
            return
        if found.group(1) in _FREE:
            if not actual:
                raise Mismatch(f"{where}: empty")
            return
        self._bind(expected, actual, where)

    def _bind(self, placeholder: str, actual: str, where: str) -> None:
        held = self.bound.setdefault(placeholder, actual)
        if held != actual:
            raise Mismatch(f"{where}: {placeholder} is {held!r}, got {actual!r}")
