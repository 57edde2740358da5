"""Which listeners the settings ask for, and what the process is ready for."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time
from pathlib import Path

import pytest
import yaml

from reverser.attributionwiring import make_resolver
from reverser.config import SETTINGS, load_config, variable_name
from reverser.errors import SettingsInvalid
from reverser.factmetrics import FACTS
from reverser.sandbox.pki import Authority
from reverser.store import AsyncStore, Store
from reverser.store.attribution import Fact
from watchers.authors import FactResolver
from webhooks import metrics
from webhooks.setup import IndexGauge, admission_listener, audit_listener

ROOT = Path(__file__).resolve().parents[2]


def fail() -> None:
    raise AssertionError("no listener fails here")


def certificates(folder: Path) -> Path:
    authority = Authority()
    pair = authority.serving()
    (folder / "tls.crt").write_bytes(pair.cert)
    (folder / "tls.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(authority.pair.cert)
    client = authority.client("kube-apiserver")
    (folder / "client.pem").write_bytes(client.cert + client.key)
    return folder


def test_off_by_default(async_store: AsyncStore, redis_url: str) -> None:
    """G36: without certificates there is no listener and no resolver."""
    config = load_config({})
    assert audit_listener(config, redis_url, fail) is None
    assert admission_listener(config, redis_url, fail) is None
    assert make_resolver(config, async_store) is None


def test_on_with_certificates(async_store: AsyncStore, redis_url: str, tmp_path: Path) -> None:
    """With certificates attribution is on, and can be turned off again; admission is a matter of its own."""
    folder = str(certificates(tmp_path))
    given = {
        "REVERSER_AUDIT_CERT_DIR": folder,
        "REVERSER_AUDIT_CLIENT_CA": f"{folder}/ca.crt",
        "REVERSER_AUDIT_ADDR": "127.0.0.1:0",
        "REVERSER_ADMISSION_ADDR": "127.0.0.1:0",
    }
    config = load_config(given)
    assert isinstance(make_resolver(config, async_store), FactResolver)
    assert admission_listener(config, redis_url, fail) is None
    listener = audit_listener(config, redis_url, fail)
    assert listener is not None
    assert listener.serving_check() == "audit ingress not yet serving"
    listener.start()
    assert (listener.serving_check(), listener.certificate_check()) == ("", "")
    listener.stop()
    assert listener.serving_check()
    off = load_config(
        {**given, "REVERSER_AUTHOR_ATTRIBUTION": "false", "REVERSER_ADMISSION_CERT_DIR": folder}
    )
    assert audit_listener(off, redis_url, fail) is None
    assert make_resolver(off, async_store) is None
    admission = admission_listener(off, redis_url, fail)
    assert admission is not None
    admission.start()
    assert admission.serving_check() == ""
    admission.stop()


@pytest.mark.parametrize("asked", [False, True])
def test_certificates_of_reviewers(redis_url: str, tmp_path: Path, asked: bool) -> None:
    """Reviews are taken from everybody, or, with a client CA, from its certificates alone."""
    folder = certificates(tmp_path)
    pair = Authority().client("stranger")
    (tmp_path / "stranger.pem").write_bytes(pair.cert + pair.key)
    given = {"REVERSER_ADMISSION_ADDR": "127.0.0.1:0", "REVERSER_ADMISSION_CERT_DIR": str(folder)}
    config = load_config(given | ({"REVERSER_ADMISSION_CLIENT_CA": str(folder / "ca.crt")} if asked else {}))
    listener = admission_listener(config, redis_url, fail)
    assert listener is not None
    listener.start()
    taken = []
    for client in ("client.pem", "stranger.pem", ""):
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        if client:
            context.load_cert_chain(tmp_path / client)
        connection = http.client.HTTPSConnection("127.0.0.1", listener.port, timeout=60, context=context)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/validate-all", b'{"request": {"uid": "r1"}}')
            taken += [client] if connection.getresponse().status == 200 else []
        connection.close()
    listener.stop()
    assert taken == (["client.pem"] if asked else ["client.pem", "stranger.pem", ""])


def test_plain_http_is_asked_for_and_told(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A13: plain HTTP only where it was asked for, and never silently."""
    given = {"REVERSER_AUDIT_INSECURE": "true", "REVERSER_AUDIT_ADDR": "127.0.0.1:0"}
    listener = audit_listener(load_config(given), redis_url, fail)
    assert listener is not None
    assert "trusts every caller" in caplog.text
    with pytest.raises(SettingsInvalid, match="REVERSER_AUTHOR_ATTRIBUTION"):
        load_config({"REVERSER_AUTHOR_ATTRIBUTION": "true"})


def test_size_of_the_index(store: Store) -> None:
    """The gauge counts the keys of facts."""
    store.write_facts([Fact("configmaps", "a", "alice", "create", uid="u", resource_version="1")], 60_000)
    IndexGauge(store).count()
    assert metrics.INDEX_SIZE._value.get() == 2


def test_facts_that_aged_out_unused(store: Store) -> None:
    """The gauge's rounds count facts that named nobody, as ``expired_unmatched``."""
    before = FACTS.labels("expired_unmatched")._value.get()
    store.write_facts([Fact("configmaps", "a", "alice", "create", uid="u", resource_version="1")], 1)
    deadline = time.monotonic() + 60
    while FACTS.labels("expired_unmatched")._value.get() == before and time.monotonic() < deadline:
        IndexGauge(store).count()
    assert FACTS.labels("expired_unmatched")._value.get() == before + 1


def test_registration_of_the_webhook() -> None:
    """V8: fails open, concerns the creation of CommitRequests alone, and answers within its time."""
    config = yaml.safe_load((ROOT / "deploy" / "apiserver" / "validating-webhook.yaml").read_text())
    (webhook,) = config["webhooks"]
    (rule,) = webhook["rules"]
    assert webhook["name"] == "validate-operator-types.configbutler.ai"
    assert (rule["operations"], rule["resources"], rule["scope"]) == (
        ["CREATE"],
        ["commitrequests"],
        "Namespaced",
    )
    assert (webhook["failurePolicy"], webhook["matchPolicy"]) == ("Ignore", "Equivalent")
    assert (webhook["sideEffects"], webhook["timeoutSeconds"]) == ("NoneOnDryRun", 2)
    assert webhook["clientConfig"]["service"]["path"] == "/validate-operator-types"


def test_audit_policy() -> None:
    """K6: ends of changes with both bodies, credentials never, reads not at all."""
    policy = yaml.safe_load((ROOT / "deploy" / "apiserver" / "audit-policy.yaml").read_text())
    assert policy["omitStages"] == ["RequestReceived"]
    *others, changes, reads = policy["rules"]
    assert changes == {
        "level": "RequestResponse",
        "verbs": ["create", "update", "patch", "delete", "deletecollection"],
    }
    assert reads == {"level": "None"}
    assert {rule["level"] for rule in others} == {"None"}
    assert "tokenreviews" in others[0]["resources"][0]["resources"]


def test_guide_names_what_exists() -> None:
    """Every setting in the guide exists, and its files are there."""
    text = (ROOT / "docs" / "attribution.md").read_text()
    known = {variable_name(name) for name in SETTINGS}
    for word in text.replace("`", " ").replace("=", " ").replace(",", " ").replace(")", " ").split():
        if word.startswith("REVERSER_"):
            assert word.rstrip(".:") in known, word
    for name in ("audit-policy.yaml", "audit-webhook-kubeconfig.yaml", "validating-webhook.yaml"):
        assert f"deploy/apiserver/{name}" in text
        assert (ROOT / "deploy" / "apiserver" / name).exists()
