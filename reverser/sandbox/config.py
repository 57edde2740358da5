"""How a sandbox is set up."""

from dataclasses import dataclass
from pathlib import Path

from reverser.sandbox.audit import AuditWebhook


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """Addresses, files and habits of one sandbox. Times are in seconds.

    `port` 0 takes a free one, with a state directory the same as last time where that is free. Without
    `state_dir` everything is lost at the end. `watch_cache` and `watch_list` off imitate servers started
    without the watch cache, or without streaming lists. `record` keeps every version of every object in
    memory for oracles. `definition_delay` is how long the objects of a new or changed
    CustomResourceDefinition cannot be reached, though it is established.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = True
    state_dir: Path | None = None
    kubeconfig_out: Path | None = None
    admin_token: str = ""
    token_file: Path | None = None
    audit_webhooks: tuple[AuditWebhook, ...] = ()
    audit_keep: int = 10_000
    history_limit: int = 20_000
    bookmark_interval: float = 60.0
    watch_cache: bool = True
    watch_list: bool = True
    finish_namespaces: bool = False
    definition_delay: float = 0.0
    record: bool = False
    audience: str = "https://kubernetes.default.svc.cluster.local"
