"""The place of a new object: declared policy, else its siblings, else the one kustomization, else the
canonical path.

All decisions of a batch are made against the inventory as it was before it, in the order of the objects'
identities, so the result does not depend on the order of events. Only an object that has no document yet is
ever placed; a changed policy moves nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..inventory import Inventory
from ..kustomize.model import Kustomization
from ..kustomize.outside import is_outside
from .inference import infer
from .names import escape_segment, safe_path
from .templates import Subject, canonical_path, declared_path


class Rule(StrEnum):
    """Which rule chose a place."""

    DECLARED = "declared"
    INFERRED = "inferred"
    KUSTOMIZE_ROOT = "kustomize_root"
    CANONICAL = "canonical"


@dataclass(frozen=True, slots=True)
class Place:
    """A path relative to the target path. `shared` when joining a file that exists is what the rule wants."""

    path: str
    rule: Rule
    shared: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Registration:
    """The kustomization that has to name a new file, and whether it supplies the object's namespace."""

    kustomization: Kustomization
    entry: str
    supplies_namespace: bool


class Placer:
    """Chooses places for the new objects of one batch; call it in the order of their sort keys."""

    def __init__(
        self, inventory: Inventory, *, by_type: Mapping[str, str], default: str | None, inference: bool
    ) -> None:
        self._inventory = inventory
        self._by_type = by_type
        self._default = default
        self._inference = inference
        self._taken: set[str] = set()

    def place(self, subject: Subject) -> Place:
        """The place of one new object. The path still has to pass `path_problem`."""
        declared = declared_path(self._by_type, self._default, subject)
        if declared is not None:
            return Place(safe_path(declared, sensitive=subject.sensitive), Rule.DECLARED, shared=True)
        if self._inference:
            found = infer(self._inventory, subject)
            if found is not None and found.append:
                return Place(
                    found.path, Rule.INFERRED, shared=True, note=f"bundle of {found.cohort} siblings"
                )
            if found is not None:
                path = self._free(found.path, subject)
                if path is not None:
                    return Place(path, Rule.INFERRED, shared=False, note=f"beside {found.cohort} siblings")
        root = self._single_kustomization(subject)
        if root is not None:
            name = escape_segment(subject.name) + subject.suffix
            path = self._free(posixpath.join(root.directory, name), subject)
            if path is not None:
                return Place(path, Rule.KUSTOMIZE_ROOT, shared=False)
        path = safe_path(canonical_path(subject), sensitive=subject.sensitive)
        self._taken.add(path)
        return Place(path, Rule.CANONICAL, shared=True)

    def _free(self, wanted: str, subject: Subject) -> str | None:
        """The wanted path, or one with the resource in its name, whichever holds nothing yet."""
        folder, name = posixpath.split(safe_path(wanted, sensitive=subject.sensitive))
        stem = escape_segment(subject.name)
        for candidate in (name, f"{stem}-{subject.resource}{subject.suffix}"):
            path = safe_path(posixpath.join(folder, candidate), sensitive=subject.sensitive)
            if path not in self._inventory.files and path not in self._taken:
                self._taken.add(path)
                return path
        return None

    def _single_kustomization(self, subject: Subject) -> Kustomization | None:
        """The path's only kustomization, if a new file in its folder would render as this object."""
        everything = self._inventory.context.by_directory.values()
        found = [item for item in everything if not is_outside(item.directory)]
        if len(found) != 1 or not found[0].editable:
            return None
        namespace = found[0].namespace
        return found[0] if not subject.namespaced or namespace in ("", subject.namespace) else None


def registration(inventory: Inventory, place: Place, subject: Subject) -> Registration | None:
    """The nearest kustomization above a new file that should name it, or None.

    Where several builds stand side by side, a file that no rule put beside one of them belongs to none. A
    kustomization that would move the object into another namespace, that several builds share or that has
    no `resources` list of its own is left alone.
    """
    context = inventory.context
    path = place.path
    if place.rule is Rule.CANONICAL and len(context.roots) > 1:
        return None
    directory = posixpath.dirname(path)
    while directory not in context.by_directory:
        if not directory:
            return None
        directory = posixpath.dirname(directory)
    kustomization = context.by_directory[directory]
    reaches = context.kustomization_reaches.get(kustomization.path, ())
    if len(reaches) != 1 or not kustomization.supported or not kustomization.editable:
        return None
    if not kustomization.has_resources:
        return None
    namespace = reaches[0].namespace if subject.namespaced else ""
    if namespace and namespace != subject.namespace:
        return None
    entry = posixpath.relpath(path, directory or ".")
    own = [written for written in kustomization.entries if not written.startswith("..")]
    if own and all(written.startswith("./") for written in own):
        entry = f"./{entry}"
    return Registration(kustomization, entry, bool(namespace))
