"""``POST /validate-operator-types``: who asks for a commit is recorded before the CommitRequest exists.

Every review that can be read is allowed, whatever happens here: this ingress observes and never decides. The
record is written before the answer, so a visible CommitRequest has its submitter already, or never gets one.
Only creations count, and the first record of a uid stays, so that nobody can claim a request afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from reverser.errors import StoreUnavailable
from reverser.store.model import Author
from webhooks import metrics
from webhooks.http import BadBody, Environ, StartResponse, answer, read_body, say
from webhooks.people import person
from webhooks.shapes import child, text

log = logging.getLogger(__name__)

PATH = "/validate-operator-types"
OBSERVE_PATH = "/validate-all"
MAX_BODY = 8 * 2**20
COMMANDS = frozenset({("configbutler.ai", "commitrequests")})
"""Resources whose creation is a command of a person: group and plural."""


class SubmitterStore(Protocol):
    """Where submitters are recorded."""

    def write_submitter(self, request_uid: str, author: Author, requested_at: str) -> None:
        """Record the submitter of an object, unless one is recorded. Raises StoreUnavailable."""
        ...


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class AdmissionIngress:
    """The WSGI application. Safe to be called by many threads at once."""

    def __init__(self, store: SubmitterStore, *, now: Callable[[], str] = _now) -> None:
        self._store = store
        self._now = now

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one review."""
        path = environ.get("PATH_INFO", "")
        if path not in (PATH, OBSERVE_PATH):
            return say(start_response, 404, "Not found")
        if environ.get("REQUEST_METHOD") != "POST":
            return say(start_response, 405, "Method not allowed")
        try:
            request = _request(read_body(environ, MAX_BODY))
        except BadBody as error:
            metrics.REVIEWS.labels("decode_error").inc()
            log.info("admission review refused: %s", error)
            return say(start_response, 400, str(error))
        outcome = self._record(request) if path == PATH else "observed"
        metrics.REVIEWS.labels(outcome).inc()
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": text(request.get("uid")), "allowed": True},
        }
        return answer(start_response, 200, orjson.dumps(review), content_type="application/json")

    def _record(self, request: Mapping[str, Any]) -> str:
        """Records the submitter of a creation; returns the outcome, a metric label."""
        resource = child(request, "resource")
        if (text(resource.get("group")), text(resource.get("resource"))) not in COMMANDS:
            return "other_resource"
        if request.get("operation") != "CREATE" or request.get("subResource"):
            return "other_operation"
        if request.get("dryRun") is True:
            return "dry_run"
        meta = child(child(request, "object"), "metadata")
        uid = text(meta.get("uid"))
        who = person(child(request, "userInfo"))
        if not uid or not who.username:
            return "incomplete"
        name = f"{text(request.get('namespace'))}/{text(request.get('name')) or text(meta.get('name'))}"
        try:
            self._store.write_submitter(uid, who, self._now())
        except StoreUnavailable as error:
            log.warning("submitter of CommitRequest %s (%s) not recorded: %s", name, uid, error)
            return "write_error"
        log.info("submitter of CommitRequest %s (%s) recorded", name, uid)
        return "recorded"


def _request(body: bytes) -> Mapping[str, Any]:
    """The request of an AdmissionReview. Raises BadBody."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadBody("the body is not JSON; send an admission.k8s.io/v1 AdmissionReview") from error
    request = child(review, "request")
    if not request:
        raise BadBody("request is missing; send an admission.k8s.io/v1 AdmissionReview")
    if review.get("kind") not in (None, "AdmissionReview") or review.get("apiVersion") not in (
        None,
        "admission.k8s.io/v1",
    ):
        raise BadBody("the body is not an admission.k8s.io/v1 AdmissionReview")
    return request
