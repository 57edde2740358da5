"""Where new commits start: the remote is listed and fetched, earlier pushes and rewrites are recognised.

Whether a branch exists is decided by the listing, never by what the clone remembers. Nothing on the remote is
created or changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository, RemoteRefs
from reverser.store.model import Intent


@dataclass(frozen=True, slots=True)
class Base:
    """``tip`` is the target branch's commit on the remote (None = it does not exist); ``start`` is the
    commit to build on (None = an unborn branch)."""

    tip: str | None
    start: str | None


@contextmanager
def listing(repository: BareRepository, remote: Remote) -> Iterator[Callable[[], RemoteRefs]]:
    """List the remote while the block runs; calling the value waits for the answer.

    It raises what ``list_remote`` raises.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="listing") as pool:
        yield pool.submit(repository.list_remote, remote).result


def fetch_base(repository: BareRepository, remote: Remote, branch: str, *, refs: RemoteRefs) -> Base:
    """Fetch the branch to build on, given the remote's listing.

    Raises LostRace when a branch vanishes in between, RemoteUnavailable, SecretMalformed, CloneDamaged.
    """
    name = start_branch(refs, branch)
    if name is None:
        return Base(tip=None, start=None)
    fetched = repository.fetch(remote, {name: refs.branches[name]})
    start = fetched[name]
    return Base(tip=start if name == branch else None, start=start)


def start_branch(refs: RemoteRefs, branch: str) -> str | None:
    """The tip to start from: the branch where it exists, else the default branch, else None. Pure."""
    if branch in refs.branches:
        return branch
    if refs.head is not None and refs.head in refs.branches:
        return refs.head
    return None


def arrived(repository: BareRepository, remote: Remote, intent: Intent, *, branch: str, base: Base) -> bool:
    """Whether a push that was intended has reached the remote (J15), however long ago.

    False for an intent that would not have moved the branch. While the tip is the one that it was to replace,
    nothing built on that can be in the history: a remote that refuses for weeks costs comparisons alone.
    """
    if base.tip is None:
        return False
    if base.tip == intent.new_tip:
        return True
    if base.tip == intent.expected_tip:
        return False
    return repository.contains(remote, branch=branch, old=intent.new_tip, tip=base.tip)


def was_rewritten(
    repository: BareRepository, remote: Remote, known: str | None, *, branch: str, base: Base
) -> bool:
    """Whether the remote's history no longer holds the tip last known (J19); without one, never."""
    if not known:
        return False
    if base.tip is None:
        return True
    return not repository.contains(remote, branch=branch, old=known, tip=base.tip)
