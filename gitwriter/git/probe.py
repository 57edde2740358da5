"""Whether credentials may push at all, found out without pushing.

Listing a repository proves reading alone, and Secrets borrowed from another tool are often read-only. A
dry run of a push that would delete a branch which does not exist makes the remote open its receiving side
and changes nothing: git then ends with 1 because there is no such branch, or with 128 because the remote
did not let it in.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack

from gitwriter.git.environment import base_environment, git_binary
from gitwriter.git.errors import CloneUnusable
from gitwriter.git.network import words_of
from gitwriter.git.remote import Remote
from reverser.errors import RemoteUnavailable
from reverser.trust.child import ChildTimeout, run
from reverser.trust.scratch import scratch_folder


def refused_push(remote: Remote, *, deadline: float = 30.0) -> str:
    """Empty when the remote accepts these credentials for pushing, else its refusal (redacted).

    Call it after a successful listing: alone it cannot tell a refusal from an unreachable remote. Raises
    RemoteUnavailable when there is no answer within ``deadline`` seconds, and SecretMalformed.
    """
    with ExitStack() as stack:
        try:
            path = stack.enter_context(scratch_folder("reverser-probe-"))
        except OSError as error:
            text = f"no temporary folder can be made ({error.strerror}); check TMPDIR, space and permissions"
            raise CloneUnusable(text) from error
        made = run(
            [git_binary(), "init", "--quiet", "--bare", "--template=", str(path)],
            env=base_environment(),
            deadline=deadline,
        )
        if not made.ok:
            raise CloneUnusable(f"no repository can be made in {path.parent}; check space and permissions")
        absent = f"refs/heads/reverser-probe-{secrets.token_hex(6)}"
        arguments = ["push", "--dry-run", "--porcelain", "--", remote.url.text, f":{absent}"]
        try:
            with remote.environment() as environment:
                done = run(
                    [git_binary(), "--git-dir", str(path), *arguments], env=environment, deadline=deadline
                )
        except ChildTimeout:
            raise RemoteUnavailable("the remote does not answer; it is tried again") from None
    if done.returncode in (0, 1):
        return ""
    return words_of(remote, done.stderr)
