"""The protocol under attack: watchers, writers, controllers and faults in any order, then its promises.

The scripts are the real ones on a real Valkey. Processes stop at any step, die, lose their lease and go on
late; pushes land after their sender's death; Redis forgets everything or goes back in time; the remote is
rewritten. When all faults end, the tree must show what the clusters hold, and what happened on the way must
be in the history in order, once.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from reverser.store import Store, keys
from reverser.store.model import (
    AttachEntry,
    Author,
    Gate,
    OutcomeKind,
    RetireEntry,
    Scope,
    TargetRef,
)
from tests.store.protocol.reality import Change, Cluster, Commit
from tests.store.protocol.watcher import Watcher
from tests.store.protocol.world import BRANCH, Steps, Target, World
from tests.store.protocol.writer import Writer

NAMES = st.sampled_from("xyz")
FOLDERS = st.sampled_from(["a", "b"])
KINDS = {"a": ("configmaps", "secrets"), "b": ("configmaps",)}
PEOPLE = ["alice", "bob", ""]
ROUNDS = 12
PATIENT_MS = 3_600_000


class Protocol(RuleBasedStateMachine):
    """Two targets on one branch, whatever may happen to them."""

    store: Store

    @initialize(seed=st.integers(0, 2**32 - 1), window_ms=st.sampled_from([0, 0, 5000]), losing=st.booleans())
    def begin(self, seed: int, window_ms: int, losing: bool) -> None:
        self.store.client.flushall()
        self.losing = losing
        self.world = World(self.store, random.Random(seed), window_ms)
        self.generation = 0
        self.snapshot: list[tuple[bytes, int, bytes]] = []
        self.rewritten = False
        self.watchers: list[Steps] = []
        self.writers: list[Steps] = []
        self.current: dict[str, Target] = {}
        for folder in KINDS:
            self.create(folder, Cluster())

    def create(self, folder: str, cluster: Cluster) -> None:
        self.generation += 1
        ref = TargetRef(f"uid{self.generation}", "shop", folder)
        target = Target(ref, folder, KINDS[folder], cluster)
        self.world.targets[ref.uid] = self.current[folder] = target
        self.open_gate(target)

    def open_gate(self, target: Target) -> None:
        gate = Gate(target.gate_open, 1, BRANCH, target.path)
        self.store.write_gate(target.ref.uid, gate)
        self.store.wake_branch(BRANCH)

    # -- the cluster and its people

    @rule(
        folder=FOLDERS,
        name=NAMES,
        deleted=st.booleans(),
        author=st.sampled_from(PEOPLE),
        second=st.booleans(),
    )
    def change(self, folder: str, name: str, deleted: bool, author: str, second: bool) -> None:
        target = self.current[folder]
        kind = target.kinds[-1 if second else 0]
        if deleted and name not in target.cluster.at(kind, self.world.revision):
            return
        self.world.revision += 1
        target.cluster.log.append(Change(self.world.revision, kind, name, deleted, author))

    @rule(folder=FOLDERS, count=st.integers(2, 8))
    def burst(self, folder: str, count: int) -> None:
        """Many changes at once, by many people."""
        rng = self.world.rng
        for _ in range(count):
            self.change(folder, rng.choice("xyz"), rng.random() < 0.3, rng.choice(PEOPLE), rng.random() < 0.3)

    @rule(folder=FOLDERS, author=st.sampled_from(["alice", "bob"]), delay=st.sampled_from([0, 5]))
    def request(self, folder: str, author: str, delay: int) -> None:
        uid = f"cr{len(self.world.requests)}"
        target = self.current[folder].ref
        self.world.requests[uid] = AttachEntry(target, "shop", uid, uid, Author(author), "save", delay)

    @rule(folder=FOLDERS)
    def recreate(self, folder: str) -> None:
        old = self.current[folder]
        old.alive = False
        self.store.append_retire(BRANCH, RetireEntry(old.ref))
        self.store.drop_gate(old.ref.uid)
        for request in list(self.world.requests.values()):
            if request.target == old.ref:
                self.store.append_attach(BRANCH, None, request)
        self.create(folder, old.cluster)

    @rule(folder=FOLDERS)
    def reconfigure(self, folder: str) -> None:
        self.current[folder].fingerprint += 1

    @rule(folder=FOLDERS)
    def ask_again(self, folder: str) -> None:
        """Somebody wants a replay, at any moment of one that is under way."""
        target = self.current[folder]
        self.store.raise_wanted([Scope(target.ref.uid, kind) for kind in target.kinds])

    @rule(folder=FOLDERS)
    def flip_gate(self, folder: str) -> None:
        target = self.current[folder]
        target.gate_open = not target.gate_open
        self.open_gate(target)

    @rule(folder=FOLDERS)
    def flip_refusal(self, folder: str) -> None:
        self.set_refused(self.current[folder], not self.current[folder].refused)

    def set_refused(self, target: Target, refused: bool) -> None:
        target.refused = refused
        if not refused:
            for kind in target.kinds:
                self.store.unpark(Scope(target.ref.uid, kind))

    @rule(folder=FOLDERS)
    def flip_stall(self, folder: str) -> None:
        self.current[folder].stalled = not self.current[folder].stalled

    @rule(folder=FOLDERS)
    def flip_brake(self, folder: str) -> None:
        self.current[folder].brake = not self.current[folder].brake

    @rule(folder=FOLDERS)
    def release_holds(self, folder: str) -> None:
        uid = self.current[folder].ref.uid
        for hold in self.store.read_holds(uid).values():
            self.store.release_hold(uid, hold.outcome_id)

    # -- processes

    @rule(folder=FOLDERS)
    def start_watcher(self, folder: str) -> None:
        _start(self.watchers, Watcher(self.world, self.current[folder].ref.uid).steps())

    @rule(folder=FOLDERS)
    def lose_target_lease(self, folder: str) -> None:
        self.store.client.delete(keys.target_lease(self.current[folder].ref.uid))

    @rule(which=st.integers(0, 2), count=st.integers(1, 25))
    def step_watcher(self, which: int, count: int) -> None:
        _step(self.watchers, which, count)

    @rule(which=st.integers(0, 2))
    def kill_watcher(self, which: int) -> None:
        _kill(self.watchers, which)

    @rule(ahead=st.sampled_from([0, 0, 10_000]))
    def start_writer(self, ahead: int) -> None:
        self.store.claim_due(5, 60_000)
        _start(self.writers, Writer(self.world, now_ahead_ms=ahead).steps())

    @rule()
    def lose_branch_lease(self) -> None:
        self.store.client.delete(keys.branch_lease(BRANCH))

    @rule(which=st.integers(0, 2), count=st.integers(1, 30))
    def step_writer(self, which: int, count: int) -> None:
        _step(self.writers, which, count)

    @rule(which=st.integers(0, 2))
    def kill_writer(self, which: int) -> None:
        _kill(self.writers, which)

    @rule(folder=FOLDERS, rounds=st.integers(5, 60))
    def work(self, folder: str, rounds: int) -> None:
        """Everybody goes on, in any interleaving; the leases of the dead run out and others start."""
        if not self.watchers:
            self.lose_target_lease(folder)
        self.start_watcher(folder)
        for _ in range(rounds):
            if not self.writers:
                self.lose_branch_lease()
                self.start_writer(0)
            actors = self.world.rng.choice([self.watchers, self.writers])
            _step(actors, self.world.rng.randrange(3), self.world.rng.randrange(1, 5))

    # -- the remote

    @rule(which=st.integers(0, 5))
    def late_push_lands(self, which: int) -> None:
        flying = [push for push in self.world.pushes if push.landed is None]
        if flying:
            self.world.remote.land(flying[which % len(flying)])

    @rule()
    def flip_refusing_remote(self) -> None:
        """A policy that refuses every push, and is taken back."""
        self.world.remote.refuses = not self.world.remote.refuses

    @rule()
    def somebody_pushes(self) -> None:
        tip = self.world.remote.tip
        tree = dict(tip.tree) if tip else {}
        self.world.revision += 1
        tree["docs", "notes", "readme"] = self.world.revision
        self.world.remote.tip = Commit(tip, tree, "")

    @precondition(lambda self: self.losing)
    @rule(back=st.integers(0, 3))
    def rewrite(self, back: int) -> None:
        """Force-push to an earlier commit, or to nothing; pushes on the wire fail or land as they may."""
        line = list(self.world.remote.tip.line()) if self.world.remote.tip else []
        if back == 0 or not line:
            return
        self.world.lossy = self.rewritten = True
        self.world.remote.tip = line[back] if back < len(line) else None

    # -- Redis

    @precondition(lambda self: self.losing)
    @rule()
    def flush(self) -> None:
        self.world.lossy = True
        self.store.client.flushall()
        self.requeue()

    @precondition(lambda self: self.losing)
    @rule()
    def take_snapshot(self) -> None:
        client = self.store.client
        dumped = [(key, client.pttl(key), client.dump(key)) for key in client.keys("*")]
        self.snapshot = [(key, max(ttl, 0), value) for key, ttl, value in dumped if value is not None]

    @precondition(lambda self: self.snapshot)
    @rule()
    def go_back(self) -> None:
        if not self.snapshot:
            return
        self.world.lossy = True
        self.store.client.flushall()
        for key, ttl, value in self.snapshot:
            self.store.client.restore(key, ttl, value)
        self.requeue()

    @precondition(lambda self: self.losing)
    @rule(folder=FOLDERS, rounds=st.integers(1, 80))
    def fail_over(self, folder: str, rounds: int) -> None:
        """The last that was written had not reached the server that takes over."""
        self.take_snapshot()
        self.work(folder, rounds)
        self.go_back()

    def requeue(self) -> None:
        """The controllers write their gates again, and say again which targets are gone."""
        for target in self.world.targets.values():
            if target.alive:
                self.open_gate(target)
            else:
                self.store.drop_gate(target.ref.uid)

    @rule(folder=FOLDERS)
    def expire_cursors(self, folder: str) -> None:
        target = self.current[folder]
        for kind in target.kinds:
            scope = Scope(target.ref.uid, kind)
            self.store.client.delete(keys.cursor(scope), keys.cursor_append(scope))

    @rule(folder=FOLDERS)
    def history_is_compacted(self, folder: str) -> None:
        self.current[folder].cluster.compacted = self.world.revision

    @rule()
    def staging_is_lost(self) -> None:
        for key in self.store.client.keys(f"{keys.STAGING_PREFIX}*"):
            self.store.client.delete(key)

    # -- what holds at every moment

    @invariant()
    def check_moment(self) -> None:
        if hasattr(self, "world"):
            self.check_journal()
            if not self.world.lossy:
                self.check_line()

    def check_journal(self) -> None:
        """Bytes are what is there; an entry is in one boundary at most."""
        entries = self.store.read_entries(BRANCH)
        assert self.store.read_unsettled_bytes(BRANCH).get("", 0) == sum(stored.size for stored in entries)
        claimed = [ident for boundary in self.store.read_boundaries(BRANCH) for ident in boundary.entry_ids]
        assert len(claimed) == len(set(claimed))
        assert set(claimed) <= {stored.id for stored in entries}

    def check_line(self) -> None:
        """No window is in the history twice, and no file turns back."""
        history = self.world.remote.history()
        pushed = [commit.boundary for commit in history if commit.boundary]
        assert len(pushed) == len(set(pushed))
        seen: dict[tuple[str, str, str], int] = {}
        for commit in history:
            for key, revision in commit.tree.items():
                assert revision >= seen.get(key, 0)
                seen[key] = revision

    # -- the end of all faults

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.settle_down()
            self.check_promises()

    def settle_down(self) -> None:
        """Faults end, everything runs until there is nothing to do, woken only as the protocol wakes it."""
        self.world.remote.refuses = False
        for push in self.world.pushes:
            self.world.remote.land(push)
        self.store.wake_branch(BRANCH)  # the re-check of the provider sees that the tip moved
        self.watchers, self.writers = [], []
        self.store.client.delete(keys.branch_lease(BRANCH))
        for target in self.world.targets.values():
            target.stalled = target.brake = False
            self.set_refused(target, False)
            self.store.client.delete(keys.target_lease(target.ref.uid))
        for target in self.current.values():
            if not target.gate_open:
                target.gate_open = True
                self.open_gate(target)
        if self.world.lossy:
            self.store.sweep_journals()
        watchers = {
            uid: Watcher(self.world, uid) for uid, target in self.world.targets.items() if target.alive
        }
        running = {uid: watcher.steps() for uid, watcher in watchers.items()}
        for _ in range(ROUNDS):
            released = False
            for uid, steps in running.items():
                for _ in range(400):
                    assert next(steps, "over") != "over"
                    if watchers[uid].idle():
                        break
                for _ in range(40):
                    next(steps)
                for hold in self.store.read_holds(uid).values():
                    self.store.release_hold(uid, hold.outcome_id)
                    released = True  # it is replayed for that
            if not released and self.store.client.zscore(keys.DUE, BRANCH.id) is None:
                break
            for _ in Writer(self.world, now_ahead_ms=PATIENT_MS).steps():
                pass

    def check_promises(self) -> None:
        store, remote = self.store, self.world.remote
        assert store.client.zscore(keys.DUE, BRANCH.id) is None
        assert store.read_entries(BRANCH) == []
        assert store.read_boundaries(BRANCH) == []
        assert store.read_intents(BRANCH) == []
        # Staging without a sweep ages out; staging that a sweep had taken is gone with it.
        assert all(store.client.ttl(key) > 0 for key in store.client.keys(f"{keys.STAGING_PREFIX}*"))
        tree = remote.tip.tree if remote.tip else {}
        for target in self.current.values():
            for kind in target.kinds:
                shown = {key[2]: value for key, value in tree.items() if key[:2] == (target.path, kind)}
                assert shown == target.cluster.at(kind, self.world.revision)
        for request in self.world.requests.values():
            if self.world.targets[request.target.uid].alive or not self.world.lossy:
                assert store.attach_outcome(request.uid) is not None
        if self.world.lossy:
            return
        for kinds in self.world.settled.values():
            assert len(kinds) == 1
        named = [commit.request for commit in remote.history() if commit.request]
        assert len(named) == len(set(named))
        self.check_history(remote.history())

    def check_history(self, history: list[Commit]) -> None:
        """With no window length and no fault that replays, every delivered write is a commit of its own."""
        if self.world.window_ms:
            return
        outcomes = [outcome for _, outcome in self.store.read_outcomes(count=10_000)]
        pushed = {outcome.commit for outcome in outcomes if outcome.commit}
        assert pushed <= {commit.id for commit in history}
        refused = {
            o for o in outcomes if o.kind in (OutcomeKind.REFUSED, OutcomeKind.RETIRED, OutcomeKind.VOID)
        }
        if refused or any(outcome.kind is OutcomeKind.HELD for outcome in outcomes):
            return
        shown = {
            (key[0], f"{key[1]}/{key[2]}", revision)
            for commit in history
            for key, revision in commit.tree.items()
        }
        for uid, name, revision in self.world.appended:
            target = self.world.targets[uid]
            deleted = {c.revision for c in target.cluster.log if c.deleted}
            if revision not in deleted:
                assert (target.path, name, revision) in shown


def _start(actors: list[Steps], actor: Steps) -> None:
    """Run a process up to its first step; one that found the lease held has ended."""
    if len(actors) < 3 and next(actor, "over") != "over":
        actors.append(actor)


def _step(actors: list[Steps], which: int, count: int) -> None:
    if not actors:
        return
    actor = actors[which % len(actors)]
    for _ in range(count):
        if next(actor, "over") == "over":
            actors.remove(actor)
            return


def _kill(actors: list[Steps], which: int) -> None:
    if actors:
        del actors[which % len(actors)]
