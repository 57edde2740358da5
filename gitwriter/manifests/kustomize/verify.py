"""Does the build after a commit differ from the build before it in exactly the intended objects?

Every root that a changed file belongs to is built twice. Written objects must render as wanted, removed
ones must be gone, all others must be the same bytes. Sealed documents and field patches are exempt from
the first half only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..changes import ChangeResult, Outcome, Sweep, Upsert
from ..editing.compare import first_difference, pointer_of
from ..inventory import Inventory
from ..loading import YamlError, load_document
from .builds import build, find_rendered, roots_of
from .render import Rendered, Renderer, RenderError, RenderKey


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A build that would not give what is wanted: the changes at fault (empty = unknown), the root, and
    why.
    """

    changes: frozenset[int]
    root: str
    message: str


class Verifier:
    """Compares the builds before and after one draft."""

    def __init__(
        self,
        before: Inventory,
        after: Inventory,
        files: Mapping[str, bytes | None],
        *,
        read: Callable[[str], bytes],
        renderer: Renderer,
    ) -> None:
        self._before = before
        self._after = after
        self._files = files
        self._read = read
        self._renderer = renderer

    def run(
        self,
        results: Mapping[int, Sequence[ChangeResult]],
        expected: Mapping[int, Mapping[str, Any] | None],
        owners: Mapping[str, set[int]],
    ) -> list[Mismatch]:
        """Every root's mismatches; empty when all builds render what is wanted."""
        found: list[Mismatch] = []
        roots: dict[str, set[str]] = {}
        for path in self._files:
            for root in roots_of(self._before, path) | roots_of(self._after, path):
                roots.setdefault(root, set()).add(path)
        for root, paths in sorted(roots.items()):
            responsible = frozenset(number for path in paths for number in owners.get(path, ()))
            try:
                before = self._build(self._before, root, {})
                after = self._build(self._after, root, self._files)
            except RenderError as error:
                found.append(Mismatch(responsible, root, f"the build of {root} fails: {error}"))
                continue
            found.extend(
                self._compare(
                    root, before, after, results=results, expected=expected, responsible=responsible
                )
            )
        return found

    def _build(self, inventory: Inventory, root: str, changed: Mapping[str, bytes | None]) -> Rendered:
        if root not in inventory.context.roots:
            return {}
        return build(inventory, root, read=self._read, renderer=self._renderer, changed=changed)

    def _compare(
        self,
        root: str,
        before: Rendered,
        after: Rendered,
        *,
        results: Mapping[int, Sequence[ChangeResult]],
        expected: Mapping[int, Mapping[str, Any] | None],
        responsible: frozenset[int],
    ) -> list[Mismatch]:
        intended = {
            (change.group, change.kind, change.name): number
            for number, found in results.items()
            for change in (found[0].change,)
            if not isinstance(change, Sweep) and any(_is_write(result) for result in found)
        }
        swept = {
            (found[0].change.group, found[0].change.kind)
            for found in results.values()
            if isinstance(found[0].change, Sweep) and any(_is_write(result) for result in found)
        }
        mismatches: list[Mismatch] = []
        for key in sorted({*before, *after}):
            if before.get(key) == after.get(key) or _name(key) in intended:
                continue
            if key not in after and (key[0], key[1]) in swept:
                continue
            text = f"the build of {root} would change {key[1]} {key[3]} too; give each its own entry or file"
            mismatches.append(Mismatch(responsible, root, text))
        for number in sorted(responsible):
            text = self._object_mismatch(results.get(number, ()), expected.get(number), after)
            if text:
                mismatches.append(Mismatch(frozenset({number}), root, f"the build of {root} {text}"))
        return mismatches

    def _object_mismatch(
        self, results: Sequence[ChangeResult], wanted: Mapping[str, Any] | None, after: Rendered
    ) -> str:
        for result in results:
            change = result.change
            if not isinstance(change, Upsert) or not _is_write(result) or change.sensitive or wanted is None:
                continue
            body = find_rendered(after, change.group, change.kind, change.key.namespace, change.name)
            try:
                value = load_document(body).value if body is not None else None
            except YamlError:
                value = None
            what = f"{change.kind} {change.name}"
            if value is None:
                return f"would not give {what}; name its file in resources and keep its name as it is"
            if (path := first_difference(value, wanted)) is not None:
                return (
                    f"would not give {what} as it is live: {pointer_of(path)} would differ; "
                    "change what the build sets there, or set the same in the cluster"
                )
        return ""


def _is_write(result: ChangeResult) -> bool:
    return result.outcome in (Outcome.CREATED, Outcome.UPDATED, Outcome.DELETED)


def _name(key: RenderKey) -> tuple[str, str, str]:
    return key[0], key[1], key[3]
