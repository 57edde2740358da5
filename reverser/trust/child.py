"""Child processes that always end: deadlines, process groups, and death with the parent.

Git and sops are foreign programs that talk to foreign servers, so a call may hang forever, and a writer that
is killed must not leave a push running beside its successor. Every child therefore leads its own process
group, is killed as a group at its deadline or when it falls silent for too long, and asks the kernel to be
killed when the thread that started it dies. Arguments are a list, never a shell string, and the environment
is given whole: nothing is inherited.

The request to the kernel is made by ``setpriv`` between us and the program. Making it between fork and exec
would rule out vfork, and a plain fork copies the page tables of a large worker each time (measured: 126 ms
instead of 4 at 400 MB). Without setpriv, that is the fallback.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Self

from reverser.errors import TransientError

_PR_SET_PDEATHSIG = 1
_CHUNK = 1 << 16
_MOST_WORDS = 1 << 18
_TICK = 0.5

_libc: ctypes.CDLL | None
try:
    _libc = ctypes.CDLL(None, use_errno=True)
    _prctl = _libc.prctl
except (OSError, AttributeError):  # not Linux: the deadline alone guards
    _libc = None


class ChildTimeout(TransientError):
    """A child process passed its deadline, or was silent for too long, and was killed."""


class ChildAbandoned(TransientError):
    """Nobody waited for the child's answer any longer, and it was killed."""


class ChildFailed(TransientError):
    """A child could not be started, was killed by somebody else, or said more than it may."""


@dataclass(frozen=True, slots=True)
class Completed:
    """What a child left behind. ``returncode`` is negative for a signal, as in subprocess."""

    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.returncode == 0


def _die_with(parent: int) -> Callable[[], None] | None:
    """The hook that runs between fork and exec; None where the kernel offers no such signal."""
    if _libc is None:
        return None

    def hook() -> None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the request took effect
            os._exit(127)

    return hook


@functools.cache
def _launcher() -> tuple[str, ...]:
    """The command that makes what follows it die with its parent; empty where there is none."""
    found = shutil.which("setpriv")
    if found is None:
        return ()
    words = (found, "--pdeathsig", "KILL", "--")
    try:
        known = subprocess.run([*words, found, "--version"], capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return words if known.returncode == 0 else ()


def _program(name: str, env: Mapping[str, str]) -> str:
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return found


def start(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a child with pipes on all three streams; the caller ends it with ``stop``.

    Raises FileNotFoundError when there is no such program, ChildFailed when the machine has no room for
    one more process.
    """
    launcher = _launcher()
    command = [*launcher, _program(argv[0], env), *argv[1:]]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd if cwd is not None else "/",
            start_new_session=True,
            umask=0o077,
            preexec_fn=None if launcher else _die_with(os.getpid()),  # noqa: PLW1509 - takes no lock
        )
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise
        why = os.strerror(error.errno or 0)
        raise ChildFailed(f"{Path(argv[0]).name} cannot be started: {why}") from None


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and everything it started; harmless when it is gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def stop(process: subprocess.Popen[bytes], *, grace: float = 0.0) -> None:
    """End a child: close its input, give it ``grace`` seconds, kill its group, reap it, close the pipes."""
    for stream in (process.stdin,):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    if process.returncode is None:
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            kill_group(process)
            process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@contextlib.contextmanager
def killed_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Kill the child if the block is not left within ``seconds``; the block then sees end of file."""
    timer = Timer(seconds, kill_group, (process,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    deadline: float,
    cwd: Path | None = None,
    data: bytes = b"",
    idle: float | None = None,
    limit: int | None = None,
    abandon: Callable[[], bool] | None = None,
) -> Completed:
    """Run a child to its end, feeding ``data`` to its stdin.

    ``deadline`` is the longest it may take and ``idle`` the longest it may say nothing on either output,
    both in seconds; ``limit`` is how many bytes it may say; ``abandon`` is asked twice a second, and True
    ends the child. Of a long standard error the middle is left out: it is words, perhaps a stranger's.
    Raises ChildTimeout, ChildAbandoned, and ChildFailed when it cannot be started or says more; the message
    names the program, never its arguments.
    """
    name = Path(argv[0]).name
    process = start(argv, env=env, cwd=cwd)
    began = heard = time.monotonic()
    try:
        with _Exchange(process, data) as exchange:
            while exchange.open:
                now = time.monotonic()
                until = min(began + deadline, heard + idle if idle is not None else began + deadline)
                if now >= until:
                    raise ChildTimeout(f"{name} did not answer within {now - began:.0f} s")
                if abandon is not None and abandon():
                    raise ChildAbandoned(f"{name} was not waited for any longer")
                if exchange.step(min(_TICK, until - now)):
                    heard = time.monotonic()
                if limit is not None and exchange.size > limit:
                    raise ChildFailed(f"{name} says more than {limit} bytes")
        try:
            process.wait(max(0.1, began + deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ChildTimeout(f"{name} did not end in time") from None
        return Completed(process.returncode, *exchange.outputs())
    finally:
        stop(process)


class _Exchange:
    """The pipes of a child: feeds its input and collects both outputs, without blocking on any of them."""

    def __init__(self, process: subprocess.Popen[bytes], data: bytes) -> None:
        assert process.stdin and process.stdout and process.stderr
        self._stdin, self._stderr = process.stdin, process.stderr
        self._words = 0
        self._pending = memoryview(data)
        self._chunks: dict[IO[bytes], list[bytes]] = {process.stdout: [], process.stderr: []}
        self._selector = selectors.DefaultSelector()
        self.size = 0
        """Bytes received on both outputs."""

    def __enter__(self) -> Self:
        for stream in self._chunks:
            self._selector.register(stream, selectors.EVENT_READ)
        if self._pending:
            os.set_blocking(self._stdin.fileno(), False)
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        else:
            self._stdin.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    @property
    def open(self) -> bool:
        """Whether the child still reads its input, or may still write."""
        return bool(self._selector.get_map())

    def step(self, seconds: float) -> bool:
        """Wait so long for pipes that are ready and serve them; whether any byte went through."""
        moved = False
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._stdin:
                self._pending = _feed(self._stdin, self._pending)
                if not self._pending:
                    self._selector.unregister(self._stdin)
                moved = True
            elif chunk := os.read(key.fd, _CHUNK):
                self._keep(key.fileobj, chunk)  # type: ignore[arg-type]
                moved = True
            else:
                self._selector.unregister(key.fileobj)
        return moved

    def _keep(self, stream: IO[bytes], chunk: bytes) -> None:
        chunks = self._chunks[stream]
        chunks.append(chunk)
        self.size += len(chunk)
        if stream is self._stderr:
            self._words += len(chunk)
            if self._words > 2 * _MOST_WORDS:
                words = b"".join(chunks)
                chunks[:] = [words[: _MOST_WORDS // 2] + b"\n", words[-_MOST_WORDS // 2 :]]
                self._words = sum(map(len, chunks))

    def outputs(self) -> tuple[bytes, bytes]:
        """What was received on standard output and on standard error."""
        stdout, stderr = (b"".join(chunks) for chunks in self._chunks.values())
        return stdout, stderr


def _feed(stdin: IO[bytes], pending: memoryview) -> memoryview:
    """Write what the pipe takes now; closes it when all is written or when nobody reads any more."""
    try:
        pending = pending[os.write(stdin.fileno(), pending[:_CHUNK]) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        pending = pending[:0]
    if not pending:
        stdin.close()
    return pending
