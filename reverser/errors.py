"""The one error tree. The class of an error, never its text, decides what happens next.

ReverserError
├── TransientError      heals by itself: retried with back-off (``retry_after`` seconds when known)
│   ├── KubeUnavailable     the API server cannot be reached, answers 5xx, or times out
│   ├── KubeThrottled       429 or 503 with Retry-After
│   ├── KubeUnauthenticated 401: the token is read again with each try, a new one may be there
│   ├── KubeConflict        409 on a write: read again, decide again
│   ├── StoreUnavailable    Redis does not answer
│   │   └── NewerVersion        what stands there is a newer version's: kept for it
│   ├── RemoteUnavailable   the Git remote does not answer, or answers with a server error
│   └── LostRace            somebody else moved first: the fence is lost, or the remote tip moved
├── StalledError        needs a person: ``reason`` is a condition reason, the message says what to do
│   ├── ConfigInvalid       a spec field, template, path, or setting that cannot work
│   ├── SecretMissing       a named Secret does not exist
│   ├── SecretMalformed     a named Secret lacks a key or holds an unusable value
│   ├── KubeForbidden       403
│   └── RemoteRejected      the remote refused the push by policy (``[remote rejected]``)
├── RefusedError        one object is refused; everything else goes on
│   ├── ResourceRefused     one resource cannot be written (placement, sealing)
│   └── YamlRefused         a document cannot be read as YAML safely
├── KubeNotFound        404: an answer, not a failure
├── KubeGone            410: the resourceVersion is too old, replay
├── KubeInvalid         400 or 422 with field causes
└── SettingsInvalid     the process cannot start; every problem is listed at once
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ReverserError(Exception):
    """Base of every error that this project raises on purpose."""


class TransientError(ReverserError):
    """Heals without a person. ``retry_after`` is the delay in seconds that the other side asked for."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class KubeUnavailable(TransientError):
    """The API server cannot be reached (``status`` 0), timed out or answered 5xx."""

    def __init__(self, message: str, *, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(message, retry_after=retry_after)
        self.status = status


class KubeThrottled(TransientError):
    """The API server asked to wait (429, or 503 with Retry-After)."""


class KubeUnauthenticated(TransientError):
    """401 from the API server: our credentials are not accepted, which a token that is renewed mends."""


class KubeConflict(TransientError):
    """409: the object changed, or exists already. ``exists`` tells the two apart."""

    def __init__(self, message: str, *, exists: bool = False) -> None:
        super().__init__(message)
        self.exists = exists


class StoreUnavailable(TransientError):
    """Redis does not answer, or answered that it cannot serve now."""


class NewerVersion(StoreUnavailable):
    """What stands in Redis was written by a newer version and means something that this one does not know.

    Nothing is lost: it stays where it is until that version runs again.
    """


class RemoteUnavailable(TransientError):
    """The Git remote does not answer in time, drops the connection, or reports a server error."""


class LostRace(TransientError):
    """Another party moved first: the lease is another's now, or the remote's tip moved."""


class StalledError(ReverserError):
    """Needs a person. ``reason`` is a Kubernetes condition reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ConfigInvalid(StalledError):
    """A value in a spec cannot work."""

    def __init__(self, message: str, *, reason: str = "InvalidConfig") -> None:
        super().__init__(reason, message)


class SecretMissing(StalledError):
    """A Secret that a spec names does not exist, or lacks the entry it must hold."""

    def __init__(self, message: str, *, reason: str = "SecretNotFound") -> None:
        super().__init__(reason, message)


class SecretMalformed(StalledError):
    """A Secret exists but its content is unusable. The message names keys, never values."""

    def __init__(self, message: str, *, reason: str = "SecretMalformed") -> None:
        super().__init__(reason, message)


class KubeForbidden(StalledError):
    """403 from the API server."""

    def __init__(self, message: str) -> None:
        super().__init__("Forbidden", message)


class RemoteRejected(StalledError):
    """The remote refused the push by policy; the message carries the server's own words, redacted."""

    def __init__(self, message: str, *, reason: str = "PushRejected") -> None:
        super().__init__(reason, message)


class RefusedError(ReverserError):
    """One object is refused; ``reason`` is a stable code."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ResourceRefused(RefusedError):
    """One resource cannot be written; its neighbours can."""


class YamlRefused(RefusedError):
    """A document that cannot be read safely; ``line`` and ``column`` count from 1 (0 = unknown)."""

    def __init__(self, reason: str, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(reason, message)
        self.line = line
        self.column = column


class KubeNotFound(ReverserError):
    """404 from the API server."""


class KubeGone(ReverserError):
    """410 from the API server, by HTTP status or by an ERROR event."""


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One cause of an invalid request: the field, the machine reason and the server's message."""

    field: str
    reason: str
    message: str


class KubeInvalid(ReverserError):
    """400 or 422 from the API server, with its field causes."""

    def __init__(self, message: str, *, status: int = 422, causes: Sequence[FieldCause] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.causes = tuple(causes)


class SettingsInvalid(ReverserError):
    """The settings cannot work. ``problems`` lists every one of them, each with its remedy."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
