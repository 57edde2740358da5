"""What `images:` and `replicas:` entries do to an object, and which entry a live value belongs to.

The rules are kustomize's: an entry applies when its name is the image's current name; `newTag` alone
clears a digest, `digest` alone clears the tag, both set both; of several replica entries the last one in
the chain counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .model import ImageEntry, Kustomization

CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_SCALED_KINDS = frozenset(
    {("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController")}
)


class Image(NamedTuple):
    """An image reference; parts that are not written are empty."""

    name: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Image:
        """Split `name[:tag][@digest]`; a colon before the last slash is a registry's port."""
        rest, _at, digest = text.partition("@")
        slash = rest.rfind("/")
        colon = rest.rfind(":")
        if colon > slash:
            return cls(rest[:colon], rest[colon + 1 :], digest)
        return cls(rest, "", digest)

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


class EntryField(NamedTuple):
    """One scalar of one `images:` entry."""

    kustomization: str
    entry: int
    field: str


@dataclass(frozen=True, slots=True)
class Traced:
    """An image after the chain, and for each part the entry field that set it last (None: the source
    file).
    """

    image: Image
    name_from: EntryField | None = None
    tag_from: EntryField | None = None
    digest_from: EntryField | None = None
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class ImageRoute:
    """How one live image is expressed: the source image, and new values of entry fields."""

    source: Image
    edits: dict[EntryField, str]


def container_images(value: Any, pointer: str = "") -> Iterator[tuple[str, str, str]]:
    """(pointer of the image, container name, image text) of every container at any depth, in document
    order.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            below = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
            if key in CONTAINER_LISTS and isinstance(inner, list):
                for index, item in enumerate(inner):
                    if isinstance(item, dict) and isinstance(item.get("image"), str):
                        yield f"{below}/{index}/image", str(item.get("name", "")), item["image"]
            yield from container_images(inner, below)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from container_images(inner, f"{pointer}/{index}")


def trace(
    source: Image, chain: Sequence[Kustomization], changed: dict[EntryField, str] | None = None
) -> Traced:
    """Run an image through a chain (innermost first); `changed` overrides entry fields."""
    edits = changed or {}
    state = Traced(source)
    for kustomization in chain:
        for entry in kustomization.images:
            state = _apply(state, entry, kustomization.path, edits)
    return state


def _apply(state: Traced, entry: ImageEntry, path: str, edits: dict[EntryField, str]) -> Traced:
    if entry.name != state.image.name:
        return state
    name_field = EntryField(path, entry.index, "newName")
    tag_field = EntryField(path, entry.index, "newTag")
    digest_field = EntryField(path, entry.index, "digest")
    new_name = edits.get(name_field, entry.new_name)
    tag = edits.get(tag_field, entry.new_tag)
    digest = edits.get(digest_field, entry.digest)
    if new_name:
        state = replace(state, image=state.image._replace(name=new_name), name_from=name_field)
    if tag and digest:
        image = state.image._replace(tag=tag, digest=digest)
        return replace(state, image=image, tag_from=tag_field, digest_from=digest_field)
    if tag:
        image = state.image._replace(tag=tag, digest="")
        return replace(state, image=image, tag_from=tag_field, digest_from=None, cleared=True)
    if digest:
        image = state.image._replace(tag="", digest=digest)
        return replace(state, image=image, tag_from=None, digest_from=digest_field, cleared=True)
    return state


def route_image(source: Image, live: Image, chain: Sequence[Kustomization]) -> ImageRoute | None:
    """How to make the chain render `live`; None where no source and no existing entry field can."""
    now = trace(source, chain)
    if now.image == live:
        return ImageRoute(source, {})
    edits: dict[EntryField, str] = {}
    wanted = source
    if live.name != now.image.name:
        if now.name_from is not None:
            edits[now.name_from] = live.name
        else:
            wanted = wanted._replace(name=live.name)
    if live.tag != now.image.tag:
        if now.tag_from is not None:
            edits[now.tag_from] = live.tag
        else:
            wanted = wanted._replace(tag=live.tag)
    if live.digest != now.image.digest:
        if now.digest_from is not None:
            edits[now.digest_from] = live.digest
        else:
            wanted = wanted._replace(digest=live.digest)
    for candidate in (ImageRoute(wanted, edits), ImageRoute(live, {})):
        complete = all(candidate.edits.values())
        if complete and trace(candidate.source, chain, candidate.edits).image == live:
            return candidate
    return None


def is_scaled(group: str, kind: str) -> bool:
    """True for the kinds whose replicas an entry can set."""
    return (group, kind) in _SCALED_KINDS


def replica_entry(
    group: str, kind: str, name: str, chain: Sequence[Kustomization]
) -> tuple[Kustomization, int, int] | None:
    """(kustomization, entry index, count) of the entry that sets an object's replicas, or None."""
    if (group, kind) not in _SCALED_KINDS:
        return None
    found = None
    for kustomization in chain:
        for entry in kustomization.replicas:
            if entry.name == name:
                found = (kustomization, entry.index, entry.count)
    return found
