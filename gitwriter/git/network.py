"""Commands that talk to a remote: bounded in time, with its secrets, and typed when they fail.

A remote that accepts a connection and then says nothing must cost seconds, not a worker. So a command has two
bounds: one for the whole, however lively it is, and one for silence. What git printed is shown to people
after secrets were redacted, and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gitwriter.git.environment import git_binary
from gitwriter.git.remote import Remote
from reverser.errors import ConfigInvalid, RemoteUnavailable
from reverser.trust.child import ChildAbandoned, ChildTimeout, Completed, run
from reverser.trust.values import redact


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds: local commands, listing, a silent remote, and a whole transfer however lively.

    ``abandon`` is polled while waiting for a remote: True ends the command, whatever time is left.
    """

    local: float = 60.0
    listing: float = 30.0
    silence: float = 45.0
    transfer: float = 900.0
    abandon: Callable[[], bool] | None = None


@dataclass(frozen=True, slots=True)
class RemoteRefs:
    """A listing: the default branch (None if the remote names none that exists), and all branches' tips."""

    head: str | None
    branches: Mapping[str, str]


DEFAULT_DEADLINES = Deadlines()
_ID_LENGTH = 40
_MOST_LISTED = 64 * 2**20
"""Bytes of a listing: half a million refs. What goes on and on would cost the process its memory."""
_MEASURED = re.compile(r" after \d+ (?:ms|milliseconds)\b")
_PROGRESS = re.compile(
    r"(remote: )?([A-Z][a-z]+ [a-z]+: +\d+(%|, done)|Delta compression using |Total \d+ \(delta )"
)
_ASKED_IN_VAIN = re.compile(r"fatal: could not read (?:Username|Password) for '([^']*)'.*")
_HANDED_FILE = re.compile(r" in /proc/\d+/fd/\d+(?::\d+)?")
_ALARMS = (
    "IT IS POSSIBLE THAT",
    "Someone could be eavesdropping",
    "It is also possible that",
    "error: unable to read askpass response",
    "remove with:",
    "ssh-keygen -f ",
)


def list_remote(remote: Remote, *, deadlines: Deadlines = DEFAULT_DEADLINES) -> RemoteRefs:
    """List a remote without a clone.

    Raises RemoteUnavailable, SecretMalformed, ConfigInvalid for a repository with ids of another kind, and
    ChildFailed for a listing without end.
    """
    command = ["ls-remote", "--symref", "--", remote.url.text]
    done = run_remote(
        remote, command, deadline=deadlines.listing, abandon=deadlines.abandon, limit=_MOST_LISTED
    )
    if not done.ok:
        raise unavailable("cannot list the remote", remote, done.stderr)
    head, branches = None, {}
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        value, _, name = line.partition("\t")
        if name == "HEAD" and value.startswith("ref: refs/heads/"):
            head = value.removeprefix("ref: refs/heads/")
        elif name.startswith("refs/heads/"):
            branches[name.removeprefix("refs/heads/")] = value
    if any(len(tip) != _ID_LENGTH for tip in branches.values()):
        raise ConfigInvalid(
            "the repository names its objects by SHA-256, which is not supported; use one that was made with "
            "git init --object-format=sha1"
        )
    return RemoteRefs(head if head in branches else None, branches)


def run_remote(
    remote: Remote,
    arguments: Sequence[str],
    *,
    deadline: float,
    idle: float | None = None,
    limit: int | None = None,
    abandon: Callable[[], bool] | None = None,
) -> Completed:
    """Run git with a remote's environment; bounds in seconds, ``limit`` in bytes.

    Raises RemoteUnavailable when a bound of time is passed or the command is abandoned, ChildFailed beyond
    the limit, and what ``Remote.environment`` raises; a failure is for the caller to judge.
    """
    command = [git_binary(), *arguments]
    try:
        with remote.environment() as environment:
            done = run(command, env=environment, deadline=deadline, idle=idle, limit=limit, abandon=abandon)
    except ChildAbandoned:
        raise RemoteUnavailable(
            f"the remote {remote.url.host or remote.url.path} did not answer before the shutdown; the next "
            "process goes on"
        ) from None
    except ChildTimeout:
        raise RemoteUnavailable(
            f"the remote {remote.url.host or remote.url.path} does not answer; it is tried again"
        ) from None
    if not done.ok:
        remote.login_failed()
    return done


def unavailable(what: str, remote: Remote, stderr: bytes) -> RemoteUnavailable:
    """The error for a failed command: git's output, redacted, and how long the remote asks to wait."""
    return RemoteUnavailable(
        f"{what}: {words_of(remote, stderr)}{remote.trust_note()}", retry_after=remote.asked_delay()
    )


def words_of(remote: Remote, stderr: bytes) -> str:
    """The output of git and ssh as one redacted line: without ssh's banner, which would leave no room for the
    fingerprint that it announces, and without progress, durations and our own temporary files, so that the
    cause comes first and the same cause always reads the same. A refused login is named as such: git only
    reports that nobody could type another one."""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if not line.startswith("@")]
    lines = [line.rstrip() for line in lines if not _PROGRESS.match(line)]
    alarms = [line for line in lines if not line.lstrip().startswith(_ALARMS)]
    plain = [
        _ASKED_IN_VAIN.sub(r"\1 wants a login and takes none that it was given", line) for line in alarms
    ]
    text = _HANDED_FILE.sub("", _MEASURED.sub("", " ".join(plain or lines)))
    return redact(text, remote.secrets, limit=500) or "no reason given"
