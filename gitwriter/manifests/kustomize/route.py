"""From a live object to the files that render it: which values belong to the source, which to an entry.

Image and replica values that an entry supplies go to that entry; everything else is merged into the source
file, which keeps its own spelling wherever the build already gives the live value. What cannot be expressed
is not written at all, because a value that the build overrides would be written again and again.
"""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import fields, tokens
from ..changes import SkipReason
from ..editing import equal_as_kubernetes
from ..editing.target import effective_target
from ..inventory import Inventory
from ..loading import YamlError, load_document
from ..records import DocumentRef
from .authoring import AuthoredEntries, overlay_of
from .builds import build, find_rendered
from .edits import KustomizationEdits
from .images import EntryField, Image, container_images, is_scaled, replica_entry, route_image, trace
from .model import Kustomization
from .outside import is_outside
from .render import Renderer, RenderError
from .source import Conflict, source_form

if TYPE_CHECKING:
    from ..changes import FieldPatch, Upsert

_REPLICAS = "/spec/replicas"


@dataclass(frozen=True, slots=True)
class Routed:
    """What to write for one object: the source document, edits of kustomizations, and what the build has
    to give then.

    For a field patch `source` holds the assignments that are left for the file. `problem` set = write
    nothing. `changes_source` tells whether the source document differs from what stands in the file.
    """

    source: dict[str, Any] = field(default_factory=dict)
    edits: tuple[KustomizationEdits, ...] = ()
    expected: Mapping[str, Any] | None = None
    problem: tuple[SkipReason, str] | None = None
    changes_source: bool = True


class SourceRouter:
    """Routes the objects of one inventory. `failures` collects builds that did not work, by root."""

    def __init__(self, inventory: Inventory, read: Callable[[str], bytes], renderer: Renderer | None) -> None:
        self.failures: dict[str, str] = {}
        self._inventory = inventory
        self._read = read
        self._renderer = renderer

    def route(
        self,
        change: Upsert,
        ref: DocumentRef,
        live: Mapping[str, Any],
        *,
        keep: Sequence[str],
        optional: Sequence[str],
    ) -> Routed:
        """What to write so that the build gives `live` for this document."""
        try:
            source = self._source(ref)
            rendered = self._rendered(change, ref, source)
        except (YamlError, TypeError) as error:
            return Routed(problem=(SkipReason.NOT_EDITABLE, f"{ref.path}: {error}"))
        except RenderError as error:
            return Routed(problem=(SkipReason.RENDER_MISMATCH, f"{ref.path} cannot be rendered: {error}"))
        found = list(tokens.divergences(fields.without(rendered, keep), live))
        if found:
            return Routed(problem=(SkipReason.RENDER_DOES_NOT_MATCH_LIVE, tokens.describe(found, ref.path)))
        wanted = dict(effective_target(rendered, live, keep=keep, optional=optional))
        fan_in = self._inventory.context.fan_in(ref.path)
        if fan_in:
            return self._read_only(ref, fan_in, source, rendered, wanted)
        overlay = overlay_of(self._inventory, ref) if is_outside(ref.path) else None
        chain = self._inventory.context.chain(ref.path)
        return _ObjectRouter(change, chain, source, rendered, wanted, overlay=overlay).run()

    def route_patch(self, change: FieldPatch, ref: DocumentRef, assignments: dict[str, Any]) -> Routed:
        """Send a replica count to the entry that supplies it; the other assignments stay for the file."""
        chain = self._inventory.context.chain(ref.path)
        entry = replica_entry(change.group, change.kind, change.name, chain)
        count = assignments.get(_REPLICAS)
        if (
            entry is None
            or isinstance(count, bool)
            or not isinstance(count, int | float)
            or count != int(count)
        ):
            return Routed(source=assignments)
        kustomization, index, current = entry
        left = {pointer: value for pointer, value in assignments.items() if pointer != _REPLICAS}
        if current == int(count):
            return Routed(source=left)
        edits = KustomizationEdits(kustomization.path, kustomization.directory, replicas={index: int(count)})
        return Routed(source=left, edits=(edits,))

    def _source(self, ref: DocumentRef) -> dict[str, Any]:
        return fields.load_mapping(self._read(ref.path), ref.fact.index)

    def _rendered(self, change: Upsert, ref: DocumentRef, source: dict[str, Any]) -> dict[str, Any]:
        reaches = self._inventory.context.reaches[ref.path]
        reach = next((reach for reach in reaches if reach.namespace == change.namespace), reaches[0])
        if self._renderer is None:
            return self._modelled(change, ref, source)
        if reach.root in self.failures:
            raise RenderError(self.failures[reach.root])
        try:
            objects = build(self._inventory, reach.root, read=self._read, renderer=self._renderer, changed={})
        except RenderError as error:
            self.failures[reach.root] = str(error)
            raise
        body = find_rendered(objects, change.group, change.kind, change.key.namespace, change.name)
        if body is None:
            raise RenderError("the build does not give this object")
        value = load_document(body).value
        if not isinstance(value, dict):
            raise RenderError("the build gives no mapping")
        return value

    def _modelled(self, change: Upsert, ref: DocumentRef, source: dict[str, Any]) -> dict[str, Any]:
        """The render as we predict it; only for builds that do nothing but namespace, images and replicas."""
        chain = self._inventory.context.chain(ref.path)
        if not chain or any(item.decorates or item.patches for item in chain):
            raise RenderError("its build needs kustomize or kubectl on PATH; install one of them")
        rendered = copy.deepcopy(source)
        namespace = self._inventory.context.namespace(ref.path)
        if namespace and change.namespaced:
            fields.set_pointer(rendered, "/metadata/namespace", namespace)
        for pointer, _name, text in list(container_images(source)):
            fields.set_pointer(rendered, pointer, str(trace(Image.parse(text), chain).image))
        entry = replica_entry(change.group, change.kind, change.name, chain)
        if entry is not None:
            fields.set_pointer(rendered, _REPLICAS, entry[2])
        return rendered

    def _read_only(
        self, ref: DocumentRef, roots: Sequence[str], source: dict[str, Any], rendered: Any, wanted: Any
    ) -> Routed:
        try:
            unchanged = source_form(source, rendered, wanted) == source
        except Conflict:
            unchanged = False
        if unchanged:
            return Routed(source=source, changes_source=False)
        text = (
            f"{ref.path} is part of several builds ({', '.join(roots)}) and is read-only here; "
            "give one build its own file"
        )
        return Routed(problem=(SkipReason.WRITE_FAN_IN, text))


class _ObjectRouter:
    """Routes one object through one chain."""

    def __init__(
        self,
        change: Upsert,
        chain: Sequence[Kustomization],
        source: dict[str, Any],
        rendered: dict[str, Any],
        live: dict[str, Any],
        *,
        overlay: Kustomization | None,
    ) -> None:
        self._overlay = overlay
        self._authored = AuthoredEntries()
        self._change = change
        self._chain = chain
        self._original = source
        self._source = copy.deepcopy(source)
        self._rendered = copy.deepcopy(rendered)
        self._live = live
        self._images: dict[EntryField, str] = {}
        self._replicas: dict[tuple[str, int], int] = {}

    def run(self) -> Routed:
        problem = self._route_images() or self._route_replicas()
        if problem:
            return Routed(problem=(SkipReason.NOT_EXPRESSIBLE, problem))
        try:
            source = source_form(self._source, self._rendered, self._live)
        except Conflict as conflict:
            where = self._deciding()
            text = f"unplaceable-edit: {conflict.pointer} is set by the build; change it {where or 'there'}"
            return Routed(problem=(SkipReason.NOT_EXPRESSIBLE, text))
        changed = not equal_as_kubernetes(source, self._original)
        edits = tuple(self._edits())
        return Routed(source=source, edits=edits, expected=self._live, changes_source=changed)

    def _deciding(self) -> str:
        """The files of the build that may have set a value: those that decorate, and patches."""
        found: list[str] = []
        for item in self._chain:
            found += [item.path] if item.decorates else []
            found += [posixpath.normpath(posixpath.join(item.directory, patch)) for patch in item.patches]
        return f"in {' or '.join(dict.fromkeys(found))}" if found else ""

    def _route_images(self) -> str:
        if not any(item.images for item in self._chain) and self._overlay is None:
            return ""
        live = {_slot(pointer, name): (pointer, text) for pointer, name, text in container_images(self._live)}
        built = {
            _slot(pointer, name): (pointer, text) for pointer, name, text in container_images(self._rendered)
        }
        for pointer, name, text in list(container_images(self._source)):
            slot = _slot(pointer, name)
            if slot not in live or slot not in built or live[slot][1] == built[slot][1]:
                continue
            if self._overlay is not None:
                mine = self._overlay.path
                problem = self._authored.image(built[slot][1], live[slot][1], self._chain, text, mine)
                if problem is None:
                    fields.set_pointer(self._rendered, built[slot][0], live[slot][1])
                    continue
            found = route_image(Image.parse(text), Image.parse(live[slot][1]), self._chain)
            if found is None:
                return f"image {live[slot][1]} of {name} cannot be expressed by image entries"
            for entry, value in found.edits.items():
                if self._images.setdefault(entry, value) != value:
                    return f"two containers need different values of {entry.field} in {entry.kustomization}"
            fields.set_pointer(self._source, pointer, str(found.source))
            fields.set_pointer(self._rendered, built[slot][0], live[slot][1])
        return self._shared_knob(live)

    def _shared_knob(self, live: Mapping[tuple[str, str], tuple[str, str]]) -> str:
        """A changed entry must still give every container of the object its live image."""
        for pointer, name, text in container_images(self._source) if self._images else ():
            wanted = live.get(_slot(pointer, name))
            given = str(trace(Image.parse(text), self._chain, self._images).image)
            if wanted is not None and given != wanted[1]:
                return f"container {name} would get image {given}, not {wanted[1]}; give it an entry"
        return ""

    def _route_replicas(self) -> str:
        entry = replica_entry(self._change.group, self._change.kind, self._change.name, self._chain)
        if entry is None or (self._overlay is not None and is_outside(entry[0].path)):
            return self._author_replicas()
        kustomization, index, current = entry
        count = fields.get_pointer(self._live, _REPLICAS)
        if isinstance(count, bool) or not isinstance(count, int | float) or count != int(count):
            return f"the replicas entry in {kustomization.path} sets a count, the object has none; remove it"
        if int(count) != current:
            self._replicas[(kustomization.path, index)] = int(count)
            fields.set_pointer(self._rendered, _REPLICAS, count)
        return ""

    def _author_replicas(self) -> str:
        """Give a base's workload a replicas entry in the overlay where its live count differs."""
        count = fields.get_pointer(self._live, _REPLICAS)
        built = fields.get_pointer(self._rendered, _REPLICAS)
        scaled = is_scaled(self._change.group, self._change.kind)
        if self._overlay is None or not scaled or not isinstance(count, int) or count == built:
            return ""
        self._authored.replicas[self._change.name] = count
        fields.set_pointer(self._rendered, _REPLICAS, count)
        return ""

    def _edits(self) -> list[KustomizationEdits]:
        directories = {item.path: item.directory for item in self._chain}
        found: dict[str, KustomizationEdits] = {}

        def of(path: str) -> KustomizationEdits:
            return found.setdefault(path, KustomizationEdits(path, directories[path]))

        for entry, value in self._images.items():
            of(entry.kustomization).images[(entry.entry, entry.field)] = value
        for (path, index), count in self._replicas.items():
            of(path).replicas[index] = count
        if self._overlay is not None and (self._authored.images or self._authored.replicas):
            directories[self._overlay.path] = self._overlay.directory
            edits = of(self._overlay.path)
            edits.new_images.update(self._authored.images)
            edits.new_replicas.update(self._authored.replicas)
        return list(found.values())


def _slot(pointer: str, name: str) -> tuple[str, str]:
    """A container by the list that it stands in and its name, wherever in the list it is."""
    return pointer.rsplit("/", 2)[0], name
