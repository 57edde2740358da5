"""The judgement of a run: what the API server recorded against what the branch shows, resource by resource.

The whole history is looked at each time: a state of an earlier episode that comes again is as wrong as one of
this episode. What a history-breaking fault may have cut out is only not missed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.e2e.trust import decrypted
from tests.soak.oracle import Authors, Record, State, Verdict, judge, judge_authors
from tests.soak.shown import Shown, shown

Makers = Mapping[str, Sequence[tuple[State, str]]]


def _secret(found: dict[str, Any]) -> str:
    return base64.b64decode(found["data"]["v"]).decode()


VALUES: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "configmaps": lambda found: str(found["data"]["v"]),
    "secrets": _secret,
    "gizmos": lambda found: str(found["spec"]["v"]),
}
"""What an object's state is, by resource."""


class Judge:
    """Keeps what was judged already, to tell what an episode added."""

    def __init__(self, record: Record, repository: Path, folders: Mapping[str, str]) -> None:
        """``folders`` are the folders of the branch by resource."""
        self._record = record
        self._repository = repository
        self._folders = folders
        self._before: dict[str, int] = {}
        self._repeated: set[tuple[str, State]] = set()
        self._opened: dict[bytes, str] = {}
        self.identity = ""
        """The private age key, before anything is judged."""

    def begin(self) -> None:
        """What was made until now belongs to no episode."""
        self._before = {name: len(states) for name, states in self._record.objects().items()}

    def episode(self, *, exact: Callable[[str], bool], may_repeat: bool = False) -> tuple[int, Verdict]:
        """How many changes an episode made, and what became of them.

        ``exact``: whether every single change of this resource must be in Git. ``may_repeat``: whether what
        was in Git may come again.
        """
        made = self._record.objects()
        written = {name: [state for state, _ in states] for name, states in self.written().items()}
        verdict = judge(
            made,
            written,
            since=self._before,
            exact=lambda name: exact(name.partition("/")[0]),
            repeats=lambda name, state: may_repeat or (name, state) in self._repeated,
        )
        self._repeated |= verdict.repeated
        new = sum(len(states) - self._before.get(name, 0) for name, states in made.items())
        self.begin()
        return new, verdict

    def authors(self, makers: Makers, *, committer: str) -> Authors:
        """Whom Git names, against those who made it; only of objects that have makers."""
        found = {name: states for name, states in self.written().items() if name in makers}
        return judge_authors(makers, found, committer=committer)

    def written(self) -> dict[str, list[tuple[State, str]]]:
        """Each object's states in Git with their author lines, oldest first."""
        found = {}
        for resource, folder in self._folders.items():
            for stem, states in shown(self._repository, folder).items():
                name = f"{resource}/{stem}"
                if self._record.counts(name):
                    found[name] = self._values(name, states)
        return found

    def _values(self, name: str, states: Sequence[Shown]) -> list[tuple[State, str]]:
        if not _sealed(name):
            return [(state.value, state.author) for state in states]
        values = [(self.opened(state.content), state.author) for state in states]
        # Sealed again, for another key or after the store lost its memory, it is the same Secret.
        return [next(same) for _, same in groupby(values, key=lambda pair: pair[0])]

    def opened(self, content: bytes | None) -> State:
        """What a sealed file says; None for one that is not there."""
        if content is None:
            return None
        if content not in self._opened:
            self._opened[content] = _secret(decrypted(content, self.identity))
        return self._opened[content]


def _sealed(name: str) -> bool:
    return name.startswith("secrets/")
