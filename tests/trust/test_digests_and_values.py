"""Keyed digests, masked values, redaction, child processes and memory files."""

from __future__ import annotations

import contextlib
import os
import pickle
import stat
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reverser.errors import SecretMalformed
from reverser.trust.child import ChildTimeout, run
from reverser.trust.digests import DIGEST_ENTRY, Digester, key_of_entries, key_of_file, new_key_entries
from reverser.trust.memfile import MemoryFiles
from reverser.trust.values import SecretValue, redact


def test_digests_depend_on_key_scope_and_text() -> None:
    """Z4: equal only for the same key, place and text; boundaries between scope and text count."""
    one, two = (Digester(key_of_entries(new_key_entries(), name="n")) for _ in range(2))
    base = one.digest(b"text", scope="s")
    assert base == one.digest(b"text", scope="s")
    others = [two.digest(b"text", scope="s"), one.digest(b"texts", scope=""), one.digest(b"ext", scope="st")]
    assert base not in others


def test_key_file_is_private_and_agreed_on(tmp_path: Path) -> None:
    """The key file has mode 0600, and all who start together read the same key."""
    path = tmp_path / "state" / "digest.key"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: key_of_file(path), range(16)))
    assert len({key.reveal() for key in keys}) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["digest.key"]


@pytest.mark.parametrize("content", [b"", b"!!!", b"c2hvcnQ="])
def test_damaged_keys_are_refused(tmp_path: Path, content: bytes) -> None:
    """A short or broken key is not silently replaced."""
    (tmp_path / "k").write_bytes(content)
    with pytest.raises(SecretMalformed):
        key_of_file(tmp_path / "k")
    with pytest.raises(SecretMalformed):
        key_of_entries({DIGEST_ENTRY: content}, name="n/s")


def test_secret_values_are_masked() -> None:
    """No form of a secret value shows it, and it cannot be serialised."""
    value = SecretValue(b"CANARY")
    assert "CANARY" not in f"{value}{value!r}{value!s}{[value]}"
    with pytest.raises(TypeError):
        pickle.dumps(value)
    assert value == SecretValue(b"CANARY")
    assert value != SecretValue(b"other")


def test_redaction() -> None:
    """106: plain, percent-encoded and base64 forms, userinfo, headers, bypass links, terminal control."""
    token = SecretValue(b"p@ss/CANARY")
    text = (
        "fatal: https://bot:p@host/x p@ss/CANARY p%40ss%2FCANARY cEBzcy9DQU5BUlk= "
        "Authorization: Bearer abc.def \x1b[31mred\x1b[0m https://h/o/unblock-secret/2x\x07"
    )
    shown = redact(text, [token])
    for gone in ("CANARY", "cEBzcy", "bot:p@", "abc.def", "\x1b", "\x07", "2x"):
        assert gone not in shown
    assert "red" in shown
    assert len(redact("x" * 5000)) == 1024


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("see https://h/x?private_token=CANARY-1&a=b", "see https://h/x?private_token=****&a=b"),
        ("GET /o?X-Amz-Signature=CANARY%2F1, denied", "GET /o?X-Amz-Signature=**** denied"),
        ('"/r?a=1&api_key=CANARY"', '"/r?a=1&api_key=****"'),
        ("found \x1b[33mghp_CANARY0123456789\x1b[0m at live/a.yaml:3", "found **** at live/a.yaml:3"),
        ("push glpat-CANARY_x-123 is revoked", "push **** is revoked"),
        ("line 2: AGE-SECRET-KEY-1CANARY", "line 2: ****"),
        ("the token=short form of a rule? sig: none", "the token=short form of a rule? sig: none"),
        ("highp_one and glpat- alone stay", "highp_one and glpat- alone stay"),
    ],
)
def test_what_a_server_says_may_hold_tokens(words: str, shown: str) -> None:
    """106: parameters that name a secret and tokens that are marked as such, in colours or not."""
    assert redact(words) == shown


def test_children_end_at_the_deadline_with_their_children() -> None:
    """The whole group is killed, and the caller waits no longer than asked."""
    began = time.monotonic()
    with pytest.raises(ChildTimeout):
        run(["sh", "-c", "sleep 600 & sleep 600"], env={"PATH": os.environ["PATH"]}, deadline=0.3)
    assert time.monotonic() - began < 60


def test_silent_children_are_killed_and_lively_ones_are_not() -> None:
    """Silence is measured from the last output."""
    path = {"PATH": os.environ["PATH"]}
    with pytest.raises(ChildTimeout):
        run(["sh", "-c", "echo a; sleep 600"], env=path, deadline=300, idle=0.3)
    lively = run(
        ["sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done"], env=path, deadline=300, idle=60
    )
    assert lively.stdout.split() == [b"1", b"2", b"3", b"4", b"5"]


def test_a_missing_program_is_told_at_once() -> None:
    """There is no child to wait for."""
    with pytest.raises(FileNotFoundError):
        run(["/absent/program"], env={}, deadline=5)


def test_large_input_and_output_do_not_block() -> None:
    """Feeding and reading happen at once; a child that does not read ends normally."""
    data = os.urandom(3_000_000)
    assert run(["cat"], env={"PATH": os.environ["PATH"]}, deadline=30, data=data).stdout == data
    assert run(["true"], env={"PATH": os.environ["PATH"]}, deadline=30, data=data).ok


def test_nothing_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a child is the one given."""
    monkeypatch.setenv("CANARY", "1")
    assert run(["/usr/bin/env"], env={"A": "b"}, deadline=60).stdout == b"A=b\n"


@pytest.mark.parametrize("launcher", [True, False])
def test_children_die_with_their_parent(tmp_path: Path, launcher: bool) -> None:
    """J15: kill -9 of the parent takes the child along, with setpriv and without."""
    script = f"""
        import os
        from reverser.trust import child
        if not {launcher}:
            child._launcher = lambda: ()
        run = child.run
        body = "echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 60"
        run(["sh", "-c", body], env={{"PATH": os.environ["PATH"]}}, deadline=60)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], cwd=Path(__file__).parents[2])
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child = int((tmp_path / "pid").read_text())
    parent.kill()
    parent.wait()
    while _alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _of_children() -> set[str]:
    """What is open of the kinds that a child needs. Sockets are those of other threads of the process."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(descriptor.readlink()))
    return {link for link in found if not link.startswith("socket:")}


def test_descriptors_stay_flat() -> None:
    """104: hundreds of children leave nothing open."""
    run(["true"], env={"PATH": os.environ["PATH"]}, deadline=60)
    before = _of_children()
    for _ in range(50):
        run(["true"], env={"PATH": os.environ["PATH"]}, deadline=60, data=b"x")
    assert _of_children() <= before


def test_memory_files_end_with_their_block() -> None:
    """A memory file has mode 0600, can be read by path more than once, and is gone afterwards."""
    with MemoryFiles() as files:
        path = Path(files.add(b"secret"))
        assert path.read_bytes() == path.read_bytes() == b"secret"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()
