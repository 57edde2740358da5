"""No secret value is anywhere but where it belongs: a whole installation is searched after a bad day.

Unique values are planted in Secrets, another sensitive type, credentials and keys. The installation logs at
its most verbose level, loses its remote, is killed in mid-work, meets bad encryption settings and a wrong
password, and its pages are read. Then every place that it can write to is searched, in every form that a
value takes on its way.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
)

from reverser.errors import KubeNotFound
from reverser.kube.paths import resource_path
from reverser.supervision.gitview import GitView
from tests import needs
from tests.e2e.hunt import Browser, Hunt, Plants, Watch, database_rows, files
from tests.e2e.operator import Operator, wait_gone
from tests.e2e.trust import ENCRYPTION, age_identity, change_secret, secret, shows
from tests.e2e.workspace import Workspace, until
from tests.git.servers import git_http, git_ssh, ssh_keygen

GIZMO = {"apiGroups": ["leaks.test"], "apiVersions": ["v1"], "resources": ["gizmos"]}
TYPES = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "secrets"]}
FOREIGN = ("git", "ssh", "sops", "setpriv")
"""Programs that the installation runs."""
CRDS = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")


@pytest.fixture
def verbose(operator: Operator, tmp_path: Path) -> Iterator[Operator]:
    """The installation at its most verbose, with one more sensitive type."""
    assert operator.stop() == 0
    operator.lines.clear()
    more = {
        "REVERSER_LOG_LEVEL": "debug",
        "REVERSER_ADDITIONAL_SENSITIVE_RESOURCES": "leaks.test/Gizmos",
        "TMPDIR": str(tmp_path / "scratch"),
        "HOME": str(tmp_path / "home"),
    }
    before = {name: operator.environment[name] for name in more if name in operator.environment}
    operator.environment.update(more)
    for name in ("TMPDIR", "HOME"):
        Path(more[name]).mkdir()
    operator.start()
    yield operator
    for name in more:
        operator.environment.pop(name)
    operator.environment.update(before)
    if operator.running:
        operator.stop()


def make_gizmos(space: Workspace) -> None:
    """A sensitive type whose values are anywhere in the object."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": free}}
    names = {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"}
    space.kube.create(
        CRDS,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "gizmos.leaks.test"},
            "spec": {"group": "leaks.test", "scope": "Namespaced", "names": names, "versions": [version]},
        },
    )


def gizmo(space: Workspace, name: str, **content: object) -> None:
    body = {"apiVersion": "leaks.test/v1", "kind": "Gizmo", "metadata": {"name": name}, **content}
    path = resource_path("leaks.test", "v1", "gizmos", namespace=space.namespace)
    until(lambda: _created(space, path, body), "a Gizmo can be made")


def _created(space: Workspace, path: str, body: dict[str, object]) -> bool:
    try:
        space.kube.create(path, body)
    except KubeNotFound:
        return False
    return True


@contextlib.contextmanager
def over_ssh(space: Workspace, plants: Plants) -> Iterator[Callable[[], None]]:
    """Where OpenSSH's server is installed: a function that mirrors a branch with a locked SSH key."""
    if not (needs.everything() or needs.find("sshd")):
        yield lambda: None
        return
    keys = space.folder / "keys"
    keys.mkdir()
    passphrase = plants.add("ssh passphrase")
    deploy = ssh_keygen(keys / "deploy", "-t", "ed25519", passphrase=passphrase)
    locked = deploy.read_bytes()
    plants.add("ssh key as given", locked.splitlines()[2])
    opened = load_ssh_private_key(locked, passphrase.encode())
    pem = opened.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    plants.add("ssh key", pem.splitlines()[4])
    public = deploy.with_suffix(".pub").read_text().strip()
    with git_ssh(space.folder / "sshd", space.folder, [public]) as server:

        def mirror() -> None:
            hosts = server.known_hosts()
            secret(space, "key", {"identity": locked, "password": passphrase, "known_hosts": hosts})
            space.provider("ssh", url=server.url("repo.git"), secretRef={"name": "key"})
            spec = {"providerRef": {"name": "ssh"}, "branch": "env/ssh", "path": "ssh"}
            space.apply("gittargets", "GitTarget", "ssh", spec)
            space.rule(name="ssh", target="ssh")

        yield mirror
        view = GitView(space.repository, "env/ssh")
        until(lambda: view.read(space.file("last", root="ssh")), "the branch over SSH", 120)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_secret_value_is_found_anywhere(verbose: Operator, space: Workspace) -> None:
    """J01, J03, J10, J11, J20, pain 106, O-LEAK: after a bad day no value is where it does not belong."""
    operator, plants = verbose, Plants()
    hunt = Hunt(operator, space, plants, since=time.time())
    signing_passphrase = plants.add("signing passphrase")
    locked = ed25519.Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, BestAvailableEncryption(signing_passphrase.encode())
    )
    plants.add("signing key", locked.splitlines()[2])
    password = plants.add("password")
    make_gizmos(space)
    with git_http(space.folder) as server, over_ssh(space, plants) as ssh, Watch(operator, plants) as watch:
        server.basic = ("bot", password)
        ssh()
        secret(space, "cred", {"username": "bot", "password": password})
        secret(space, "sig", {"signing.key": locked, "passphrase": signing_passphrase})
        secret(space, "broken", {"x.agekey": plants.add("malformed age key")})
        signing = {"secretRef": {"name": "sig"}}
        space.provider(url=server.url("repo.git"), secretRef={"name": "cred"}, commit={"signing": signing})
        placement = {
            "default": "{namespace}/all.yaml",
            "byType": {"v1/secrets": "{namespace}/s/{name}{sensitiveSuffix}"},
        }
        space.target(encryption=ENCRYPTION)
        space.target("placed", path="placed", encryption=ENCRYPTION, placement=placement)
        space.target("open", path="open")
        bad = {**ENCRYPTION, "secretRef": {"name": "broken"}}
        space.target("bad", path="bad", encryption=bad)
        for name in ("gt", "placed", "open", "bad"):
            space.rule((TYPES, GIZMO), name=name, target=name)
        for name in ("gt", "placed", "open"):
            space.wait_streams(name)
        plants.add("age identity", age_identity(space))
        pin = plants.add("secret value")
        applied = json.dumps({"stringData": {"pin": pin}})
        secret(
            space,
            "safe",
            {"pin": pin, "note": f"line1\n{plants.add('second line')}\n"},
            annotations={"kubectl.kubernetes.io/last-applied-configuration": applied},
        )
        token = plants.add("token of a Gizmo")
        gizmo(space, "g", config={"token": token}, spec={"items": [plants.add("item of a Gizmo")]})
        space.configmap("menu")
        space.in_git("safe", resource="secrets", suffix=".sops.yaml", seconds=60)
        sealed = space.in_git("g", resource="leaks.test/gizmos", suffix=".sops.yaml", seconds=60)
        assert b"token: ENC[" in sealed
        until(lambda: space.git.read(f"placed/{space.namespace}/s/safe.sops.yaml"), "the placed Secret")
        until(lambda: space.git.read(f"placed/{space.namespace}/all.yaml"), "the placed ConfigMap")
        assert b"Gizmo" not in (space.git.read(f"placed/{space.namespace}/all.yaml") or b"")
        shows(space, "gittargets", "bad", "EncryptionConfigured=False/InvalidConfig")

        server.answer = 500
        change_secret(space, "safe", {"pin": plants.add("value while the remote is away")})
        shows(space, "gittargets", "gt", "PushSucceeding=False", seconds=60)
        hunt.redis()  # while the journal still holds what cannot be pushed
        operator.kill()
        operator.start()
        server.answer = None
        server.basic = ("bot", plants.add("rotated password"))
        change_secret(space, "cred", {"password": f"wrong {plants.add('wrong password')}"})
        shows(space, "gittargets", "gt", "PushSucceeding=False", seconds=60)
        change_secret(space, "cred", {"password": server.basic[1]})
        tip = space.git.tip()
        until(lambda: space.git.tip() != tip, "the remote is back", 90)
        space.configmap("last")
        space.in_git("last", seconds=60)

        browser = Browser(f"http://{operator.http}")
        shown = next(line for line in operator.lines if 'with password "' in line)
        browser.login(shown.partition('with password "')[2].partition('"')[0])
        for path in ("gittargets", "gitproviders", "commits", "branches", "streams", "rules", "events"):
            browser.get(f"/api/v1/{path}")
        browser.crawl("/admin/", "/api/schema", "/metrics", "/healthz", "/readyz", "/api/v1/nothing")
    assert len(browser.answers) > 15
    assert watch.samples > 100

    hunt.leaks |= {(f"/proc {name}", place) for name, place in watch.found}
    for path, body in browser.answers.items():
        hunt.look(f"page {path}", body)
    hunt.everything()
    assert sorted(hunt.leaks) == []
    wanted = ("page", "log", "redis", "database", "git", "file", "status", "event")
    assert min(hunt.looked[kind] for kind in wanted) > 0
    assert hunt.looked["git"] > 1
    space.kube.delete(f"{CRDS}/gizmos.leaks.test")


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _killed_in_step(operator: Operator, word: str, step: str) -> None:
    """Wait for a child whose command holds ``word``, then kill the installation, but not that child: it must
    go by itself, and with it whatever it was given to read."""
    children: list[int] = []

    def seen() -> bool:
        children[:] = operator.pids(word)
        return bool(children)

    until(seen, f"{step} is under way", 60)
    operator.kill(only=[pid for pid in operator.pids("") if not _name(pid).startswith(FOREIGN)])
    for pid in children:
        wait_gone(pid)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_in_mid_work_nothing_secret_stays(verbose: Operator, space: Workspace) -> None:
    """106, J15, O-LEAK: kill -9 amid listing, pushing over SSH and sealing leaves no key and no plain text on
    any disk or in shared memory, and no child; the next start completes the work."""
    operator, plants = verbose, Plants()
    hunt = Hunt(operator, space, plants, since=time.time())
    password = plants.add("password")
    with git_http(space.folder) as server, over_ssh(space, plants) as ssh:
        server.basic = ("bot", password)
        secret(space, "cred", {"username": "bot", "password": password})
        space.provider(url=server.url("repo.git"), secretRef={"name": "cred"})
        space.target(encryption=ENCRYPTION)
        space.rule((TYPES,))
        space.wait_streams()
        space.configmap("first")
        space.in_git("first", seconds=60)
        server.hang.set()
        space.configmap("second")
        _killed_in_step(operator, "ls-remote", "a listing over http")
        hunt.disks()
        server.hang.clear()
        operator.start()
        plants.add("age identity", age_identity(space))
        space.in_git("second", seconds=60)
        names = [f"s{number}" for number in range(40)]
        for name in names:
            secret(space, name, {"pin": plants.add(f"pin of {name}")})
        _killed_in_step(operator, "--encrypted-regex", "sealing")
        hunt.disks()
        operator.start()
        for name in names:
            space.in_git(name, resource="secrets", suffix=".sops.yaml", seconds=90)
        if needs.find("sshd"):
            mark = space.folder / "inside"
            space.hook("pre-receive", f"if grep -q refs/heads/env/ssh; then touch {mark}; sleep 5; fi")
            ssh()
            until(mark.exists, "a push over SSH is inside the remote", 60)
            _killed_in_step(operator, "push", "a push over SSH")
            hunt.disks()
            space.hook("pre-receive", "exit 0")
            operator.start()
            space.configmap("last")
    hunt.everything()
    assert sorted(hunt.leaks) == []
    assert hunt.looked["file"] > 10


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """A search that finds nothing is worth nothing: each form is found, in a file, a row and an object."""
    plants = Plants()
    value = plants.add("x").encode()
    for shift in range(3):
        text = base64.b64encode(b"abc"[:shift] + value + b"tail")
        assert plants.search(b"--" + text) == ["x"]
        inner = base64.b64encode(value)
        assert plants.search(base64.b64encode(b"abc"[:shift] + b'{"pin":"' + inner + b'"}')) == ["x"]
    for text in (value, value.hex().encode(), urllib.parse.quote(value.decode()).encode()):
        assert plants.search(b"before " + text + b" after") == ["x"]
    assert plants.search(b"nothing") == []
    (tmp_path / "a").write_bytes(value)
    assert [name.name for name, data in files(tmp_path, since=0) if plants.search(data)] == ["a"]
    with sqlite3.connect(tmp_path / "d.sqlite3") as database:
        database.execute("create table t (v text)")
        database.execute("insert into t values (?)", (value.decode(),))
    assert [row for row in database_rows(tmp_path) if plants.search(row)]
