"""The bare clone of one branch: list, fetch, read, commit, push.

The clone is a cache that one process owns while it is open. Nothing in it is trusted to say where the
remote is: existence and tips come from the remote's ref listing, a push is a compare-and-swap on exactly
the tip that was built on, and every network call has a deadline and ends when the remote falls silent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gitwriter.git import clone
from gitwriter.git.commits import CommitSession, Signer
from gitwriter.git.environment import base_environment, git_binary
from gitwriter.git.errors import CloneDamaged
from gitwriter.git.network import (
    DEFAULT_DEADLINES,
    Deadlines,
    RemoteRefs,
    list_remote,
    run_remote,
    unavailable,
)
from gitwriter.git.objects import BlobReader, DiffEntry, TreeEntry, parent_of, parse_diff, parse_tree
from gitwriter.git.pushing import PushResult, Unknown, Verdict, judge, parse_report, server_words, settled
from gitwriter.git.remote import Remote
from gitwriter.identity import Ident
from reverser.errors import LostRace, RemoteRejected, RemoteUnavailable
from reverser.kinds.branches import require_branch
from reverser.trust.child import Completed, run
from reverser.trust.urls import parse_repository_url
from reverser.trust.values import redact

__all__ = ["BareRepository", "Deadlines", "PushResult", "RemoteRefs", "list_remote"]

_TRACKING = "refs/remotes/origin/"
_NEAR = 256
"""First parents to follow before asking git; an attempt makes at most two hundred commits."""


class BareRepository:
    """An open clone. Close it (or use it as a context manager): it holds a lock and a child process."""

    def __init__(self, path: Path, lock: int, deadlines: Deadlines) -> None:
        self.path = path
        self._lock: int | None = lock
        self._deadlines = deadlines
        self._reader: BlobReader | None = None
        self._damaged = False

    @classmethod
    def open_or_create(
        cls,
        path: Path,
        url: str,
        *,
        deadlines: Deadlines = DEFAULT_DEADLINES,
    ) -> BareRepository:
        """Take the clone at ``path`` for this process, making or replacing it as needed.

        Raises CloneUnusable when another process has it or the disk refuses, ConfigInvalid for the URL.
        """
        origin = parse_repository_url(url).text  # without userinfo: it is written down
        lock = clone.acquire(path)
        try:
            clone.prepare(path, origin)
        except BaseException:
            os.close(lock)
            raise
        return cls(path, lock, deadlines)

    def __enter__(self) -> BareRepository:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, CloneDamaged):
            self._damaged = True
        self.close()

    def close(self) -> None:
        """End the reader, remove a damaged clone, release the lock. Harmless when repeated."""
        if self._lock is None:
            return
        try:
            self.release_reader()
            if self._damaged:
                clone.remove(self.path)
        finally:
            os.close(self._lock)
            self._lock = None

    def discard(self) -> None:
        """Remove the clone when it is closed."""
        self._damaged = True

    def start_reader(self) -> None:
        """Start the blob reader ahead of its first use."""
        if self._reader is None:
            self._reader = BlobReader(self.path)

    def release_reader(self) -> None:
        """End the blob reader until it is needed again."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- the remote

    def list_remote(self, remote: Remote) -> RemoteRefs:
        """The remote's branches now. Raises RemoteUnavailable, SecretMalformed, ConfigInvalid."""
        return list_remote(remote, deadlines=self._deadlines)

    def fetch(
        self, remote: Remote, refs: Mapping[str, str], *, depth: int | None = None
    ) -> Mapping[str, str]:
        """Fetch branches, given their listed tips; returns the tips that are here now.

        What is here already is not fetched. Without ``depth`` a branch that was never fetched comes with
        its tip alone, later with what is newer than the oldest commit here; ``depth`` is a number of
        commits. Raises LostRace when a branch vanished since it was listed, RemoteUnavailable otherwise.
        """
        tips: dict[str, str] = {}
        for name, tip in refs.items():
            require_branch(name)
            have = self._tracked(name)
            if depth is not None:
                self._fetch_one(remote, name, [[f"--depth={depth}"]])
            elif have is None:
                self._clear_the_way(name)
                self._fetch_one(remote, name, [["--depth=1"]])
            elif have != tip:
                self._fetch_one(remote, name, self._bounds(have))
            else:
                tips[name] = have
                continue
            fetched = self._tracked(name)
            if fetched is None:
                raise CloneDamaged("git fetched a branch and did not keep it; the clone is fetched anew")
            tips[name] = fetched
        return tips

    def _bounds(self, tip: str) -> list[list[str]]:
        """How to fetch what came after ``tip``: the ways to try, in order.

        To a shallow clone a rewritten branch would come with its whole history, because the remote cannot
        know what lies behind the cut. The date of the oldest commit here bounds it; where the remote does
        not know such bounds, or everything is older, the new tip alone is fetched.
        """
        if not self.shallow():
            return [[]]
        roots = self._checked("rev-list", "--max-parents=0", "--timestamp", tip).decode().splitlines()
        oldest = min(int(line.split(" ", 1)[0]) for line in roots)
        return [[f"--shallow-since=@{oldest} +0000"], ["--depth=1"]]

    def _fetch_one(self, remote: Remote, name: str, ways: Sequence[Sequence[str]]) -> None:
        arguments = ["fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--progress"]
        arguments += ["--no-recurse-submodules", "--refmap=", "--force"]
        target = ["--", remote.url.text, f"+refs/heads/{name}:{_TRACKING}{name}"]
        for flags in ways:
            done = self._transfer(remote, [*arguments, *flags, *target])
            if done.ok:
                return
        if name not in self.list_remote(remote).branches:
            raise LostRace("a branch vanished from the remote while it was fetched")
        # The remote answers, so the clone may be damaged: an unreadable object that only transfers use would
        # fail them forever.
        self._checked("fsck", "--no-dangling", "--no-progress", deadline=self._deadlines.transfer)
        raise unavailable("cannot fetch from the remote", remote, done.stderr)

    def _require_packable(self, new: str, expected: str | None) -> None:
        """After a failed push to a remote that answers: check that the clone can read what is to be sent.

        An object that a crash damaged is found again by its id, so every push would fail alike; and the
        remote, which got half a pack, may call that a rejection. Raises CloneDamaged.
        """
        wanted = f"{new}\n" + (f"^{expected}\n" if expected else "")
        self._checked("pack-objects", "--quiet", "--revs", "--stdout", data=wanted.encode())

    def shallow(self) -> bool:
        """Whether history is cut off somewhere."""
        return (self.path / "shallow").exists()

    def is_ancestor(self, old: str, new: str) -> bool | None:
        """Whether ``old`` is reachable from ``new``; None where the clone's history is too short to tell."""
        if old == new or self._builds_on(old, new):
            return True
        if not self.has_commit(new):
            return None
        here = self.has_commit(old)
        if here:
            done = self._git("merge-base", "--is-ancestor", old, new)
            if done.returncode == 0:
                return True
            if done.returncode != 1:
                return None
        if not self.shallow():
            return False
        # A path from new to old that is not visible here passes a commit whose parents were cut off. Such a
        # commit cannot lie behind old, so it is enough to look at what does not.
        arguments = ["rev-list", "--max-parents=0", new]
        if here:
            arguments += ["--not", f"{old}^@"]
        cut = set((self.path / "shallow").read_text().split())
        roots = self._checked(*arguments).decode().split()
        return None if cut.intersection(roots) else False

    def _builds_on(self, old: str, new: str) -> bool:
        """Whether ``old`` is a few first parents behind ``new``: the usual case, told without a child."""
        commit = new
        for _ in range(_NEAR):
            parent = parent_of(self._commit(commit) or b"")
            if parent is None or parent == old:
                return parent == old
            commit = parent
        return False

    def contains(self, remote: Remote, *, branch: str, old: str, tip: str) -> bool:
        """``is_ancestor`` on a fetched branch, whose history is deepened as far as that helps.

        What is not found within 512 commits counts as not contained: the replay that follows is harmless,
        while fetching all of a large history would stop the branch for minutes.
        """
        for depth in (64, 512):
            answer = self.is_ancestor(old, tip)
            if answer is not None:
                return answer
            self.fetch(remote, {branch: tip}, depth=depth)
        return bool(self.is_ancestor(old, tip))

    def push(self, remote: Remote, *, branch: str, new: str, expected: str | None) -> PushResult:
        """Move a branch from exactly ``expected`` (None = it must not exist) to ``new``.

        Raises LostRace when the branch is elsewhere now, RemoteRejected with the server's words when its
        policy refuses, RemoteUnavailable when the outcome is unknown: the push may have arrived.
        """
        require_branch(branch)
        if expected is not None and self.is_ancestor(expected, new) is False:
            raise LostRace("the new tip does not build on the expected one; the change is built again")
        ref = f"refs/heads/{branch}"
        arguments = ["push", "--porcelain", "--progress", "--no-verify", "--no-follow-tags"]
        arguments += [f"--force-with-lease={ref}:{expected or ''}", "--", remote.url.text, f"{new}:{ref}"]
        stderr, report, tip = b"", None, None
        try:
            done = self._transfer(remote, arguments)
        except RemoteUnavailable:
            ok = False
        else:
            ok, stderr, report = done.ok, done.stderr, parse_report(done.stdout, branch)
        verdict = settled(report, ok=ok)
        if verdict is None:
            tip = self._tip_of(remote, branch)
            verdict = judge(report, expected=expected, new=new, tip=tip)
        if verdict is Verdict.UP_TO_DATE:
            return PushResult.UP_TO_DATE
        if verdict is Verdict.PUSHED:
            if not clone.write_ref(self.path, f"{_TRACKING}{branch}", new):
                self._clear_the_way(branch)
                self._git("update-ref", f"{_TRACKING}{branch}", new)
            return PushResult.PUSHED
        if verdict is Verdict.RACE:
            raise LostRace(f"branch {branch} moved on the remote; the change is built again on its new tip")
        if not isinstance(tip, Unknown):
            self._require_packable(new, expected)
        if verdict is Verdict.REJECTED:
            words = redact(server_words(report, stderr), remote.secrets, limit=800)
            raise RemoteRejected(
                f"the remote refuses pushes to {branch}: {words or 'no reason given'}. "
                "Change the remote's rules, the credentials' permissions, or what the commit holds"
            )
        raise unavailable("the push could not be completed", remote, stderr)

    def _tip_of(self, remote: Remote, branch: str) -> str | Unknown | None:
        try:
            return self.list_remote(remote).branches.get(branch)
        except RemoteUnavailable:
            return Unknown()

    # -- reading

    def has_commit(self, commit: str) -> bool:
        """Whether a commit is in the clone."""
        return self._commit(commit) is not None

    def _commit(self, commit: str) -> bytes | None:
        with self._reading() as reader:
            return reader.commit(commit, deadline=self._deadlines.local)

    def tree_of(self, commit: str) -> str:
        """The tree of a commit. Raises CloneDamaged."""
        return self._checked("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()

    def tree_entries(self, commit_or_tree: str, path: str = ".") -> list[TreeEntry]:
        """All files below ``path`` (``.`` = the root); empty where there is none. Raises CloneDamaged."""
        return parse_tree(self._checked("ls-tree", "-r", "-z", "-l", commit_or_tree, *_below(path)))

    def diff_entries(self, tree_a: str, tree_b: str, path: str = ".") -> list[DiffEntry]:
        """What differs below ``path`` from the first commit or tree to the second. Raises CloneDamaged."""
        return parse_diff(
            self._checked("diff-tree", "-r", "-z", "--raw", "--no-renames", tree_a, tree_b, *_below(path))
        )

    def obstacle_on(self, commit: str, path: str) -> TreeEntry | None:
        """The first component of ``path`` that is in a commit and is no folder, or None."""
        parts = path.strip("/").split("/")
        prefixes = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        listed = parse_tree(self._checked("ls-tree", "-z", "-l", commit, "--", *prefixes))  # with neighbours
        others = {entry.path: entry for entry in listed if not entry.folder}
        return next((others[prefix] for prefix in prefixes if prefix in others), None)

    def read_blob(self, oid: str) -> bytes:
        """One blob. Raises CloneDamaged when it is not there."""
        return self.read_blobs([oid])[oid]

    def read_blobs(self, oids: Sequence[str] | Iterable[str]) -> dict[str, bytes]:
        """Blobs by id. Raises CloneDamaged when one is not there."""
        with self._reading() as reader:
            return dict(reader.read(list(oids), deadline=self._deadlines.local))

    def blob_sizes(self, oids: Collection[str]) -> dict[str, int]:
        """Sizes of blobs in bytes, told without reading them. Raises CloneDamaged when one is not there."""
        if not oids:
            return {}
        asked = "".join(f"{oid}\n" for oid in oids).encode()
        told = self._checked("cat-file", "--batch-check=%(objectsize)", data=asked).split(b"\n")[:-1]
        if not all(size.isdigit() for size in told):
            self._damaged = True
            raise CloneDamaged("the clone lacks a file of its own tree; it is fetched anew")
        return {oid: int(size) for oid, size in zip(oids, told, strict=True)}

    @contextmanager
    def _reading(self) -> Iterator[BlobReader]:
        self.start_reader()
        assert self._reader is not None
        try:
            yield self._reader
        except CloneDamaged:
            self._damaged, self._reader = True, None
            raise

    # -- writing

    def session(self) -> CommitSession:
        """A session for the commits of one attempt."""
        return CommitSession(self.path, self.read_blob)

    def commit(
        self,
        *,
        parent: str | None,
        files: Mapping[str, bytes | None],
        author: Ident,
        committer: Ident,
        when: int | None = None,
        message: bytes,
        signer: Signer | None = None,
        executable: Collection[str] = (),
    ) -> str:
        """A session of one commit; see CommitSession.commit. Returns its id."""
        with self.session() as session:
            made = session.commit(
                parent=parent,
                files=files,
                author=author,
                committer=committer,
                when=int(time.time()) if when is None else when,
                message=message,
                signer=signer,
                executable=executable,
            )
        return made.commit

    # -- upkeep

    def maintenance(self, *, loose_limit: int = 2000, pack_limit: int = 40) -> bool:
        """Repack when there are many loose objects or packs; True if it did. Raises CloneDamaged."""
        objects = self.path / "objects"
        packs = sum(1 for _ in (objects / "pack").glob("*.pack"))
        sample = sum(1 for folder in ("17", "a3") for _ in (objects / folder).glob("*"))
        if packs <= pack_limit and sample * 128 <= loose_limit:
            return False
        self.release_reader()
        self._checked("gc", "--quiet", "--prune=2.hours.ago", deadline=self._deadlines.transfer)
        return True

    # -- running git

    def _tracked(self, branch: str) -> str | None:
        """The tip of a branch as it was last seen on the remote, or None."""
        ref = f"{_TRACKING}{branch}"
        loose = clone.read_ref(self.path, ref)
        if loose is not None:
            return loose
        return self._checked("for-each-ref", "--format=%(objectname)", ref).decode().strip() or None

    def _clear_the_way(self, branch: str) -> None:
        """Forget what the remote cannot have beside this branch: ``a`` and ``a/b`` exclude each other."""
        listed = self._checked("for-each-ref", "--format=%(refname:lstrip=3)", _TRACKING)
        for name in listed.decode("utf-8", "surrogateescape").splitlines():
            if name.startswith(f"{branch}/") or branch.startswith(f"{name}/"):
                self._checked("update-ref", "-d", f"{_TRACKING}{name}")

    def _git(self, *arguments: str, deadline: float | None = None, data: bytes = b"") -> Completed:
        return run(
            [git_binary(), "--git-dir", str(self.path), *arguments],
            env=base_environment(),
            deadline=self._deadlines.local if deadline is None else deadline,
            data=data,
        )

    def _checked(self, *arguments: str, deadline: float | None = None, data: bytes = b"") -> bytes:
        done = self._git(*arguments, deadline=deadline, data=data)
        if not done.ok:
            self._damaged = True
            raise CloneDamaged(f"git {arguments[0]} failed in the clone; it is fetched anew")
        return done.stdout

    def _transfer(self, remote: Remote, arguments: list[str]) -> Completed:
        return run_remote(
            remote,
            ["--git-dir", str(self.path), *arguments],
            deadline=self._deadlines.transfer,
            idle=self._deadlines.silence,
            abandon=self._deadlines.abandon,
        )


def _below(path: str) -> list[str]:
    return [] if path in (".", "") else ["--", path]
