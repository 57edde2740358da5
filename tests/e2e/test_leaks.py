"""No secret value is anywhere but where it belongs: a whole installation is searched after a bad day.

Unique values are planted in Secrets, another sensitive type, credentials and keys. The installation logs at
its most verbose level, loses its remote, is killed in mid-work, meets bad encryption settings and a wrong
password, and its pages are read. Then every place that it can write to is searched, in every form that a
value takes on its way.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.cookiejar
import json
import os
import re
import secrets
import sqlite3
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import redis
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
)

from reverser.errors import KubeNotFound
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.supervision.gitview import GitView
from tests import needs
from tests.e2e.operator import Operator
from tests.e2e.trust import ENCRYPTION, age_identity, change_secret, secret, shows
from tests.e2e.workspace import Workspace, until
from tests.git.servers import git_http, git_ssh, ssh_keygen

PAGES = 150
GIZMO = {"apiGroups": ["leaks.test"], "apiVersions": ["v1"], "resources": ["gizmos"]}
TYPES = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "secrets"]}
CRDS = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def forms(value: bytes) -> set[bytes]:
    """The value itself and what encoders make of it: base64 at each alignment, hex, URL and JSON escapes."""
    found = {value, binascii.hexlify(value), binascii.hexlify(value).upper()}
    found |= {urllib.parse.quote(value, safe="").encode(), urllib.parse.quote_plus(value).encode()}
    found.add(json.dumps(value.decode("latin-1"))[1:-1].encode())
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + value)
        start, end = (shift * 8 + 5) // 6, len(text) - (4 if text.endswith(b"=") else 0)
        found.add(text[start:end])
        found.add(text[start:end].replace(b"+", b"-").replace(b"/", b"_"))
    return {form for form in found if len(form) >= 12}


class Plants:
    """Values that must not be found, by where they were planted."""

    def __init__(self) -> None:
        self._forms: dict[str, set[bytes]] = {}

    def add(self, place: str, value: str | bytes = "") -> str:
        """A new unique value, or one that was made elsewhere."""
        raw = value.encode() if isinstance(value, str) else value
        raw = raw or f"zq~MARK {secrets.token_hex(9)}".encode()
        self._forms[place] = forms(raw)
        return raw.decode()

    def search(self, data: bytes) -> list[str]:
        """The places of the values that stand in ``data`` in any form."""
        known = list(self._forms.items())
        return [place for place, wanted in known if any(form in data for form in wanted)]


class Watch:
    """Samples arguments and environments of the installation's processes while it works."""

    def __init__(self, operator: Operator, plants: Plants) -> None:
        self._operator = operator
        self._plants = plants
        self._stop = threading.Event()
        self.samples = 0
        self.found: set[tuple[str, str]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            try:
                pids = self._operator.pids("")
            except AssertionError:
                continue
            for pid in pids:
                for name in ("cmdline", "environ"):
                    try:
                        data = Path(f"/proc/{pid}/{name}").read_bytes()
                    except OSError:
                        continue
                    self.samples += 1
                    for place in self._plants.search(data):
                        self.found.add((name, place))


class Browser:
    """Reads every page that a logged-in person can reach by links."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.answers: dict[str, bytes] = {}
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)

    def login(self, password: str) -> None:
        page = self.get("/admin/login/").decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token is not None
        form = {"csrfmiddlewaretoken": token[1], "username": "admin", "password": password, "next": "/admin/"}
        request = urllib.request.Request(
            f"{self.base}/admin/login/",
            urllib.parse.urlencode(form).encode(),
            {"Referer": f"{self.base}/admin/login/"},
        )
        with self._opener.open(request, timeout=30) as answer:
            assert "/login/" not in answer.url

    def get(self, path: str) -> bytes:
        try:
            with self._opener.open(self.base + path, timeout=30) as answer:
                body: bytes = answer.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        self.answers[path] = body
        return body

    def crawl(self, *starts: str) -> None:
        waiting = list(starts)
        while waiting and len(self.answers) < PAGES:
            path = waiting.pop(0)
            if path in self.answers or "logout" in path or "/static/" in path:
                continue
            for link in _links(self.get(path).decode("utf-8", "replace")):
                where = urllib.parse.urljoin(self.base + path, link).partition("#")[0]
                if where.startswith(self.base + "/"):
                    waiting.append(where.removeprefix(self.base))


def _links(text: str) -> Iterable[str]:
    for found in re.finditer(r'(?:href=|hx-get=|":\s*)"([^"\s]+)"', text):
        if found[1].startswith(("/", "http", "?", "..")) or found[1].endswith("/"):
            yield found[1].replace("&amp;", "&")


def redis_values(url: str) -> Iterator[bytes]:
    """Every key and value of every database."""
    for number in range(16):
        with redis.Redis.from_url(url, db=number) as client:
            for key in client.scan_iter("*", count=500):
                yield key
                yield repr(_content(client, key)).encode()
                yield b"\n".join(_flat(_content(client, key)))


def _content(client: redis.Redis, key: bytes) -> object:
    kind = client.type(key)
    if kind == b"string":
        return client.get(key)
    if kind == b"hash":
        return client.hgetall(key)
    if kind == b"stream":
        return client.xrange(key)
    if kind == b"zset":
        return client.zrange(key, 0, -1, withscores=True)
    if kind == b"set":
        return client.smembers(key)
    return client.lrange(key, 0, -1)


def _flat(value: object) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _flat(list(pair))
    elif isinstance(value, list | tuple | set):
        for item in value:
            yield from _flat(item)


def database_rows(folder: Path) -> Iterator[bytes]:
    """Every row of every SQLite file below a folder."""
    for file in folder.rglob("*.sqlite3"):
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
            for (table,) in database.execute("select name from sqlite_master where type = 'table'"):
                for row in database.execute(f'select * from "{table}"'):
                    yield repr(row).encode()


def git_objects(folder: Path) -> Iterator[bytes]:
    """Every object of every repository below a folder, reachable or not."""
    for head in folder.rglob("HEAD"):
        if not (head.parent / "objects").is_dir():
            continue
        done = subprocess.run(
            [
                "git",
                "-c",
                "safe.directory=*",
                f"--git-dir={head.parent}",
                "cat-file",
                "--batch-all-objects",
                "--batch",
            ],
            capture_output=True,
            check=True,
        )
        yield done.stdout


def files(folder: Path, *, since: float, skip: Iterable[Path] = ()) -> Iterator[tuple[Path, bytes]]:
    """What was written to a folder since a moment."""
    away = tuple(skip)
    for file in (Path(where) / name for where, _, names in os.walk(folder) for name in names):
        try:
            if any(file.is_relative_to(path) for path in away) or not file.is_file() or file.is_symlink():
                continue
            if file.stat().st_mtime < since - 1 or file.stat().st_size > 200 * 1024 * 1024:
                continue
            yield file, file.read_bytes()
        except OSError:
            continue


@pytest.fixture
def verbose(operator: Operator, tmp_path: Path) -> Iterator[Operator]:
    """The installation at its most verbose, with one more sensitive type."""
    assert operator.stop() == 0
    operator.lines.clear()
    more = {
        "REVERSER_LOG_LEVEL": "debug",
        "REVERSER_ADDITIONAL_SENSITIVE_RESOURCES": "leaks.test/Gizmos",
        "TMPDIR": str(tmp_path / "scratch"),
    }
    before = {name: operator.environment[name] for name in more if name in operator.environment}
    operator.environment.update(more)
    Path(more["TMPDIR"]).mkdir()
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
            spec = {"providerRef": {"name": "ssh"}, "branch": "env/ssh", "path": "live"}
            space.apply("gittargets", "GitTarget", "ssh", spec)
            space.rule(name="ssh", target="ssh")

        yield mirror
        view = GitView(space.repository, "env/ssh")
        until(lambda: view.read(space.file("last")), "the branch over SSH")


@pytest.mark.slow
def test_no_secret_value_is_found_anywhere(verbose: Operator, space: Workspace) -> None:
    """J01, J03, J10, J11, J20, pain 106, O-LEAK: after a bad day no value is where it does not belong."""
    operator, plants, began = verbose, Plants(), time.time()
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

    leaks: list[tuple[str, str]] = [(f"/proc {name}", place) for name, place in watch.found]

    looked: Counter[str] = Counter()

    def look(where: str, data: bytes) -> None:
        looked[where.split()[0]] += 1
        leaks.extend((where, place) for place in plants.search(data))

    for path, body in browser.answers.items():
        look(f"page {path}", body)
    for line in operator.lines:
        look(f"log {line[:60]}", line.encode())
    for data in redis_values(f"unix://{operator.state / 'valkey' / 'valkey.sock'}"):
        look("redis", data)
    for row in database_rows(operator.state):
        look("database", row)
    for folder in (operator.state, space.repository):
        for objects in git_objects(folder):
            look(f"git below {folder}", objects)
        for file, data in files(folder, since=began):
            look(f"file {file}", data)
    for scratch in (Path(operator.environment["TMPDIR"]), Path("/tmp"), Path("/dev/shm")):
        for file, data in files(scratch, since=began, skip=Path("/tmp").glob("pytest-of-*")):
            look(f"file {file}", data)
    for plural in ("gitproviders", "gittargets", "watchrules"):
        for found in space.kube.list(own_path(plural, namespace=space.namespace)).items:
            look(f"status of {plural}", json.dumps(found["status"]).encode())
    for event in space.kube.list(core_path("events", namespace=space.namespace)).items:
        look(f"event {event['reason']}", json.dumps(event).encode())
    assert sorted(set(leaks)) == []
    assert min(looked[kind] for kind in ("page", "log", "redis", "database", "git", "file", "status")) > 0
    assert looked["git"] > 1
    space.kube.delete(f"{CRDS}/gizmos.leaks.test")


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """A search that finds nothing is worth nothing: each form is found, in a file, a row and an object."""
    plants = Plants()
    value = plants.add("x").encode()
    for shift in range(3):
        assert plants.search(b"--" + base64.b64encode(b"abc"[:shift] + value + b"tail")) == ["x"]
    for text in (value, value.hex().encode(), urllib.parse.quote(value.decode()).encode()):
        assert plants.search(b"before " + text + b" after") == ["x"]
    assert plants.search(b"nothing") == []
    (tmp_path / "a").write_bytes(value)
    assert [name.name for name, data in files(tmp_path, since=0) if plants.search(data)] == ["a"]
    with sqlite3.connect(tmp_path / "d.sqlite3") as database:
        database.execute("create table t (v text)")
        database.execute("insert into t values (?)", (value.decode(),))
    assert [row for row in database_rows(tmp_path) if plants.search(row)]
