"""Which types are sealed: core Secrets, and those that the operator named.

The setting is written by hand, and a name that matches nothing would silently leave objects in clear text. So
a type matches by every name that Kubernetes has for it (plural, kind, singular, short names), in either
spelling (``group/name``, or ``name.group`` as kubectl has it), and names that match no served type are
reported. The watcher knows all names of a type. The writer knows fewer, and need not know more: what the
watcher calls sensitive it never writes in clear text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SECRETS = "secrets"


def is_sensitive(group: str, names: Iterable[str], wanted: frozenset[str]) -> bool:
    """Whether objects of a type are sealed.

    ``names`` are the type's names without group, the plural among them where it is known; ``wanted`` are the
    entries of the setting, in lower case.
    """
    found = _spellings(group, names)
    return (not group and SECRETS in found) or not wanted.isdisjoint(found)


def _spellings(group: str, names: Iterable[str]) -> frozenset[str]:
    plain = [name.lower() for name in names if name]
    if not group:
        return frozenset(plain)
    group = group.lower()
    return frozenset(f"{group}/{name}" for name in plain) | frozenset(f"{name}.{group}" for name in plain)


@dataclass(frozen=True, slots=True)
class Unmatched:
    """An entry of the setting that matches no served type, and the type that may be meant (or empty)."""

    entry: str
    meant: str = ""

    def __str__(self) -> str:
        guess = f"; {self.meant} may be meant" if self.meant else ""
        return f"'{self.entry}' is no type that the cluster serves, so it seals nothing{guess}"


def unmatched(
    wanted: frozenset[str], served: Mapping[tuple[str, str], Iterable[str]]
) -> tuple[Unmatched, ...]:
    """Entries that match nothing, sorted. ``served`` has all names of each type by (group, plural)."""
    known = frozenset({SECRETS}).union(
        *(_spellings(group, (plural, *names)) for (group, plural), names in served.items())
    )
    return tuple(Unmatched(entry, _meant(entry, served)) for entry in sorted(wanted - known))


def _meant(entry: str, served: Mapping[tuple[str, str], Iterable[str]]) -> str:
    """A type of that very name in another group, else the one spelled most like the entry."""
    name = entry.rpartition("/")[2]
    full = {
        f"{group}/{plural}" if group else plural: (plural, *names)
        for (group, plural), names in served.items()
    }
    for text, names in sorted(full.items()):
        if name in {other.lower() for other in names}:
            return text
    close = difflib.get_close_matches(entry, sorted(full), n=1, cutoff=0.8)
    return close[0] if close else ""
