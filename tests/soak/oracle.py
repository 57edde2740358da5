"""What the API server itself recorded of each object, against what Git shows: pure but for reading files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

State = str | None
"""The value of an object, None while it does not exist."""


@dataclass(slots=True)
class Record:
    """Every state of every object of a namespace, by version, gathered from the server's own files.

    Objects are named ``resource/name``; ``values`` tells what an object's state is, by resource, and
    ``counts`` which objects matter.
    """

    namespace: str
    values: Mapping[str, Callable[[dict[str, Any]], str]]
    counts: Callable[[str], bool] = lambda name: True
    _states: dict[int, tuple[str, State]] = field(default_factory=dict)

    def gather(self, state_dir: Path) -> None:
        """Read what the server has written so far. Call before each start: a start rewrites its files."""
        for file in ("objects.jsonl", "changes.jsonl"):
            for line in _lines(state_dir / file):
                if "r" not in line or line["k"][0] != self.namespace:
                    continue
                resource, name = line["r"][1], f"{line['r'][1]}/{line['k'][1]}"
                if resource not in self.values or not self.counts(name):
                    continue
                found = line.get("o")
                version = int(found["metadata"]["resourceVersion"]) if found else int(line["rv"])
                state = None if found is None else self.values[resource](found)
                self._states[version] = (name, state)

    def objects(self) -> dict[str, list[State]]:
        """The states of each object in order."""
        found: dict[str, list[State]] = {}
        for version in sorted(self._states):
            name, state = self._states[version]
            found.setdefault(name, []).append(state)
        return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    for raw in path.read_bytes().split(b"\n"):
        if raw:
            try:
                yield orjson.loads(raw)
            except orjson.JSONDecodeError:
                return  # the torn last line of a server that was killed while it wrote


@dataclass(slots=True)
class Verdict:
    """How many changes went wrong, and one sentence for each object concerned."""

    lost: int = 0
    invented: int = 0
    doubled: int = 0
    reordered: int = 0
    skipped: int = 0
    """States between two others that a replay passed over, as it may."""
    repeated: set[tuple[str, State]] = field(default_factory=set)
    """States that came twice where they may: (object, state)."""
    problems: list[str] = field(default_factory=list)

    @property
    def untrue(self) -> int:
        """How many in all."""
        return self.lost + self.invented + self.doubled + self.reordered

    @property
    def clean(self) -> bool:
        """Nothing went wrong."""
        return not self.problems

    def add(self, other: Verdict) -> None:
        """Count another verdict too."""
        self.lost += other.lost
        self.invented += other.invented
        self.doubled += other.doubled
        self.reordered += other.reordered
        self.skipped += other.skipped
        self.repeated |= other.repeated
        self.problems += other.problems


def judge(
    made: Mapping[str, Sequence[State]],
    written: Mapping[str, Sequence[State]],
    *,
    since: Mapping[str, int] | None = None,
    exact: Callable[[str], bool] = lambda name: True,
    repeats: Callable[[str, State], bool] = lambda name, state: False,
) -> Verdict:
    """Compare, for each object, all states that were made with all that Git shows, in order.

    The last state of each object must be there, and nothing that was never made, nothing twice and nothing
    turned round. Of an object that is ``exact`` every single state must be there from the number in ``since``
    on (0 where it says nothing); those of others may have been passed over. ``repeats`` tells which states
    may come twice, with the removal after them. Values are never used twice.
    """
    verdict = Verdict()
    for name in sorted(set(made) | set(written)):
        before = verdict.untrue
        one, shown = made.get(name, ()), written.get(name, ())
        told, again = _without_repeats(shown, lambda state, name=name: repeats(name, state))  # type: ignore[misc]
        verdict.repeated |= {(name, state) for state in again}
        missing = _judge_one(one, told, verdict)
        recent = {number for number in missing if number >= (since or {}).get(name, 0)}
        lost = recent if exact(name) else set[int]()
        verdict.skipped += len(recent - lost)
        if one and one[-1] != (shown[-1] if shown else None):
            lost.add(len(one) - 1)
        verdict.lost += len(lost)
        if verdict.untrue > before:
            verdict.problems.append(f"{name}: made {list(one)}, in Git {list(shown)}")
    return verdict


def _without_repeats(
    written: Sequence[State], may_repeat: Callable[[State], bool]
) -> tuple[list[State], set[State]]:
    """What is left without the states that come again, and these."""
    left: list[State] = []
    seen: set[State] = set()
    again: set[State] = set()
    repeating = False
    for state in written:
        if state is not None:
            repeating = state in seen and may_repeat(state)
            seen.add(state)
        if not repeating:
            left.append(state)
        elif state is not None:
            again.add(state)
    return left, again


def _judge_one(made: Sequence[State], written: Sequence[State], verdict: Verdict) -> set[int]:
    """Count what is shown and should not be; returns the numbers of the states that are not shown."""
    place = {state: index for index, state in enumerate(made) if state is not None}
    seen: set[State] = set()
    good: list[int | None] = []
    """What is shown and right: numbers of states, None for a removal."""
    last = -1
    for state in written:
        if state is None:
            good.append(None)
        elif state not in place:
            verdict.invented += 1
        elif state in seen:
            verdict.doubled += 1
        elif place[state] < last:
            verdict.reordered += 1
        else:
            last = place[state]
            good.append(last)
        seen.add(state)
    removed = _removals(made, good)
    verdict.invented += good.count(None) - len(removed)
    return {n for n, state in enumerate(made) if (n not in removed if state is None else state not in seen)}


def _removals(made: Sequence[State], good: Sequence[int | None]) -> set[int]:
    """The numbers of the removals that are shown: each made after the state before it, before the next."""
    found: set[int] = set()
    for position, number in enumerate(good):
        if number is None:
            before = [n for n in good[:position] if n is not None]
            after = [n for n in good[position + 1 :] if n is not None]
            start, end = (before[-1] + 1 if before else 0), (after[0] if after else len(made))
            free = [n for n in range(start, end) if made[n] is None and n not in found]
            found.update(free[:1])
    return found


@dataclass(slots=True)
class Authors:
    """Whom Git names for the states that it shows."""

    named: int = 0
    by_committer: int = 0
    misattributed: int = 0
    problems: list[str] = field(default_factory=list)


def judge_authors(
    made: Mapping[str, Sequence[tuple[State, str]]],
    shown: Mapping[str, Sequence[tuple[State, str]]],
    *,
    committer: str,
) -> Authors:
    """Compare who made each state with whom Git names for it.

    Both are (state, author line) by object, in order. The committer stands for nobody in particular; whoever
    else is named must have made that state. A deletion may be that of anybody who deleted the object between
    the states that Git shows around it.
    """
    found = Authors()
    for name, states in shown.items():
        makers = made.get(name, ())
        for index, (state, author) in enumerate(states):
            if author == committer:
                found.by_committer += 1
                continue
            if author in _may_have_made(makers, states, index):
                found.named += 1
                continue
            found.misattributed += 1
            found.problems.append(f"{name}: Git names {author} for {state}")
    return found


def _may_have_made(
    makers: Sequence[tuple[State, str]], states: Sequence[tuple[State, str]], index: int
) -> set[str]:
    state = states[index][0]
    if state is not None:
        return {author for made, author in makers if made == state}
    place = {made: number for number, (made, _) in enumerate(makers) if made is not None}
    before = [place[each] for each, _ in states[:index] if each in place]
    after = [place[each] for each, _ in states[index + 1 :] if each in place]
    start, end = (before[-1] + 1 if before else 0), (after[0] if after else len(makers))
    return {author for made, author in makers[start:end] if made is None}
