"""Making commits in a bare clone, at the cost of the change and not of the repository.

There is no index and no work tree, so no plain text lies on disk beside what is committed, and no porcelain
rewrites messages or names. Commits of a few files are written as loose objects. From the first commit of many
files on, ``git fast-import`` takes the session's commits in one stream, touches only the trees on the way,
and writes one pack; both ways give the same ids. Git's stream format has no room for a signature: a signed
commit's tree comes from the stream, and the commit object is then written whole, with the signature over
exactly the bytes that it will have.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gitwriter.git.environment import base_environment, git_binary
from gitwriter.git.errors import CloneDamaged
from gitwriter.git.loose import LooseObjects
from gitwriter.identity import Ident
from reverser.errors import ResourceRefused
from reverser.trust.child import killed_after, start, stop

_REF = "refs/reverser/attempt"
_DEADLINE = 120.0
_WORDS = 500
FEW_FILES = 64
_ESCAPED = re.compile(rb'[\x01-\x1f\x7f"\\]')
_RANDOM_NAME = re.compile(r"(?<=tmp_pack)_\w+")


class Signer(Protocol):
    """Signs a commit object."""

    def sign(self, payload: bytes) -> str:
        """The armored signature over ``payload``, lines separated by a newline, none at the end."""


@dataclass(frozen=True, slots=True)
class Made:
    """A new commit and its tree (equal trees = nothing changed)."""

    commit: str
    tree: str


class CommitSession:
    """The commits of an attempt. Use as a context manager.

    Leaving the block normally makes everything durable; leaving it by an exception throws it away.
    """

    def __init__(
        self,
        path: Path,
        read: Callable[[str], bytes],
        *,
        deadline: float = _DEADLINE,
        few_files: int = FEW_FILES,
    ) -> None:
        """``read`` gives the content of an object of the clone; commits of at most ``few_files`` need no
        child.
        """
        self._path = path
        self._deadline = deadline
        self._few_files = few_files
        self._loose = LooseObjects(path, read)
        self._trees: dict[str, str] = {}
        self._marks: dict[str, int] = {}
        self._count = 0
        self._over = False
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> CommitSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.abort()

    def commit(
        self,
        *,
        parent: str | None,
        files: Mapping[str, bytes | None],
        author: Ident,
        committer: Ident,
        when: int,
        message: bytes,
        signer: Signer | None = None,
        executable: Collection[str] = (),
    ) -> Made:
        """Add a commit; its objects are readable by others after ``finish``.

        ``files`` maps paths from the root to new content (None = delete); paths in ``executable`` keep
        mode 100755. ``parent`` is a commit in the clone or of this session, None for a root commit;
        ``when`` is in Unix seconds. Raises ResourceRefused for a path git must not hold, CloneDamaged when
        git cannot build on the parent, and whatever the signer raises (nothing is committed then).
        """
        for path in files:
            check_path(path)
        if self._over:
            raise CloneDamaged("the commit session is over")
        names = b"author %s\ncommitter %s\n" % (_ident(author, when), _ident(committer, when))
        if self._process is None and len(files) <= self._few_files:
            commit, mark = "", 0
            tree = self._loose.edit(self._tree_of(parent), files, executable=executable)
        else:
            commit, tree, mark = self._import(parent, files, names, message, executable)
        if not commit or signer is not None:
            commit = self._write(tree, parent=parent, names=names, message=message, signer=signer)
        self._trees[commit] = tree
        if mark:
            self._marks[commit] = mark
        return Made(commit, tree)

    def _tree_of(self, commit: str | None) -> str | None:
        if commit is None:
            return None
        return self._trees.get(commit) or self._loose.tree_of(commit)

    def _import(
        self,
        parent: str | None,
        files: Mapping[str, bytes | None],
        names: bytes,
        message: bytes,
        executable: Collection[str],
    ) -> tuple[str, str, int]:
        """Commit, tree and mark of what `fast-import` made, unsigned."""
        self._count += 1
        mark = self._count
        stream = [
            f"reset {_REF}\n".encode(),
            f"commit {_REF}\nmark :{mark}\n".encode(),
            names,
            b"data %d\n%s\n" % (len(message), message),
        ]
        if parent is not None:
            known = self._marks.get(parent)
            stream.append(f"from :{known}\n".encode() if known else f"from {parent}\n".encode())
        stream += [b"D %s\n" % _quote(path) for path, content in files.items() if content is None]
        for path, content in files.items():
            if content is not None:
                mode = b"100755" if path in executable else b"100644"
                stream.append(b"M %s inline %s\ndata %d\n%s\n" % (mode, _quote(path), len(content), content))
        stream.append(f"\nget-mark :{mark}\n".encode())
        commit = self._ask(b"".join(stream)).strip().decode()
        tree = self._ask(b'ls :%d ""\n' % mark).split()[2].decode()
        return commit, tree, mark

    def _write(
        self, tree: str, *, parent: str | None, names: bytes, message: bytes, signer: Signer | None
    ) -> str:
        head = f"tree {tree}\n".encode() + (f"parent {parent}\n".encode() if parent else b"") + names
        extra = b""
        if signer is not None:
            signature = signer.sign(head + b"\n" + message)
            extra = b"gpgsig " + signature.replace("\n", "\n ").encode() + b"\n"
        return self._loose.write(b"commit", head + extra + b"\n" + message, sha256=len(tree) == 64)

    def finish(self) -> None:
        """Write everything out. Raises CloneDamaged when git could not."""
        self._over = True
        process = self._process
        if process is None:
            return
        self._process = None
        try:
            with killed_after(process, self._deadline):
                assert process.stdin
                try:
                    process.stdin.write(b"done\n")
                    process.stdin.close()
                except BrokenPipeError:
                    raise _failed(process) from None
                if process.wait() != 0:
                    raise _failed(process)
        finally:
            stop(process)

    def abort(self) -> None:
        """Discard the session's commits; loose objects stay, but no ref names them."""
        self._over = True
        if self._process is not None:
            process, self._process = self._process, None
            stop(process)

    def _child(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [git_binary(), "--git-dir", str(self._path), "fast-import"]
            command += ["--quiet", "--done", "--force", "--date-format=raw"]
            self._process = start(command, env=base_environment())
        return self._process

    def _ask(self, request: bytes) -> bytes:
        process = self._child()
        assert process.stdin and process.stdout
        answer = b""
        with killed_after(process, self._deadline):
            try:
                process.stdin.write(request)
                process.stdin.flush()
                answer = process.stdout.readline()
            except BrokenPipeError:
                pass  # no answer: handled below
            if not answer.endswith(b"\n"):
                failed = _failed(process)
                self.abort()
                raise failed
        return answer


def _failed(process: subprocess.Popen[bytes]) -> CloneDamaged:
    """The clone cannot be built on, or the disk is full: the message quotes git."""
    assert process.stderr
    said = process.stderr.read(_WORDS).decode("utf-8", "replace").splitlines()
    words = next((line for line in said if line and not line.startswith("fast-import:")), "no reason given")
    words = _RANDOM_NAME.sub("", words)
    return CloneDamaged(
        f"git cannot make commits in the clone ({words}); it is fetched anew, check space and permissions"
    )


def check_path(path: str) -> None:
    """Raises ResourceRefused for a path that git or a careful checkout refuses."""
    parts = path.split("/")
    bad = (
        any(part in ("", ".", "..") or part.lower().rstrip(". ") in (".git", "git~1") for part in parts)
        or "\0" in path
        or len(path.encode("utf-8", "surrogateescape")) > 4096
        or any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in parts)
    )
    if bad:
        raise ResourceRefused(
            "UnsafePath", f"the path {path[:200]!r} cannot be written to Git; change the placement"
        )


def _ident(who: Ident, when: int) -> bytes:
    return f"{who.name} <{who.email}> {when} +0000".encode("utf-8", "surrogateescape")


def _quote(path: str) -> bytes:
    """A path as fast-import reads it back, whatever it holds."""
    raw = path.encode("utf-8", "surrogateescape")
    return b'"' + _ESCAPED.sub(lambda found: b"\\%03o" % found[0][0], raw) + b'"'
