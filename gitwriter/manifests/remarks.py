"""Remarks on a folder that can be written: sensitive values in clear text, and SOPS rules that name other
recipients than the target.

Neither refuses the path. A clear value is replaced when its object is written next, but it stays in the
history, so it has to be reported; `.sops.yaml` belongs to people and is never overwritten, so a difference
can only be reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from reverser.kinds.sensitive import is_sensitive

from .bootstrap import SOPS_RULES
from .changes import Policy
from .inventory import Inventory
from .records import DocumentRef
from .tree import Tree

_SHOWN = 5


def remarks(tree: Tree, inventory: Inventory, policy: Policy) -> tuple[str, ...]:
    """The remarks on a folder, bounded; messages name objects, files and public keys, never values."""
    found = []
    clear = list(_in_clear(inventory, policy.sensitive_types))
    if clear:
        named = ", ".join(f"{ref.fact.describe()} in {ref.path}" for ref in clear[:_SHOWN])
        more = f" and {len(clear) - _SHOWN} more" if len(clear) > _SHOWN else ""
        found.append(
            f"sensitive objects stand in clear text: {named}{more}; treat their values as known to all who "
            "can read the repository, and change them"
        )
    rules = inventory.files.get(SOPS_RULES)
    if policy.encryption_enabled and rules is not None:
        found.append(_drift(tree.read(rules.entry.blob), policy.recipients))
    return tuple(text for text in found if text)


def _in_clear(inventory: Inventory, sensitive_types: frozenset[str]) -> Iterator[DocumentRef]:
    for group, kind in inventory.types():
        if is_sensitive(group, _names(kind), sensitive_types):
            yield from (ref for ref in inventory.of_type(group, kind) if not ref.fact.has_sops)


def _names(kind: str) -> Iterator[str]:
    """Possible names of a kind and its plural; manifests name kinds only."""
    name = kind.lower()
    yield from (name, f"{name}s", f"{name}es")
    if name.endswith("y"):
        yield f"{name[:-1]}ies"


def _drift(rules: bytes, recipients: Sequence[str]) -> str:
    """How the age recipients of SOPS rules differ from the target's; empty when they do not."""
    try:
        named = set(_age_recipients(yaml.load(rules, Loader=yaml.CSafeLoader)))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        return f"{SOPS_RULES} cannot be read; correct it or remove it, then it is made anew"
    wanted = set(recipients)
    parts = []
    if missing := sorted(wanted - named):
        parts.append(f"lacks {', '.join(missing[:_SHOWN])}")
    if surplus := sorted(named - wanted):
        parts.append(f"names {', '.join(surplus[:_SHOWN])}, which cannot read what is sealed now")
    if not parts:
        return ""
    return (
        f"{SOPS_RULES} {' and '.join(parts)}; objects are sealed for the recipients of the target, and "
        "the file is never overwritten: correct it, or remove it to have it made anew"
    )


def _age_recipients(rules: object) -> Iterator[str]:
    """Every age recipient below `age` keys, as text or as a list."""
    if isinstance(rules, dict):
        for key, value in rules.items():
            if key == "age":
                yield from _listed(value)
            else:
                yield from _age_recipients(value)
    elif isinstance(rules, list):
        for item in rules:
            yield from _age_recipients(item)


def _listed(value: object) -> Iterator[str]:
    entries = value if isinstance(value, list) else [value]
    for entry in entries:
        yield from (part.strip() for part in str(entry).split(",") if part.strip())
