"""Apply to remote: how long one change takes until the remote has it, beside plain git."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reverser.kube.paths import core_path
from tests.bench.floor import commit_and_push, measure_floor, small_repository
from tests.bench.installation import fill, further_spaces, installation, pids_of_roles, settled
from tests.bench.options import Options
from tests.bench.processes import usage
from tests.bench.report import Report, percentile
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace

COOLDOWN_SECONDS = 5.5
"""The first push of a branch after that goes at once."""
SITES = 6
"""Branches that are changed in turn, so that each has its cooldown while the others are measured."""
SETTLE_SECONDS = 0.5


@dataclass(slots=True)
class Site:
    """A branch that is measured, and a work tree of the same files for plain git."""

    space: Workspace
    small: Path
    """A work tree of one file."""
    alike: Path
    """A work tree of the same files as the target's; ``measure_floor`` left it."""
    pushed: float = field(default=0.0)
    """Monotonic seconds."""

    @classmethod
    def of(cls, space: Workspace) -> Site:
        """For a workspace whose floor was measured."""
        return cls(space, small_repository(space.folder), space.folder / "floor")

    def rest(self) -> None:
        """Until the branch may be pushed at once."""
        time.sleep(max(SETTLE_SECONDS, self.pushed + COOLDOWN_SECONDS - time.monotonic()))

    def change(self, text: str) -> float:
        """Wall seconds from the request to the API server until the remote's branch has moved."""
        # read as a file: a git child each time would take the processor from what is measured
        ref = self.space.repository / "refs" / "heads" / "main"
        tip = ref.read_text()
        began = time.perf_counter()
        self.space.set("cm-00001", text, key="text")
        while ref.read_text() == tip:
            time.sleep(0.002)
        self.pushed = time.monotonic()
        return time.perf_counter() - began


def run(report: Report, folder: Path, options: Options) -> None:
    """Small targets, several branches in turn."""
    with installation(folder) as (operator, first), further_spaces(first, SITES - 1) as others:
        spaces = [first, *others]
        for space in spaces:
            fill(space, options.small)
            measure_floor(space.kube, [core_path("configmaps", namespace=space.namespace)], space.folder)
            space.base(window="0s")
        for space in spaces:
            settled(operator, space)
        measure(report, operator, list(map(Site.of, spaces)), f"{options.small} objects", options.samples)


def measure(report: Report, operator: Operator, sites: Sequence[Site], what: str, samples: int) -> None:
    """One change at a time; plain git does the like right after each, so that both meet the same machine."""
    pids = pids_of_roles(operator)
    spent: dict[str, float] = dict.fromkeys(pids, 0.0)
    resting: dict[str, float] = dict.fromkeys(pids, 0.0)
    rested = 0.0
    taken, plain, plain_alike = [], [], []
    for number in range(samples):
        site = sites[number % len(sites)]
        rest, began = _cpu(pids), time.monotonic()
        site.rest()
        before, rested = _cpu(pids), rested + time.monotonic() - began
        text = f"latency-{number}"
        taken.append(site.change(text))
        time.sleep(SETTLE_SECONDS)
        after = _cpu(pids)
        for role in pids:
            spent[role] += after[role] - before[role]
            resting[role] += before[role] - rest[role]
        plain.append(commit_and_push(site.small, "a.yaml", f"v: {text}\n"))
        plain_alike.append(commit_and_push(site.alike, "live/configmaps/cm-00001.yaml", f"v: {text}\n"))
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        value = percentile(taken, share)
        report.add(f"apply to remote, window 0, {what}, {name}", value * 1000, "ms", note=f"of {samples}")
        for floor, where, bar in (
            (plain_alike, "the same folder", 2.5),
            (plain, "a repository of one file", None),
        ):
            report.add(
                f"apply to remote / git in {where}, {what}, {name}",
                value / percentile(floor, share),
                "x",
                bar=bar,
                note=f"git alone {percentile(floor, share) * 1000:.0f} ms",
            )
    for role in pids:
        report.add(f"one change, {what}: {role} CPU", spent[role] / samples * 1000, "ms")
        report.add(f"at rest, {what}: {role} CPU of one core", resting[role] / rested * 100, "%")


def _cpu(pids: dict[str, int]) -> dict[str, float]:
    return {role: usage(pid).cpu for role, pid in pids.items()}
