"""CommitRequests: listed from history, read from the cluster while they exist, made in the caller's name."""

from __future__ import annotations

import time
from typing import Any

from django.http import Http404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from reverser.controllers.decide_request import is_terminal
from reverser.errors import KubeForbidden, KubeInvalid, KubeNotFound
from reverser.history.models import SaveRequest
from reverser.kinds.parse import MAX_CLOSE_DELAY, MAX_MESSAGE, parse_commit_request
from reverser.kube.paths import own_path
from reverser.rest import documents
from reverser.rest.saves import Wish, create, follow, message_problem, result_of
from reverser.rest.throttling import OPEN
from reverser.rest.views import (
    IN_NAMESPACE,
    KUBE_SECONDS,
    LIMIT,
    NAME,
    NAMESPACE,
    Rows,
    View,
    page_of,
    parameter,
)
from reverser.wiring import kube

LONGEST_WAIT = 60
STATES = ("waiting", "succeeded", "failed")
WAIT = parameter(
    "wait",
    f"Answer when it is finished, or after so many seconds (0 to {LONGEST_WAIT})",
    kind={"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT},
)


class WishSerializer(serializers.Serializer[Any]):
    """What is asked for."""

    namespace = serializers.RegexField(rf"^{NAMESPACE}\Z", max_length=63)
    target = serializers.RegexField(rf"^{NAME}\Z", max_length=253, help_text="Name of the GitTarget")
    message = serializers.CharField(
        max_length=MAX_MESSAGE,
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        help_text="Generated if empty",
    )
    closeDelaySeconds = serializers.IntegerField(min_value=0, max_value=MAX_CLOSE_DELAY, required=False)

    def validate_message(self, value: str) -> str:
        """Raises ValidationError for control characters."""
        if problem := message_problem(value):
            raise serializers.ValidationError(problem)
        return value


class Waiting(View):
    """Views that may wait until a request is finished."""

    def seconds(self) -> int:
        """``?wait=``. Raises ValidationError."""
        text = self.request.query_params.get("wait", "0")
        if not (text.isascii() and text.isdigit()) or int(text[:9]) > LONGEST_WAIT:
            raise ValidationError({"wait": f"a whole number of seconds from 0 to {LONGEST_WAIT}"})
        return int(text)

    def followed(self, namespace: str, name: str, seconds: int) -> dict[str, Any]:
        """The document of a request that exists. Raises KubeNotFound, Throttled."""
        found = kube().get(own_path("commitrequests", namespace=namespace, name=name), timeout=KUBE_SECONDS)
        if seconds and not is_terminal(parse_commit_request(found)):
            with OPEN.place(self.caller.username):
                found = follow(kube(), namespace, name, seconds=seconds, clock=time.monotonic)
        return documents.request_object(result_of(found))


class Requests(Rows, Waiting):
    """All CommitRequests."""

    @extend_schema(
        operation_id="listCommitRequests",
        parameters=[
            IN_NAMESPACE,
            LIMIT,
            parameter("target", "Only of this GitTarget", pattern=NAME),
            parameter("state", "Only in this state", enum=STATES),
        ],
        responses=page_of("CommitRequestPage", documents.RequestShape),
    )
    def get(self, request: Request) -> Response:
        """List CommitRequests, the newest first; those that are gone from the cluster included."""
        namespace, name, state = self.namespace(), self.text("target", NAME), self.text("state")
        if "state" in request.query_params and state not in STATES:
            raise ValidationError({"state": f"one of {', '.join(STATES)}"})
        self.authorize("list", "commitrequests", namespace=namespace)
        rows = SaveRequest.objects.all()
        if namespace:
            rows = rows.filter(namespace=namespace)
        if name:
            rows = rows.filter(target_name=name)
        if state == "waiting":
            rows = rows.filter(outcome="")
        elif state == "succeeded":
            rows = rows.filter(outcome__in=list(documents.BENIGN))
        elif state == "failed":
            rows = rows.exclude(outcome__in=["", *documents.BENIGN])
        return self.page(rows, documents.request_row)

    @extend_schema(
        operation_id="createCommitRequest",
        parameters=[WAIT],
        request=WishSerializer,
        responses={201: OpenApiResponse(documents.RequestShape, "Asked for; Location tells where it is")},
    )
    def post(self, request: Request) -> Response:
        """Ask a GitTarget to commit now, in the caller's own name."""
        wait = self.seconds()
        asked = WishSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        data = asked.validated_data
        wish = Wish(data["namespace"], data["target"], data.get("message", ""), data.get("closeDelaySeconds"))
        self.authorize("create", "commitrequests", namespace=wish.namespace)
        made = self._made(wish)
        name = str(made["metadata"]["name"])
        body = documents.request_object(result_of(made))
        if wait:
            body = self._waited(wish.namespace, name, wait, body)
        where = reverse("commitrequest", kwargs={"namespace": wish.namespace, "name": name}, request=request)
        return Response(body, status=201, headers={"Location": where})

    def _made(self, wish: Wish) -> dict[str, Any]:
        caller = self.caller
        try:
            kube().get(
                own_path("gittargets", namespace=wish.namespace, name=wish.target), timeout=KUBE_SECONDS
            )
        except KubeNotFound as error:
            raise KubeInvalid(
                f"there is no GitTarget {wish.target} in namespace {wish.namespace}; name one that exists"
            ) from error
        try:
            return create(kube(), wish, acting_as=caller.impersonation)
        except KubeForbidden as error:
            raise PermissionDenied(
                f"the CommitRequest could not be made in the name of {caller.username}: {error}. "
                "Either a policy forbids it, or the product may not act for others: "
                "see manage.py rbac --impersonate."
            ) from error

    def _waited(self, namespace: str, name: str, wait: int, made: dict[str, Any]) -> dict[str, Any]:
        """The request exists whatever happens while waiting, so the response says at least that."""
        from rest_framework.exceptions import Throttled

        try:
            return self.followed(namespace, name, wait)
        except (Throttled, KubeNotFound):
            return made


class OneRequest(Waiting):
    """One CommitRequest."""

    @extend_schema(operation_id="readCommitRequest", parameters=[WAIT], responses=documents.RequestShape)
    def get(self, request: Request, namespace: str, name: str) -> Response:
        """Read a CommitRequest, also after it is gone from the cluster."""
        wait = self.seconds()
        self.authorize("get", "commitrequests", namespace=namespace, name=name)
        try:
            return Response(self.followed(namespace, name, wait))
        except KubeNotFound as error:
            row = SaveRequest.objects.filter(namespace=namespace, name=name).order_by("-id").first()
            if row is None:
                raise Http404 from error
            return Response(documents.request_row(row))
