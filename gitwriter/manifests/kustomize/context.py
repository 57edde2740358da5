"""What the kustomizations of a path do to the files below it: namespace, render roots, override chain.

A render root is a kustomization that no other one references. From each root the graph is walked to its
files, and every file remembers by which roots it is reached, through which kustomizations (innermost
first) and which namespace the outermost of them sets, as kustomize's own transformer does. Nothing is
inferred from where a file lies.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .model import Kustomization, is_remote


@dataclass(frozen=True, slots=True)
class Reach:
    """One way in which a root reaches a file: `chain` holds kustomization paths, innermost first."""

    root: str
    chain: tuple[str, ...]
    namespace: str
    namespace_from: str


@dataclass(frozen=True, slots=True)
class KustomizeContext:
    """The reading of all kustomizations of a path.

    `by_directory` holds them, `reaches` says per file how roots get there (`kustomization_reaches` per
    kustomization), `patches` are files that are only patches, `problems` lists, per kustomization path,
    why the build would fail.
    """

    by_directory: Mapping[str, Kustomization] = field(default_factory=dict)
    reaches: Mapping[str, tuple[Reach, ...]] = field(default_factory=dict)
    kustomization_reaches: Mapping[str, tuple[Reach, ...]] = field(default_factory=dict)
    listed_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    patches: frozenset[str] = frozenset()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    roots: tuple[str, ...] = ()

    def namespaces(self, path: str) -> tuple[tuple[str, str], ...]:
        """The distinct (namespace, kustomization) pairs set for a file, sorted; empty when none is set."""
        if path not in self.reaches:
            return ()
        found: dict[str, str] = {}
        for reach in self.reaches[path]:
            if reach.namespace:
                found.setdefault(reach.namespace, reach.namespace_from)
        return tuple(sorted(found.items()))

    def namespace(self, path: str) -> str:
        """The one namespace set for a file, or empty when none or several are."""
        found = self.namespaces(path)
        return found[0][0] if len(found) == 1 else ""

    def fan_in(self, path: str) -> tuple[str, ...]:
        """The render roots that share a file, when there is more than one."""
        roots = tuple(sorted({reach.root for reach in self.reaches.get(path, ())}))
        return roots if len(roots) > 1 else ()

    def chain(self, path: str) -> tuple[Kustomization, ...]:
        """The kustomizations that a file passes through, innermost first; empty when it is in none or in
        several.
        """
        reaches = self.reaches.get(path, ())
        if len(reaches) != 1:
            return ()
        return tuple(self.by_directory[posixpath.dirname(item)] for item in reaches[0].chain)

    def listing(self, path: str) -> tuple[Kustomization, ...]:
        """Every kustomization that names this file as an entry of its own."""
        return tuple(self.by_directory[directory] for directory in self.listed_by.get(path, ()))


def resolve_entry(directory: str, entry: str) -> str:
    """Where an entry of a kustomization in `directory` points, relative to the target path; may start
    with `..`.
    """
    joined = posixpath.normpath(posixpath.join(directory, entry))
    return "" if joined == "." else joined


def build_context(
    kustomizations: Mapping[str, Kustomization],
    *,
    is_file: Callable[[str], bool],
    is_patch: Callable[[str], bool],
) -> KustomizeContext:
    """Read the graph. `kustomizations` is keyed by directory; `is_patch` tells a file that holds one
    object.
    """
    builder = _Builder(kustomizations, is_file, is_patch)
    builder.run()
    return KustomizeContext(
        by_directory=dict(kustomizations),
        reaches={path: tuple(reaches) for path, reaches in builder.reaches.items()},
        kustomization_reaches={path: tuple(reaches) for path, reaches in builder.own_reaches.items()},
        listed_by={path: tuple(directories) for path, directories in builder.listed_by.items()},
        patches=frozenset(builder.patches),
        problems={path: tuple(dict.fromkeys(found)) for path, found in builder.problems.items()},
        roots=tuple(builder.roots),
    )


class _Builder:
    def __init__(
        self,
        kustomizations: Mapping[str, Kustomization],
        is_file: Callable[[str], bool],
        is_patch: Callable[[str], bool],
    ) -> None:
        self._all = kustomizations
        self._is_file = is_file
        self._is_patch = is_patch
        self._children: dict[str, list[str]] = {}
        self._files: dict[str, list[str]] = {}
        self.reaches: dict[str, list[Reach]] = {}
        self.own_reaches: dict[str, list[Reach]] = {}
        self.listed_by: dict[str, list[str]] = {}
        self.patches: set[str] = set()
        self.problems: dict[str, list[str]] = {}
        self.roots: list[str] = []

    def run(self) -> None:
        for directory, kustomization in sorted(self._all.items()):
            self._resolve(directory, kustomization)
        referenced = {child for children in self._children.values() for child in children}
        starts = [directory for directory in sorted(self._all) if directory not in referenced]
        self.roots = [self._all[directory].path for directory in starts]
        seen: set[str] = set()
        for directory in starts:
            self._walk(directory, seen)
        for directory in sorted(set(self._all) - seen):
            self._problem(self._all[directory], "render-failed: it takes part in a cycle of kustomizations")

    def _problem(self, kustomization: Kustomization, text: str) -> None:
        self.problems.setdefault(kustomization.path, []).append(text)

    def _resolve(self, directory: str, kustomization: Kustomization) -> None:
        children: list[str] = []
        files: list[str] = []
        for entry in kustomization.entries:
            if is_remote(entry):
                continue
            target = resolve_entry(directory, entry)
            if target in self._all:
                children.append(target)
            elif self._is_file(target):
                files.append(target)
            elif target == ".." or target.startswith(("../", "/")):
                self._problem(
                    kustomization,
                    f'render-failed: "{entry}" lies outside the target path, where nothing is read',
                )
            elif _looks_like_host(entry):
                self._problem(kustomization, f'remote-base: "{entry}"')
            else:
                self._problem(
                    kustomization, f'render-failed: "{entry}" does not exist or holds no kustomization'
                )
        for patch in kustomization.patches:
            target = resolve_entry(directory, patch)
            if target.startswith("../") and not directory.startswith(".."):
                self._problem(kustomization, f'patches-outside-tree: "{patch}"')
            elif not self._is_file(target):
                self._problem(kustomization, f'render-failed: the patch "{patch}" does not exist')
            elif not self._is_patch(target):
                self._problem(kustomization, f'patches-json6902: "{patch}" is not a partial object')
            elif kustomization.supported:
                self.patches.add(target)
        for path in files:
            self.listed_by.setdefault(path, []).append(directory)
        self._children[directory] = children
        self._files[directory] = files

    def _walk(self, start: str, seen: set[str]) -> None:
        root = self._all[start]
        visited: set[str] = set()
        stack: list[tuple[str, tuple[str, ...], str, str, frozenset[str]]] = [
            (start, (), "", "", frozenset())
        ]
        while stack:
            directory, chain, namespace, source, above = stack.pop()
            kustomization = self._all[directory]
            if directory in above:
                self._problem(kustomization, "render-failed: it takes part in a cycle of kustomizations")
                continue
            if directory in visited:
                self._problem(root, f'render-failed: "{directory}" is reached by more than one way')
                continue
            visited.add(directory)
            seen.add(directory)
            if not namespace and kustomization.namespace:
                namespace, source = kustomization.namespace, kustomization.path
            inner = (kustomization.path, *chain)
            self.own_reaches.setdefault(kustomization.path, []).append(
                Reach(root.path, inner, namespace, source)
            )
            for path in self._files[directory]:
                found = self.reaches.setdefault(path, [])
                if any(reach.root == root.path for reach in found):
                    self._problem(root, f'render-failed: "{path}" is reached by more than one way')
                else:
                    found.append(Reach(root.path, inner, namespace, source))
            for child in reversed(self._children[directory]):
                stack.append((child, inner, namespace, source, above | {directory}))


def _looks_like_host(entry: str) -> bool:
    first = entry.split("/", 1)[0]
    return "/" in entry and "." in first.strip(".") and not entry.startswith(".")
