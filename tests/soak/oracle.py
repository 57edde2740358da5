"""What the API server itself recorded of each object, against what Git shows: pure but for reading files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

State = str | None
"""The value of an object, None while it does not exist."""


@dataclass(slots=True)
class Record:
    """Every state of every ConfigMap of a namespace, by version, gathered from the server's own files."""

    namespace: str
    _states: dict[int, tuple[str, State]] = field(default_factory=dict)

    def gather(self, state_dir: Path) -> None:
        """Read what the server has written so far. Call before each start: a start rewrites its files."""
        for name in ("objects.jsonl", "changes.jsonl"):
            for line in _lines(state_dir / name):
                if line.get("r") != ["", "configmaps"] or line["k"][0] != self.namespace:
                    continue
                found = line.get("o")
                version = int(found["metadata"]["resourceVersion"]) if found else int(line["rv"])
                state = None if found is None else str(found["data"]["v"])
                self._states[version] = (line["k"][1], state)

    def objects(self) -> dict[str, list[State]]:
        """The states of each object in order."""
        found: dict[str, list[State]] = {}
        for version in sorted(self._states):
            name, state = self._states[version]
            found.setdefault(name, []).append(state)
        return found

    @property
    def count(self) -> int:
        """How many changes there were."""
        return len(self._states)


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
    problems: list[str] = field(default_factory=list)

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
        self.problems += other.problems


def judge(
    made: Mapping[str, Sequence[State]], written: Mapping[str, Sequence[State]], *, exact: bool
) -> Verdict:
    """Compare, for each object, the states that were made with those that Git shows, in order.

    ``exact``: every state must be there. Otherwise the last one must. Values are never used twice.
    """
    verdict = Verdict()
    for name in sorted(set(made) | set(written)):
        before = verdict.lost + verdict.invented + verdict.doubled + verdict.reordered
        _judge_one(made.get(name, ()), written.get(name, ()), verdict, exact=exact)
        if verdict.lost + verdict.invented + verdict.doubled + verdict.reordered > before:
            verdict.problems.append(
                f"{name}: made {list(made.get(name, ()))}, in Git {list(written.get(name, ()))}"
            )
    return verdict


def _judge_one(made: Sequence[State], written: Sequence[State], verdict: Verdict, *, exact: bool) -> None:
    place = {state: index for index, state in enumerate(made) if state is not None}
    seen: set[State] = set()
    last = -1
    for state in written:
        if state is None:
            continue
        if state not in place:
            verdict.invented += 1
        elif state in seen:
            verdict.doubled += 1
        elif place[state] < last:
            verdict.reordered += 1
        else:
            last = place[state]
        seen.add(state)
    missing = [state for state in place if state not in seen]
    final_made, final_written = (made[-1] if made else None), (written[-1] if written else None)
    if exact:
        verdict.lost += len(missing)
        verdict.invented += max(list(written).count(None) - list(made).count(None), 0)
    else:
        verdict.skipped += len(missing)
    if final_made != final_written and (not exact or final_made not in missing):
        verdict.lost += 1


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
