"""From changes to the files of one commit: read, judge, draft, check the result as the next scan will,
and only then hand over.

Whatever is planned is read back before it is accepted: the path must still pass the gate, stay inside its
limits and render as wanted. A change whose result would fail this is left out, visibly, and the others are
planned again, so one object that cannot be written never blocks the rest of the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from . import fields
from .bootstrap import missing_files
from .changes import (
    Change,
    ChangeResult,
    Outcome,
    Policy,
    SkipReason,
    Sweep,
    Upsert,
    WritePlan,
)
from .draft import Draft
from .facts import IndexCache
from .gate import check, diagnostics
from .guards import Exclusion
from .ignore import IGNORE_FILE
from .inventory import Inventory
from .issues import Issue, IssueKind, sort_issues
from .keeping import only_keeps, with_kept
from .kustomize.render import Renderer, find_renderer
from .kustomize.route import SourceRouter
from .kustomize.verify import Verifier
from .limits import DEFAULT_LIMITS, Limits
from .roles import is_hidden
from .tree import Tree

_ATTEMPTS = 4


def plan_writes(
    tree: Tree,
    changes: Sequence[Change],
    policy: Policy,
    *,
    cache: IndexCache | None = None,
    inventory: Inventory | None = None,
    limits: Limits = DEFAULT_LIMITS,
    renderer: Renderer | None = None,
) -> WritePlan:
    """Plan one commit for a target path.

    `inventory` is the one kept from the last plan (`WritePlan.after()`, or `Inventory.updated` after a
    fetch); without it the tree is indexed. The same inputs always give the same bytes. Raises whatever
    `tree.read` raises: nothing is ever planned on a partial view.
    """
    if inventory is not None:
        current = inventory.seen_from(tree)
    else:
        current = Inventory.scan(tree, cache=cache, limits=limits)
    issues = check(current)
    if issues:
        return WritePlan(current, issues=issues, diagnostics=diagnostics(current))
    written = [change for change in changes if not only_keeps(change)]
    made = _Planner(tree, current, policy, renderer).plan(written)
    if len(written) == len(changes):
        return made
    return with_kept(made, [change for change in changes if only_keeps(change)])


class _Planner:
    def __init__(self, tree: Tree, inventory: Inventory, policy: Policy, renderer: Renderer | None) -> None:
        self._tree = tree
        self._inventory = inventory
        self._policy = policy
        self._like = next((record.entry.blob for record in inventory.files.values()), "")
        self._renderer = renderer
        if renderer is None and inventory.context.by_directory:
            self._renderer = find_renderer()

    def plan(self, changes: Sequence[Change]) -> WritePlan:
        excluded: dict[int, Exclusion] = {}
        for _attempt in range(_ATTEMPTS):
            router = SourceRouter(self._inventory, self._read, self._renderer)
            draft = Draft(self._tree, self._inventory, self._policy, router=router, excluded=excluded)
            draft.run(changes)
            if router.failures:
                return self._refused(
                    [
                        Issue(IssueKind.UNSUPPORTED_KUSTOMIZE, root, f"render-failed: {text}")
                        for root, text in router.failures.items()
                    ]
                )
            unapplied = self._unapplied(draft)
            if unapplied and not unapplied.keys() <= excluded.keys():
                self._exclude(excluded, unapplied, changes)
                continue
            hidden = self._hidden(draft)
            if hidden:
                return self._refused(hidden)
            if not draft.ledger.files:
                return self._finish(draft, changes, self._inventory)
            after = self._inventory.with_files(draft.ledger.files, like=self._like)
            found, unattributed = self._problems(draft, after, changes)
            if unattributed:
                return self._refused(unattributed)
            if not found:
                return self._finish(draft, changes, after)
            self._exclude(excluded, found, changes)
        text = "no part of the change could be planned safely; look at the skipped objects"
        return self._refused([Issue(IssueKind.KUSTOMIZE_RENDER_REFUSED, ".", text)])

    @staticmethod
    def _exclude(
        excluded: dict[int, Exclusion], found: dict[int, Exclusion], changes: Sequence[Change]
    ) -> None:
        """A sweep first leaves out what builds read, so that no build holds up the rest of a type."""
        for number, exclusion in found.items():
            sweeps = isinstance(changes[number], Sweep) and number not in excluded
            excluded[number] = replace(exclusion, builds_only=sweeps)

    @staticmethod
    def _unapplied(draft: Draft) -> dict[int, Exclusion]:
        """Changes whose kustomization cannot be edited without guessing."""
        return {
            number: Exclusion(
                SkipReason.NOT_EXPRESSIBLE, f"{path} cannot be edited safely; change it by hand"
            )
            for path in sorted(draft.ledger.unapplied)
            for number in draft.ledger.owners.get(path, ())
        }

    def _read(self, path: str) -> bytes:
        if path in self._inventory.outside.files:
            return self._inventory.outside.files[path]
        return self._tree.read(self._inventory.files[path].entry.blob)

    def _refused(self, issues: Sequence[Issue]) -> WritePlan:
        return WritePlan(
            self._inventory, issues=sort_issues(issues), diagnostics=diagnostics(self._inventory)
        )

    def _hidden(self, draft: Draft) -> list[Issue]:
        """Paths of the plan that the ignore rules would hide from the next scan."""
        return [
            Issue(
                IssueKind.IGNORE_SHADOWS_MANAGED,
                path,
                f"{IGNORE_FILE} hides {path}, which the mirror has to write; narrow the pattern",
            )
            for path in draft.ledger.files
            if is_hidden(path, self._inventory.rules)
        ]

    def _problems(
        self, draft: Draft, after: Inventory, changes: Sequence[Change]
    ) -> tuple[dict[int, Exclusion], list[Issue]]:
        found: dict[int, Exclusion] = {}
        unattributed: list[Issue] = []
        for issue in check(after):
            owners = draft.ledger.owners.get(issue.path, set())
            code = SkipReason.UNREADABLE_RESULT
            if issue.kind is IssueKind.LIMIT_EXCEEDED:
                code = SkipReason.LIMIT
                owners = draft.ledger.surplus(issue.path, after.excess(issue.path)) if owners else owners
            if not owners:
                unattributed.append(issue)
            for number in owners:
                found[number] = Exclusion(code, f"the result would be refused: {issue.message}")
        if found or unattributed or self._renderer is None:
            return found, unattributed
        verifier = Verifier(
            self._inventory, after, draft.ledger.files, read=self._read, renderer=self._renderer
        )
        for mismatch in verifier.run(
            draft.ledger.results, self._expected(draft, changes), draft.ledger.owners
        ):
            if not mismatch.changes:
                unattributed.append(
                    Issue(IssueKind.KUSTOMIZE_RENDER_REFUSED, mismatch.root, mismatch.message)
                )
            for number in mismatch.changes:
                found.setdefault(number, Exclusion(SkipReason.RENDER_MISMATCH, mismatch.message))
        return found, unattributed

    def _expected(self, draft: Draft, changes: Sequence[Change]) -> dict[int, Any]:
        """What the builds have to render: routed objects as routed, new objects that a build names as they
        are.
        """
        expected: dict[int, Any] = {number: routed.expected for number, routed in draft.rendered.items()}
        for number, results in draft.ledger.results.items():
            change = changes[number]
            if not isinstance(change, Upsert) or change.body is None or number in expected:
                continue
            if any(result.outcome is Outcome.CREATED for result in results) and number in draft.registered:
                kept = fields.kept_pointers(
                    change.body, change.group, change.name, self._policy.ignore_fields
                )
                expected[number] = fields.without(change.body, kept)
        return expected

    def _finish(self, draft: Draft, changes: Sequence[Change], after: Inventory) -> WritePlan:
        results: list[ChangeResult] = []
        for number, change in enumerate(changes):
            results.extend(draft.ledger.results.get(number) or [ChangeResult(change, Outcome.UNCHANGED)])
        files = dict(draft.ledger.files)
        if files:
            boot = missing_files(
                self._inventory, self._policy.recipients, encryption_enabled=self._policy.encryption_enabled
            )
            files = {**{path: data for path, data in boot.items() if path not in files}, **files}
            after = after.with_files(boot, like=self._like) if boot else after
        return WritePlan(
            self._inventory,
            files=files,
            results=tuple(results),
            diagnostics=diagnostics(self._inventory),
            swept=draft.swept,
            held=draft.held,
            resulting=after,
        )
