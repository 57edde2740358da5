"""The one role that each entry of a target path has; the first rule that fits wins."""

from __future__ import annotations

from enum import StrEnum

from .ignore import IGNORE_FILE, IgnoreRules
from .tree import MODE_SUBMODULE, MODE_SYMLINK, TreeEntry


class Role(StrEnum):
    """What an entry is to the mirror."""

    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    IGNORE_FILE = "ignore-file"
    RETAINED = "retained"
    KUSTOMIZATION = "kustomization"
    IGNORED = "ignored"
    MANIFEST = "manifest"
    INERT = "inert"
    FOREIGN = "foreign"


KUSTOMIZATION_NAMES = frozenset({"kustomization.yaml", "kustomization.yml"})
RETAINED_NAMES = frozenset({"README.md", ".sops.yaml"})
RESERVED_NAMES = KUSTOMIZATION_NAMES | RETAINED_NAMES | {IGNORE_FILE}
SEALED_SUFFIXES = (".sops.yaml", ".sops.yml")
MANIFEST_SUFFIXES = (".yaml", ".yml")

_INERT_NAMES = frozenset({".gitignore", ".gitattributes", ".gitkeep", ".keep"}) | {
    stem + suffix for stem in ("LICENSE", "LICENCE", "COPYING", "NOTICE") for suffix in ("", ".txt")
}
_INERT_SUFFIXES = (".md", ".markdown")


def is_hidden(path: str, rules: IgnoreRules) -> bool:
    """Whether the next scan would not see a file that is written at ``path``."""
    if path == IGNORE_FILE:
        return False
    if path.rsplit("/", 1)[-1] in RESERVED_NAMES:
        return rules.hides_folder_of(path)
    return rules.matches(path)


def role_of(entry: TreeEntry, rules: IgnoreRules) -> Role:
    """The role of an entry; names that the product relies on are recognised before the ignore rules can hide
    them.
    """
    path = entry.path
    name = path.rsplit("/", 1)[-1]
    if entry.mode == MODE_SYMLINK:
        return Role.IGNORED if rules.matches(path) else Role.SYMLINK
    if entry.mode == MODE_SUBMODULE:
        return Role.IGNORED if rules.matches(path) else Role.SUBMODULE
    if path == IGNORE_FILE:
        return Role.IGNORE_FILE
    if "/" in path and rules.hides_folder_of(path):
        return Role.IGNORED
    if name in KUSTOMIZATION_NAMES:
        return Role.KUSTOMIZATION
    if name in RETAINED_NAMES:
        return Role.RETAINED
    if rules.matches(path):
        return Role.IGNORED
    if name.endswith(MANIFEST_SUFFIXES):
        return Role.MANIFEST
    if name in _INERT_NAMES or name.endswith(_INERT_SUFFIXES):
        return Role.INERT
    return Role.FOREIGN
