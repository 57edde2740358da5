"""What one shard keeps between its sessions, and what a process remembers of servers that cannot stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from reverser.kube.aio import AsyncKube
from reverser.kube.paths import resource_path
from reverser.store import AsyncStore
from reverser.store.model import StreamState, TargetRef
from watchers.appender import Appender, Position
from watchers.buffer import ShardBuffer
from watchers.intake import Intake
from watchers.rate import EventRate
from watchers.sealing import Seals
from watchers.table import ShardSpec
from watchers.timing import Timing


class StreamingMemory:
    """Types whose initial state the server cannot stream; forgotten when discovery changes."""

    def __init__(self) -> None:
        self._refused: dict[str, int] = {}

    def refuses(self, group_resource: str, revision: int) -> bool:
        """Whether streaming was refused for the type under this registry revision."""
        return self._refused.get(group_resource) == revision

    def remember(self, group_resource: str, revision: int) -> None:
        """Notes the refusal."""
        self._refused[group_resource] = revision


@dataclass(slots=True)
class ShardState:
    """What a shard keeps between its sessions."""

    kube: AsyncKube
    store: AsyncStore
    spec: ShardSpec
    target: TargetRef
    position: Position
    buffer: ShardBuffer
    appender: Appender
    intake: Intake
    seals: Seals
    timing: Timing
    grace: float
    memory: StreamingMemory
    revision: Callable[[], int]
    show: Callable[[StreamState, str, str], None]
    on_missing: Callable[[], None] = lambda: None
    """Called when the type is no longer served: discovery should look."""
    version: str = ""
    """The newest resourceVersion that entered the buffer; empty = read what the store has."""
    must_replay: bool = False
    resume_failures: int = 0
    streaming_since: float | None = None
    """When the session that runs was up to date, in the event loop's time."""
    replaying: int = -1
    """The ``wanted`` of the replay that is running, -1 when none is."""
    events: int = 0
    last_event_ms: int = 0
    rate: EventRate = field(default_factory=EventRate)

    @property
    def path(self) -> str:
        """The collection that is watched."""
        kind = self.spec.type
        return resource_path(
            kind.group, kind.version, kind.resource, namespace=self.spec.scope.namespace or ""
        )

    @property
    def name(self) -> str:
        """How log lines call the shard."""
        scope = self.spec.scope
        return f"{self.target.namespace}/{self.target.name} {scope.group_resource} {scope.namespace or '*'}"

    def forget(self) -> None:
        """Drops everything that is not in the journal: the next session starts from the stored cursor."""
        self.buffer.discard()
        self.intake.forget()
        self.version = ""
