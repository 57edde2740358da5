"""Faults on demand: what goes wrong in real clusters, switched on by a test or by `POST /sandbox/faults`.

Switches stay until they are cleared; one-shot faults are consumed by the first stream that meets them.
Setting a switch from another thread is safe: each is one attribute, read once per request or event.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests a fault meets: `methods` (empty: all) and a regular expression searched in path and
    query.
    """

    pattern: str = ""
    methods: frozenset[str] = frozenset()

    def meets(self, method: str, target: str) -> bool:
        """Whether the request is meant."""
        return (not self.methods or method in self.methods) and re.search(self.pattern, target) is not None


@dataclass(slots=True)
class Answer:
    """An error given instead of the real answer; `remaining` counts down, None means until cleared."""

    rule: Rule
    code: int
    retry_after: int | None
    remaining: int | None


@dataclass(slots=True)
class Delay:
    """Requests that wait before they are handled."""

    rule: Rule
    seconds: float


class Faults:
    """The faults in force."""

    def __init__(self) -> None:
        #: Refuse `sendInitialEvents` with 422, as a server without the WatchList feature.
        self.refuse_streaming_lists = False
        #: Send no periodic bookmarks.
        self.drop_bookmarks = False
        #: Never send the bookmark that ends the initial events.
        self.withhold_end_marker = False
        #: Group versions whose backend is down.
        self.failed_groups: set[tuple[str, str]] = set()
        self._answers: list[Answer] = []
        self._delays: list[Delay] = []
        self._broken_lines: list[tuple[Rule, bool]] = []
        #: Set by the server: ends matching streams (pattern, clean), and forgets history.
        self.on_drop: Callable[[Rule, bool], None] = lambda rule, clean: None
        self.on_compact: Callable[[], None] = lambda: None

    def drop_watches(self, pattern: str = "", *, clean: bool = True) -> None:
        """End open watches whose path matches: by a normal end of stream, or by cutting the connection."""
        self.on_drop(Rule(pattern), clean)

    def compact(self) -> None:
        """Forget all history now: resuming from any older version is 410."""
        self.on_compact()

    def answer(
        self,
        code: int,
        pattern: str = "",
        *,
        methods: tuple[str, ...] = (),
        times: int | None = 1,
        retry_after: int | None = None,
    ) -> None:
        """Answer matching requests with an error (429, 500, 503, 401, 403 ...), `times` times (None: until
        clear).
        """
        self._answers.append(Answer(Rule(pattern, frozenset(methods)), code, retry_after, times))

    def delay(self, seconds: float, pattern: str = "", *, methods: tuple[str, ...] = ()) -> None:
        """Make matching requests wait."""
        self._delays.append(Delay(Rule(pattern, frozenset(methods)), seconds))

    def fail_group(self, group: str, version: str) -> None:
        """Let a group version fail in discovery and in use."""
        self.failed_groups.add((group, version))

    def cut_next_line(self, pattern: str = "") -> None:
        """Break the connection in the middle of the next line of a matching watch."""
        self._broken_lines.append((Rule(pattern), True))

    def garble_next_line(self, pattern: str = "") -> None:
        """Send a line that is not JSON before the next line of a matching watch."""
        self._broken_lines.append((Rule(pattern), False))

    def clear(self) -> None:
        """Everything works again."""
        self.refuse_streaming_lists = self.drop_bookmarks = self.withhold_end_marker = False
        self.failed_groups.clear()
        self._answers.clear()
        self._delays.clear()
        self._broken_lines.clear()

    def take_answer(self, method: str, target: str) -> Answer | None:
        """The error this request gets, if any; counts it."""
        for answer in list(self._answers):
            if answer.rule.meets(method, target):
                if answer.remaining is not None:
                    answer.remaining -= 1
                    if answer.remaining <= 0:
                        self._answers.remove(answer)
                return answer
        return None

    def delay_of(self, method: str, target: str) -> float:
        """How long this request waits, in seconds."""
        return sum(d.seconds for d in list(self._delays) if d.rule.meets(method, target))

    def take_broken_line(self, target: str) -> bool | None:
        """True: cut the next line of this watch; False: garble it; None: leave it whole. Consumed."""
        for entry in list(self._broken_lines):
            if entry[0].meets("GET", target):
                self._broken_lines.remove(entry)
                return entry[1]
        return None

    def command(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order of the admin endpoint, `{"do": "<method>", ...arguments}`, and show the state.

        Raises ValueError with the list of orders where the order is not understood.
        """
        arguments = {key: value for key, value in order.items() if key != "do"}
        methods: dict[str, Callable[..., None]] = {
            "drop_watches": self.drop_watches,
            "compact": self.compact,
            "answer": self.answer,
            "delay": self.delay,
            "fail_group": self.fail_group,
            "cut_next_line": self.cut_next_line,
            "garble_next_line": self.garble_next_line,
            "clear": self.clear,
            "set": self._set,
        }
        action = methods.get(str(order.get("do")))
        try:
            if action is None:
                raise TypeError("no such order")
            action(**arguments)
        except TypeError as error:
            raise ValueError(f'{error}; "do" is one of {", ".join(sorted(methods))}') from error
        return self.state()

    def _set(self, **switches: bool) -> None:
        for name, value in switches.items():
            if name not in ("refuse_streaming_lists", "drop_bookmarks", "withhold_end_marker"):
                raise TypeError(f"no switch {name}")
            setattr(self, name, bool(value))

    def state(self) -> dict[str, Any]:
        """The faults in force, as plain values."""
        return {
            "refuse_streaming_lists": self.refuse_streaming_lists,
            "drop_bookmarks": self.drop_bookmarks,
            "withhold_end_marker": self.withhold_end_marker,
            "failed_groups": sorted(f"{g}/{v}" for g, v in self.failed_groups),
            "answers": len(self._answers),
            "delays": len(self._delays),
            "broken_lines": len(self._broken_lines),
        }
