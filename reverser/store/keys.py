"""Every Redis key name, in one place.

Names are matched, never parsed back: whatever must be read back is stored as a value. Fields that come from
outside are escaped (``%`` and ``:``), so no name can imitate another key. All names share one root; a change
of layout changes the version in the name, and the old keys expire or stay unread. The scripts are handed
their keys; only two families are built inside a script, from the prefixes here.
"""

from __future__ import annotations

from reverser.store.model import BranchKey, LeaseKind, Scope

ROOT = "gitops-reverser"

DUE = f"{ROOT}:due:v1"
DUE_CLOCK = f"{ROOT}:due-clock:v1"
BRANCHES = f"{ROOT}:branches:v1"
OUTCOMES = f"{ROOT}:outcomes:v1"
GATES = f"{ROOT}:gates:v1"
TARGET_PREFIX = f"{ROOT}:target:v1:"
STAGING_PREFIX = f"{ROOT}:staging:v1:"
HINT_PREFIX = f"{ROOT}:hint:"
AUTHOR_FACTS = f"{ROOT}:author:v1:audit:"
AUTHOR_UNUSED = f"{ROOT}:author:v1:unused"
REQUEST_PREFIX = f"{ROOT}:request:v1:"


def escape(text: str) -> str:
    """Make ``text`` safe as one field of a key."""
    if "%" in text or ":" in text:
        return text.replace("%", "%25").replace(":", "%3A")
    return text


def cursor(scope: Scope) -> str:
    """The resume cursor of a shard: a bare resourceVersion."""
    place = "cluster" if scope.namespace is None else f"namespace:{escape(scope.namespace)}"
    return f"{ROOT}:watch:v1:target:{escape(scope.target_uid)}:{scope.group_resource}:{place}:last-rv"


def cursor_append(scope: Scope) -> str:
    """Beside the cursor: which append moved it last, and under which epoch and fingerprint (J2, J4)."""
    return cursor(scope).removesuffix("last-rv") + "last-append"


def scope_field(scope: Scope) -> str:
    """A scope inside the hashes of its target."""
    return f"{scope.group_resource}|{scope.namespace or ''}"


def scope_of_field(target_uid: str, text: str) -> Scope:
    """The inverse of ``scope_field``."""
    group_resource, _, namespace = text.partition("|")
    return Scope(target_uid, group_resource, namespace or None)


def lease(kind: LeaseKind, ident: str) -> str:
    """Who holds it: token, number and holder, with the lease's time to live."""
    return f"{ROOT}:lease:v1:{kind}:{escape(ident)}"


def lease_number(kind: LeaseKind, ident: str) -> str:
    """The counter of fencing numbers."""
    return f"{lease(kind, ident)}:number"


def lease_index(kind: LeaseKind) -> str:
    """Ids that were ever leased; entries without a current lease are dropped on reading."""
    return f"{ROOT}:leases:v1:{kind}"


def branch_lease(branch: BranchKey) -> str:
    """The lease of a branch's writer."""
    return lease(LeaseKind.BRANCH, branch.id)


def target_lease(target_uid: str) -> str:
    """The lease of the watcher that holds a target."""
    return lease(LeaseKind.TARGET, target_uid)


def journal(branch: BranchKey) -> str:
    """The stream of a branch (J1)."""
    return journal_of(branch.id)


def journal_of(branch_id: str) -> str:
    """The stream of a branch whose id is known."""
    return f"{ROOT}:journal:v1:{branch_id}"


def branch_part(branch: BranchKey, part: str) -> str:
    """What stands beside a stream: epoch, bytes, boundaries, claimed, intents, sweeps, scopes, record."""
    return f"{journal(branch)}:{part}"


def staging(branch: BranchKey, replay_id: str) -> str:
    """The objects of one replay until its sweep is settled (J5)."""
    return f"{staging_prefix(branch)}{replay_id}"


def staging_prefix(branch: BranchKey) -> str:
    """For scripts that delete the staging of an entry they read."""
    return f"{STAGING_PREFIX}{branch.id}:"


def target_part(target_uid: str, part: str) -> str:
    """What is known of a target: marks, applied, holds, released, digests, recipients, streams, kept, ..."""
    return f"{TARGET_PREFIX}{escape(target_uid)}:{part}"


def request(request_uid: str) -> str:
    """The mark of a CommitRequest: pending, or its outcome (J7)."""
    return f"{REQUEST_PREFIX}{escape(request_uid)}"


def process(kind: str, ident: str) -> str:
    """A living process's heartbeat."""
    return f"{ROOT}:process:v1:{escape(kind)}:{escape(ident)}"


def process_index(kind: str) -> str:
    """Ids of the processes of a kind that ever reported."""
    return f"{ROOT}:processes:v1:{escape(kind)}"


def hint(topic: str) -> str:
    """A pub/sub channel."""
    return f"{HINT_PREFIX}{topic}"


def author_slot(group_resource: str, *fields: str) -> str:
    """Audit facts of a type: ``object:<uid>:<rv>``, ``object:<uid>:last``, ``object:<uid>:removal`` or
    ``rv:<rv>``.
    """
    return ":".join((f"{AUTHOR_FACTS}{escape(group_resource)}", *(escape(field) for field in fields)))


def author_command(request_uid: str) -> str:
    """Who created a CommitRequest, as admission saw it."""
    return f"{ROOT}:author:v1:command:{escape(request_uid)}"
