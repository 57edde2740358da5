"""When a manager's entry gets a new time, and when it goes: as a server of 1.36 was seen to do it."""

from __future__ import annotations

from typing import Any

from reverser.sandbox.apply import apply_patch
from reverser.sandbox.managed import track
from reverser.sandbox.mergekeys import merge_schema

SCHEMA = merge_schema("", "ConfigMap")
Obj = dict[str, Any]


class Subject:
    """A ConfigMap that is changed once a second."""

    def __init__(self) -> None:
        self.obj: Obj = {"metadata": {"name": "a"}}
        self.second = 0

    def update(self, manager: str, data: dict[str, str]) -> dict[str, str]:
        """The times of the managers after one of them wrote these data."""
        new = {"metadata": {"name": "a"}, "data": data}
        return self._after(
            new,
            track(
                self.obj,
                new,
                manager=manager,
                api_version="v1",
                subresource="",
                time=self._tick(),
                schema=SCHEMA,
            ),
        )

    def apply(self, manager: str, data: dict[str, str] | None) -> dict[str, str]:
        """The same after an apply."""
        wish = {"metadata": {"name": "a"}} | ({"data": data} if data is not None else {})
        new, entries = apply_patch(
            self.obj,
            wish,
            manager=manager,
            force=True,
            api_version="v1",
            subresource="",
            time=self._tick(),
            schema=SCHEMA,
        )
        return self._after(new, entries)

    def _tick(self) -> str:
        self.second += 1
        return str(self.second)

    def _after(self, new: Obj, entries: list[Obj]) -> dict[str, str]:
        self.obj = new | {"metadata": {"name": "a", "managedFields": entries}}
        return {entry["manager"]: entry["time"] for entry in entries}


def test_what_is_timed() -> None:
    """Whoever sets something is timed, again for a field that was his; who takes away or repeats is not."""
    subject = Subject()
    assert subject.update("a", {"v": "1", "w": "1"}) == {"a": "1"}
    assert subject.update("a", {"v": "2", "w": "1"}) == {"a": "2"}
    assert subject.update("a", {"v": "2"}) == {"a": "2"}
    assert subject.update("b", {"v": "2", "z": "1"}) == {"a": "2", "b": "4"}
    assert subject.update("a", {"v": "2"}) == {"a": "2"}
    assert subject.update("c", {"v": "2"}) == {"a": "2"}
    assert subject.update("a", {"y": "1"}) == {"a": "7"}


def test_who_applies() -> None:
    """An apply is timed where it changes something, gives something up included; who gives up all goes."""
    subject = Subject()
    subject.update("a", {"v": "1"})
    assert subject.apply("e", {"q": "1"}) == {"a": "1", "e": "2"}
    assert subject.apply("e", {"r": "1"}) == {"a": "1", "e": "3"}
    assert subject.apply("e", {"r": "1"}) == {"a": "1", "e": "3"}
    assert subject.apply("e", None) == {"a": "1"}
