"""Builds of one inventory's render roots, each made once.

The files that a root reaches, its kustomizations and their patches go into the build and nothing else of
the path.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping

from ..inventory import Inventory
from .context import resolve_entry
from .render import Rendered, Renderer, RenderKey

ReadPath = Callable[[str], bytes]


def files_of_root(inventory: Inventory, root: str) -> list[str]:
    """Every path that a build of this root reads, sorted."""
    context = inventory.context
    found = {
        path for path, reaches in context.reaches.items() if any(reach.root == root for reach in reaches)
    }
    for path, reaches in context.kustomization_reaches.items():
        if any(reach.root == root for reach in reaches):
            kustomization = context.by_directory[posixpath.dirname(path)]
            found.add(path)
            found.update(resolve_entry(kustomization.directory, patch) for patch in kustomization.patches)
    return sorted(found)


def roots_of(inventory: Inventory, path: str) -> frozenset[str]:
    """The render roots whose build reads a file or a kustomization."""
    context = inventory.context
    reaches = (*context.reaches.get(path, ()), *context.kustomization_reaches.get(path, ()))
    return frozenset(reach.root for reach in reaches)


def build(
    inventory: Inventory,
    root: str,
    *,
    read: ReadPath,
    renderer: Renderer,
    changed: Mapping[str, bytes | None],
) -> Rendered:
    """Build a root with the renderer; `changed` holds files that replace committed ones. Raises
    RenderError.
    """

    def make() -> Rendered:
        files: dict[str, bytes] = {}
        for path in files_of_root(inventory, root):
            data = changed[path] if path in changed else read(path)
            if data is not None:
                files[path] = data
        return renderer(files, posixpath.dirname(root))

    rendered = inventory.derived(("render", root), make)
    assert isinstance(rendered, dict)
    return rendered


def find_rendered(rendered: Rendered, group: str, kind: str, namespace: str, name: str) -> bytes | None:
    """One object of a build; kinds without namespace are found whatever the build wrote there."""
    exact = rendered.get(RenderKey((group, kind, namespace, name)))
    if exact is not None:
        return exact
    found = [body for key, body in rendered.items() if (key[0], key[1], key[3]) == (group, kind, name)]
    return found[0] if len(found) == 1 and not namespace else None
