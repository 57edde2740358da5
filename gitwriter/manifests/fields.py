"""Values inside plain objects by JSON pointer, and the fields that a target does not mirror."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from .loading import load_document
from .splitting import split_documents

if TYPE_CHECKING:
    from .changes import IgnoreField


class Missing(Enum):
    """Where a value would stand if there were one. A member, so that a copy of it is still the same."""

    MISSING = "missing"


MISSING: Final[Any] = Missing.MISSING
_ALWAYS_KEPT = ("/metadata/finalizers", "/metadata/ownerReferences")
_INJECTED_BY = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
)
_WEBHOOK_KINDS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})


def load_mapping(data: bytes, index: int) -> dict[str, Any]:
    """One document of a file as a mapping; raises YamlRefused, or TypeError when it is something else."""
    value = load_document(split_documents(data)[index].body(data)).value
    if not isinstance(value, dict):
        raise TypeError("the document is not a mapping")
    return value


def split_pointer(pointer: str) -> list[str]:
    """The unescaped tokens of a JSON pointer; raises ValueError unless it begins with a slash."""
    if not pointer.startswith("/"):
        raise ValueError(f'"{pointer}" is no JSON pointer; it must begin with /')
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


def are_disjoint(pointers: Iterable[str]) -> bool:
    """True for pointers that are well formed and of which none contains another."""
    listed = sorted(pointers)
    if not listed or any(not pointer.startswith("/") for pointer in listed):
        return False
    return not any(
        other != pointer and other.startswith(pointer + "/") for pointer in listed for other in listed
    )


def get_pointer(value: Any, pointer: str) -> Any:
    """The value at a pointer, or MISSING."""
    for token in split_pointer(pointer):
        if isinstance(value, Mapping) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return MISSING
    return value


def set_pointer(value: dict[str, Any], pointer: str, new: Any) -> None:
    """Put a value at a pointer, creating mappings on the way; raises ValueError where something else is
    in the way.
    """
    *above, last = split_pointer(pointer)
    place: Any = value
    for token in above:
        if isinstance(place, list) and token.isdigit() and int(token) < len(place):
            place = place[int(token)]
        elif isinstance(place, dict):
            place = place.setdefault(token, {})
        else:
            raise ValueError(f"{pointer} does not fit the document")
    if isinstance(place, dict):
        place[last] = new
    elif isinstance(place, list) and last.isdigit() and int(last) < len(place):
        place[int(last)] = new
    else:
        raise ValueError(f"{pointer} does not fit the document")


def remove_pointer(value: Any, pointer: str) -> None:
    """Remove what stands at a pointer, `*` meaning every item of a list; a missing value is no error."""
    *above, last = split_pointer(pointer)
    places = [value]
    for token in above:
        places = [inner for place in places for inner in _inside(place, token)]
    for place in places:
        if isinstance(place, dict):
            place.pop(last, None)


def _inside(place: Any, part: str) -> list[Any]:
    if isinstance(place, dict):
        return [place[part]] if part in place else []
    if isinstance(place, list) and part == "*":
        return list(place)
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return [place[int(part)]]
    return []


def kept_pointers(
    body: Mapping[str, Any], group: str, name: str, ignored: Iterable[IgnoreField]
) -> tuple[str, ...]:
    """Pointers of an object that are neither compared nor written, those for this kind by policy and the
    built-in ones.
    """
    kind = str(body.get("kind", ""))
    found = list(_ALWAYS_KEPT)
    for entry in ignored:
        if entry.group == group and entry.kind == kind and entry.name in (None, "", name):
            found.extend(entry.pointers)
    found.extend(_injected(body, kind))
    return tuple(dict.fromkeys(pointer for pointer in found if pointer.startswith("/")))


def _injected(body: Mapping[str, Any], kind: str) -> Iterator[str]:
    """The CA bundles that cert-manager writes into an object which asks for it by annotation."""
    annotations = body.get("metadata", {}).get("annotations") or {}
    if not any(key in annotations for key in _INJECTED_BY):
        return
    if kind in _WEBHOOK_KINDS:
        yield "/webhooks/*/clientConfig/caBundle"
    elif kind == "CustomResourceDefinition":
        yield "/spec/conversion/webhook/clientConfig/caBundle"
    elif kind == "APIService":
        yield "/spec/caBundle"


def without(body: Mapping[str, Any], pointers: Sequence[str]) -> dict[str, Any]:
    """A copy of an object without what stands at the pointers."""
    copied = copy.deepcopy(dict(body))
    for pointer in pointers:
        remove_pointer(copied, pointer)
    return copied
