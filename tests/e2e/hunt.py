"""The search for secret values: everything that an installation can write to, in every form of a value.

Values are unique, so that one found anywhere is a leak and tells where it was planted. A search that finds
nothing proves nothing by itself: ``Hunt.looked`` counts what was searched, and each form has its own test.
"""

from __future__ import annotations

import base64
import binascii
import http.cookiejar
import json
import os
import pwd
import re
import secrets
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import redis

from reverser.kube.paths import core_path, own_path
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace

PAGES = 150
MOST_BYTES = 200 * 1024 * 1024
HOME_DEPTH = 3
BEGINNING = 8
"""Values begin alike, so few beginnings tell at once that nothing is in a file."""
KINDS = ("gitproviders", "gittargets", "watchrules", "clusterwatchrules", "commitrequests")


def forms(value: bytes) -> set[bytes]:
    """The value itself and what encoders make of it: base64 at each alignment (twice, too: a Secret's data
    inside something that is encoded), hex, URL and JSON escapes."""
    found = {value, binascii.hexlify(value), binascii.hexlify(value).upper()}
    found |= {urllib.parse.quote(value, safe="").encode(), urllib.parse.quote_plus(value).encode()}
    found.add(json.dumps(value.decode("latin-1"))[1:-1].encode())
    found |= _aligned(value)
    found |= _aligned(base64.b64encode(value))
    return {form for form in found if len(form) >= 12}


def _aligned(value: bytes) -> set[bytes]:
    """What stands in base64 of anything that holds ``value``, whatever comes before and after."""
    found = set()
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + value)
        start, end = (shift * 8 + 5) // 6, len(text) - (4 if text.endswith(b"=") else 0)
        found |= {text[start:end], text[start:end].replace(b"+", b"-").replace(b"/", b"_")}
    return found


class Plants:
    """Values that must not be found, by where they were planted."""

    def __init__(self) -> None:
        self._forms: dict[str, set[bytes]] = {}
        self._beginnings: set[bytes] = set()

    def add(self, place: str, value: str | bytes = "") -> str:
        """A new unique value, or one that was made elsewhere."""
        raw = value.encode() if isinstance(value, str) else value
        raw = raw or f"zq~MARK {secrets.token_hex(9)}".encode()
        self._forms[place] = forms(raw)
        self._beginnings |= {form[:BEGINNING] for form in self._forms[place]}
        return raw.decode()

    def search(self, data: bytes) -> list[str]:
        """The places of the values that stand in ``data`` in any form."""
        if not any(beginning in data for beginning in list(self._beginnings)):
            return []
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


def files(
    folder: Path, *, since: float, skip: Iterable[Path | str] = (), depth: int = 100
) -> Iterator[tuple[Path, bytes]]:
    """What was written to a folder of a disk since a moment; other file systems below it are not entered."""
    try:
        device = folder.stat().st_dev
        entries = list(os.scandir(folder))
    except OSError:
        return
    away = frozenset(map(str, skip))
    for entry in entries:
        try:
            if entry.path in away or entry.is_symlink():
                continue
            status = entry.stat(follow_symlinks=False)
            if entry.is_dir() and status.st_dev == device and depth > 1:
                yield from files(Path(entry.path), since=since, skip=away, depth=depth - 1)
            elif entry.is_file() and status.st_mtime >= since - 1 and status.st_size <= MOST_BYTES:
                yield Path(entry.path), Path(entry.path).read_bytes()
        except OSError:
            continue


class Hunt:
    """Searches an installation and what surrounds it for planted values."""

    def __init__(self, operator: Operator, space: Workspace, plants: Plants, *, since: float) -> None:
        self._operator = operator
        self._space = space
        self._plants = plants
        self._since = since
        self.looked: Counter[str] = Counter()
        self.leaks: set[tuple[str, str]] = set()

    def look(self, where: str, data: bytes) -> None:
        """Search some bytes; the first word of ``where`` is what is counted."""
        self.looked[where.split()[0]] += 1
        self.leaks.update((where, place) for place in self._plants.search(data))

    def disks(self) -> None:
        """Every file and Git object: state directory, repository, all places for scratch, all homes."""
        state, repository = self._operator.state, self._space.repository
        for folder in (state, repository):
            for objects in git_objects(folder):
                self.look(f"git below {folder}", objects)
            for file, data in files(folder, since=self._since):
                self.look(f"file {file}", data)
        for row in database_rows(state):
            self.look("database", row)
        environment, away = self._operator.environment, list(Path("/tmp").glob("pytest-of-*"))
        scratch = {environment.get("TMPDIR", "/tmp"), environment["HOME"], "/tmp", "/var/tmp", "/dev/shm"}
        places = [(place, 100) for place in sorted(scratch)]
        for place, depth in [*places, (pwd.getpwuid(os.getuid()).pw_dir, HOME_DEPTH)]:
            for file, data in files(Path(place), since=self._since, skip=away, depth=depth):
                self.look(f"file {file}", data)

    def processes(self) -> None:
        """No process of the installation may dump its memory to a disk."""
        for pid in self._operator.pids(""):
            try:
                limits = Path(f"/proc/{pid}/limits").read_text()
            except OSError:
                continue
            self.looked["process"] += 1
            if not re.search(r"Max core file size +[01] ", limits):
                self.leaks.add((f"process {pid}", "core dumps are on"))

    def redis(self) -> None:
        """Every key and value of the embedded store."""
        for data in redis_values(f"unix://{self._operator.state / 'valkey' / 'valkey.sock'}"):
            self.look("redis", data)

    def words(self) -> None:
        """What was printed, and what the cluster shows: statuses of all five kinds, and Events."""
        for line in list(self._operator.lines):
            self.look(f"log {line[:60]}", line.encode())
        for plural in KINDS:
            for found in self._space.kube.list(self._path(plural)).items:
                self.look(f"status of {plural}", json.dumps(found.get("status")).encode())
        for event in self._space.kube.list(core_path("events", namespace=self._space.namespace)).items:
            self.look(f"event {event['reason']}", json.dumps(event).encode())

    def _path(self, plural: str) -> str:
        scoped = not plural.startswith("cluster")
        return own_path(plural, namespace=self._space.namespace if scoped else "")

    def everything(self) -> None:
        """All of it."""
        self.disks()
        self.redis()
        self.words()
        self.processes()
