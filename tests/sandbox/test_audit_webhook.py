"""The audit webhook: batches, client certificates, retries."""

from pathlib import Path

import pytest

from reverser.sandbox.audit import AuditWebhook
from reverser.sandbox.pki import Authority
from reverser.sandbox.thread import SandboxServer
from tests.sandbox.client import Client, eventually
from tests.sandbox.test_objects import CMS, configmap
from tests.sandbox.webhook import AuditReceiver


def _webhook(receiver: AuditReceiver, folder: Path, **options: object) -> AuditWebhook:
    ca = folder / "ca.crt"
    ca.write_bytes(receiver.authority.pair.cert)
    return AuditWebhook(receiver.url, ca=ca, **options)  # type: ignore[arg-type]


def test_batches(tmp_path: Path) -> None:
    """Events gather for a moment, in order; a full batch goes at once."""
    receiver = AuditReceiver()
    with SandboxServer(audit_webhooks=(_webhook(receiver, tmp_path, max_wait=0.2, max_size=4),)) as server:
        admin = Client(server)
        for number in range(10):
            admin.ok("POST", CMS, configmap(f"c{number}"))
        eventually(lambda: sum(len(b["items"]) for b in receiver.batches) == 10, "ten events")
    receiver.close()
    assert all(len(batch["items"]) <= 4 for batch in receiver.batches)
    assert {batch["kind"] for batch in receiver.batches} == {"EventList"}
    assert not [event for batch in receiver.batches for event in batch["items"] if "kind" in event]
    assert {batch["apiVersion"] for batch in receiver.batches} == {"audit.k8s.io/v1"}
    names = [e["objectRef"]["name"] for batch in receiver.batches for e in batch["items"]]
    assert names == [f"c{number}" for number in range(10)]


def test_retries(tmp_path: Path) -> None:
    """A batch that is not taken is sent again, whatever the answer is."""
    receiver = AuditReceiver(failures=(500, 400))
    with SandboxServer(audit_webhooks=(_webhook(receiver, tmp_path, max_wait=0.05),)) as server:
        Client(server).ok("POST", CMS, configmap())
        eventually(lambda: len(receiver.batches) == 1, "the batch")
        assert server.call(lambda: server.server.audit.dropped) == 0
    receiver.close()


def test_nothing_is_lost_at_the_end(tmp_path: Path) -> None:
    """What waits is sent when the server stops."""
    receiver = AuditReceiver()
    with SandboxServer(audit_webhooks=(_webhook(receiver, tmp_path, max_wait=60.0),)) as server:
        Client(server).ok("POST", CMS, configmap())
    receiver.close()
    assert len(receiver.batches) == 1


@pytest.mark.parametrize("known", [True, False])
def test_client_certificate(tmp_path: Path, known: bool) -> None:
    """The sender shows its certificate; without one that is known, batches are dropped and counted."""
    authority = Authority()
    receiver = AuditReceiver(client_ca=authority.pair.cert)
    pair = (authority if known else Authority()).client("kube-apiserver")
    cert, key = tmp_path / "client.crt", tmp_path / "client.key"
    cert.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    webhook = _webhook(receiver, tmp_path, max_wait=60.0, client_cert=cert, client_key=key)
    with SandboxServer(audit_webhooks=(webhook,)) as server:
        Client(server).ok("POST", CMS, configmap())
        log = server.server.audit
    receiver.close()
    assert (len(receiver.batches), log.dropped) == ((1, 0) if known else (0, 1))
