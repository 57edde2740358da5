"""Which audit events are evidence, decided from the event alone.

The order of the tests is a contract: it decides under which label an event is counted, and exactly one
label is counted per event. What is watched plays no part here, and no type is special.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qs

from reverser.store.attribution import REMOVALS
from webhooks.shapes import child, text

MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Outcome(StrEnum):
    """What became of an event; a metric label."""

    QUEUED = "queued"
    NO_FACT = "no_attribution_fact"
    WRITE_ERROR = "write_error"
    UNDECODABLE = "undecodable"
    NON_SCALE_SUBRESOURCE = "non_scale_subresource"
    NIL_EVENT = "nil_event"
    STAGE = "stage"
    VERB = "read_only_or_unknown_verb"
    FAILED = "failed_request"
    DRY_RUN = "dry_run"
    UNCHANGED = "unchanged_resource_version"

    @property
    def category(self) -> str:
        """``stored``, ``error`` or ``dropped``."""
        if self is Outcome.QUEUED:
            return "stored"
        return "error" if self in (Outcome.WRITE_ERROR, Outcome.UNDECODABLE) else "dropped"


def verb_of(event: Mapping[str, Any]) -> str:
    """The verb in lower case."""
    return text(event.get("verb")).lower()


def refuse(event: Any) -> Outcome | None:
    """Why an item of an EventList is not evidence; None when it passes every test."""
    if event is None:
        return Outcome.NIL_EVENT
    if not isinstance(event, Mapping) or not _well_typed(event):
        return Outcome.UNDECODABLE
    verb = verb_of(event)
    subresource = text(child(event, "objectRef").get("subresource"))
    if subresource and not (subresource == "scale" and verb in MUTATING):
        return Outcome.NON_SCALE_SUBRESOURCE
    if event.get("stage") != "ResponseComplete":
        return Outcome.STAGE
    if verb not in MUTATING:
        return Outcome.VERB
    if (child(event, "responseStatus").get("code") or 0) >= 300:
        return Outcome.FAILED
    if is_dry_run(text(event.get("requestURI"))) or _is_dry_deletion(event):
        return Outcome.DRY_RUN
    asked = version_of(event, "requestObject")
    if asked and asked == version_of(event, "responseObject"):
        return Outcome.UNCHANGED
    return None


def version_of(event: Mapping[str, Any], body: str) -> str:
    """The resourceVersion in one of the bodies."""
    return text(child(child(event, body), "metadata").get("resourceVersion"))


def is_dry_run(uri: str) -> bool:
    """Whether a request URI asks for a dry run; a URI that cannot be read does not."""
    query = uri.partition("?")[2].partition("#")[0]
    try:
        return "All" in parse_qs(query, keep_blank_values=True).get("dryRun", [])
    except ValueError:
        return False


def _is_dry_deletion(event: Mapping[str, Any]) -> bool:
    """Whether the body of a deletion asks for a dry run, as kubectl does; other bodies are objects."""
    asked = child(event, "requestObject").get("dryRun") if verb_of(event) in REMOVALS else None
    return isinstance(asked, list) and "All" in asked


def request_is_known(event: Mapping[str, Any]) -> bool:
    """Whether a request body would be in the event. At level Metadata there is none, and a truncated event
    has lost it; a deletion may then have been a dry run, whatever the response.
    """
    return event.get("level") != "Metadata" and not is_truncated(event)


def is_truncated(event: Mapping[str, Any]) -> bool:
    """Whether the API server left the bodies out because the event was larger than it may be."""
    return text(child(event, "annotations").get("audit.k8s.io/truncated")).lower() == "true"


def _well_typed(event: Mapping[str, Any]) -> bool:
    """Whether the fields that are judged have their types; absent ones do."""
    texts = ("stage", "verb", "requestURI", "auditID")
    objects = ("user", "impersonatedUser", "objectRef", "responseStatus")
    code = child(event, "responseStatus").get("code")
    return (
        all(event.get(name) is None or isinstance(event[name], str) for name in texts)
        and all(event.get(name) is None or isinstance(event[name], Mapping) for name in objects)
        and (code is None or (isinstance(code, int) and not isinstance(code, bool)))
    )
