"""What a push's answer means, from machine-readable flags and the remote's state alone.

Three answers look alike in git's prose and must never be confused: somebody was faster (build again on
the new tip), the server has a policy against this (a person must act), and the connection broke, perhaps
after the push arrived. ``--porcelain`` tells the flag of the one ref; the listing afterwards tells where
the branch really is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

_REMOTE_REJECTED = "[remote rejected]"
_REJECTED = "[rejected]"


class PushResult(StrEnum):
    """How a push ended well."""

    PUSHED = "pushed"
    UP_TO_DATE = "up-to-date"


class Verdict(Enum):
    """What a push's answer amounts to."""

    PUSHED = auto()
    UP_TO_DATE = auto()
    RACE = auto()
    REJECTED = auto()
    TRANSIENT = auto()


@dataclass(frozen=True, slots=True)
class RefReport:
    """The porcelain line of a ref: flag character and summary text."""

    flag: str
    summary: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The remote could not be listed after the push."""


def parse_report(stdout: bytes, branch: str) -> RefReport | None:
    """The line of ``refs/heads/<branch>``, or None when the push ended before there was one."""
    for line in stdout.decode("utf-8", "replace").splitlines():
        fields = line.split("\t", 2)
        if len(fields) == 3 and len(fields[0]) == 1 and fields[1].endswith(f":refs/heads/{branch}"):
            return RefReport(fields[0], fields[2])
    return None


def settled(report: RefReport | None, *, ok: bool) -> Verdict | None:
    """The verdict where git's exit code and flag say everything; None where the remote must be asked."""
    if not ok or report is None or report.flag == "!":
        return None
    return Verdict.UP_TO_DATE if report.flag == "=" else Verdict.PUSHED


def judge(report: RefReport | None, *, expected: str | None, new: str, tip: str | Unknown | None) -> Verdict:
    """The verdict on a failed push, given the branch's ``tip`` afterwards (None = no such branch).

    A tip that is already ours means that the push arrived and only its answer was lost. A tip that moved is a
    race even if the server called it a rejection: that is how git reports a ref that changed during the push.
    """
    if isinstance(tip, Unknown):
        return Verdict.TRANSIENT
    if tip == new:
        return Verdict.PUSHED
    if tip != expected:
        return Verdict.RACE
    if report is not None and report.flag == "!":
        if report.summary.startswith(_REMOTE_REJECTED):
            return Verdict.REJECTED
        if report.summary.startswith(_REJECTED):
            return Verdict.RACE
    return Verdict.TRANSIENT


def server_words(report: RefReport | None, stderr: bytes) -> str:
    """The server's explanation of a rejection: its reason, and the lines that its hooks printed."""
    reason = report.summary.removeprefix(_REMOTE_REJECTED).strip() if report else ""
    lines: dict[str, None] = {}
    for line in stderr.decode("utf-8", "replace").replace("\r", "\n").splitlines():
        if line.startswith("remote:"):
            text = line.removeprefix("remote:").strip()
            if text:
                lines[text] = None
    return " ".join([reason, "; ".join(lines)]).strip()
