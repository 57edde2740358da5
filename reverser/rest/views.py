"""The read endpoints. A view asks RBAC first, then reads; every list is bounded, every read has an ETag."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from django.utils.cache import patch_vary_headers
from django.utils.dateparse import parse_datetime
from django.utils.decorators import method_decorator
from django.views.decorators.http import conditional_page
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import NotAuthenticated, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reverser.dashboard.readings import Reading, current
from reverser.errors import KubeInvalid, StoreUnavailable
from reverser.history.models import Commit, TargetState
from reverser.history.queries import living_targets
from reverser.history.search import by_author, having_object, search_commits
from reverser.kinds.parse import parse_git_provider, parse_watch_rule
from reverser.kube.paths import own_path
from reverser.kube.requests import decode_page
from reverser.rest import documents
from reverser.rest.access import Access, may
from reverser.rest.identity import Caller
from reverser.rest.paging import Cursor, limit_of
from reverser.wiring import kube, store

NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
OBJECTS = 500
KUBE_SECONDS = 10.0

_TEXT = r"[^\x00-\x1f\x7f]{0,200}"


def parameter(name: str, text: str, *, pattern: str = "", kind: Any = str, **more: Any) -> OpenApiParameter:
    """A query parameter of the OpenAPI document."""
    if pattern:
        kind = {"type": "string", "pattern": f"^{pattern}$"}
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=text, **more)


LIMIT = parameter("limit", "How many (1 to 200)", kind={"type": "integer", "minimum": 1, "maximum": 200})
IN_NAMESPACE = parameter("namespace", "Only of this namespace; needs no rights elsewhere", pattern=NAMESPACE)
CONTINUE = parameter(
    "continue", "Where the page begins, as another page told", pattern=r"[\x21-\x7e]{0,4096}"
)


def page_of(name: str, shape: type[serializers.Serializer[Any]], *, cluster: bool = False) -> Any:
    """The shape of a page."""
    ways = ("continue",) if cluster else ("next", "previous")
    fields: dict[str, Any] = {way: serializers.CharField(allow_null=True) for way in ways}
    return inline_serializer(name, {**fields, "results": shape(many=True)})


class View(APIView):
    """What all endpoints share."""

    @method_decorator(conditional_page)
    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Responses carry an ETag and may be cached by the caller only."""
        response = super().dispatch(request, *args, **kwargs)
        patch_vary_headers(response, ["Authorization", "Cookie"])
        response.setdefault("Cache-Control", "private, no-cache")
        return response

    @property
    def caller(self) -> Caller:
        """The authenticated caller; authenticators and permission class admit nobody else."""
        user: Any = self.request.user
        if not isinstance(user, Caller):
            raise NotAuthenticated
        return user

    def authorize(self, verb: str, resource: str, *, namespace: str = "", name: str = "") -> None:
        """Raises PermissionDenied where RBAC refuses, the error tree's classes without an answer."""
        access = Access(verb, resource, namespace, name)
        if not may(kube(), self.caller, access):
            more = "" if namespace else "; with ?namespace= the right in that namespace is enough"
            raise PermissionDenied(f"RBAC does not let {self.caller.username} {access.describe()}{more}")

    def text(self, name: str, pattern: str = _TEXT) -> str:
        """A query parameter; empty where it is not given. Raises ValidationError."""
        value = self.request.query_params.get(name, "")
        if name in self.request.query_params and not re.fullmatch(pattern, value):
            raise ValidationError({name: "it cannot be read"})
        return value

    def namespace(self) -> str:
        """``?namespace=``. Raises ValidationError."""
        return self.text("namespace", NAMESPACE)

    def moment(self, name: str) -> datetime | None:
        """A query parameter that is a time. Raises ValidationError."""
        if name not in self.request.query_params:
            return None
        try:
            found = parse_datetime(self.request.query_params[name])
        except ValueError:
            found = None
        if found is None or found.tzinfo is None:
            raise ValidationError({name: "a time such as 2026-01-31T12:00:00Z"})
        return found


class Rows(View):
    """A list of rows of the database."""

    default_ordering: ClassVar[Sequence[str]] = ("-id",)
    orderings: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def page(self, rows: QuerySet[Any], document: Callable[[Any], dict[str, Any]]) -> Response:
        """One page of documents."""
        cursor = Cursor()
        found = cursor.paginate_queryset(rows, self.request, view=self) or []
        answer: Response = cursor.get_paginated_response([document(row) for row in found])
        return answer


def living_target(namespace: str, name: str) -> TargetState:
    """The row of a GitTarget that exists. Raises Http404."""
    found = living_targets().filter(namespace=namespace, name=name).order_by("-id").first()
    if found is None:
        raise Http404
    return found


class Targets(Rows):
    """GitTargets."""

    default_ordering = ("namespace", "name", "id")

    @extend_schema(
        operation_id="listGitTargets",
        parameters=[IN_NAMESPACE, LIMIT, parameter("search", "A part of the name", pattern=_TEXT)],
        responses=page_of("GitTargetPage", documents.TargetShape),
    )
    def get(self, request: Request) -> Response:
        """List GitTargets and whether Git is up to date for them."""
        namespace, search = self.namespace(), self.text("search")
        self.authorize("list", "gittargets", namespace=namespace)
        rows = living_targets()
        if namespace:
            rows = rows.filter(namespace=namespace)
        if search:
            rows = rows.filter(name__icontains=search)
        reading = current()
        return self.page(rows, lambda row: documents.target(row, reading))


class Target(View):
    """One GitTarget."""

    @extend_schema(operation_id="readGitTarget", responses=documents.TargetShape)
    def get(self, request: Request, namespace: str, name: str) -> Response:
        """Read a GitTarget and whether Git is up to date for it."""
        self.authorize("get", "gittargets", namespace=namespace, name=name)
        return Response(documents.target(living_target(namespace, name), current()))


class Streams(Rows):
    """Streams by target."""

    default_ordering = ("namespace", "name", "id")

    @extend_schema(
        operation_id="listStreams",
        parameters=[IN_NAMESPACE, LIMIT, parameter("target", "Only of this GitTarget", pattern=NAME)],
        responses=page_of("StreamPage", documents.TargetStreamsShape),
    )
    def get(self, request: Request) -> Response:
        """List the streams of GitTargets."""
        namespace, name = self.namespace(), self.text("target", NAME)
        self.authorize("list", "gittargets", namespace=namespace)
        rows = living_targets()
        if namespace:
            rows = rows.filter(namespace=namespace)
        if name:
            rows = rows.filter(name=name)
        return self.page(rows, lambda row: documents.streams(row, store().read_streams(row.uid)))


class Commits(Rows):
    """Commits."""

    default_ordering = ("-pushed_at", "-id")
    orderings = {
        "pushedAt": ("pushed_at", "id"),
        "-pushedAt": ("-pushed_at", "-id"),
        "changes": ("changes_total", "id"),
        "-changes": ("-changes_total", "-id"),
    }

    @extend_schema(
        operation_id="listCommits",
        parameters=[
            IN_NAMESPACE,
            LIMIT,
            parameter("target", "Only of this GitTarget", pattern=NAME),
            parameter("author", "The author's name, address or Kubernetes user", pattern=_TEXT),
            parameter("resource", "Changed an object of this resource (plural)", pattern=_TEXT),
            parameter("objectNamespace", "Changed an object of this namespace", pattern=_TEXT),
            parameter("object", "Changed an object of this name", pattern=_TEXT),
            parameter("commitRequest", "UID of the CommitRequest behind it", pattern=r"[-A-Za-z0-9]{1,64}"),
            parameter("since", "Pushed at or after", kind=OpenApiTypes.DATETIME),
            parameter("until", "Pushed before", kind=OpenApiTypes.DATETIME),
            parameter("search", "Words in message, author, id or objects", pattern=_TEXT),
            parameter("order", "The order", enum=sorted(orderings)),
        ],
        responses=page_of("CommitPage", documents.CommitShape),
    )
    def get(self, request: Request) -> Response:
        """List commits, the newest first. Seen by whoever may list GitTargets."""
        namespace = self.namespace()
        self.authorize("list", "gittargets", namespace=namespace)
        rows = self._filtered(Commit.objects.all(), namespace)
        urls = {(row.namespace, row.name): row.url for row in living_targets()}
        return self.page(
            rows, lambda row: documents.commit(row, urls.get((row.target_namespace, row.target_name), ""))
        )

    def _filtered(self, rows: QuerySet[Commit], namespace: str) -> QuerySet[Commit]:
        if namespace:
            rows = rows.filter(target_namespace=namespace)
        if name := self.text("target", NAME):
            rows = rows.filter(target_name=name)
        if author := self.text("author"):
            rows = by_author(rows, author)
        if uid := self.text("commitRequest", r"[-A-Za-z0-9]{1,64}"):
            rows = rows.filter(request_uid=uid)
        about = {
            column: value
            for column, value in (
                ("resource", self.text("resource")),
                ("namespace", self.text("objectNamespace")),
                ("name", self.text("object")),
            )
            if value
        }
        if about:
            rows = having_object(rows, **about)
        if since := self.moment("since"):
            rows = rows.filter(pushed_at__gte=since)
        if until := self.moment("until"):
            rows = rows.filter(pushed_at__lt=until)
        if words := self.text("search"):
            rows = search_commits(rows, words)
        return rows


class OneCommit(View):
    """One commit."""

    @extend_schema(operation_id="readCommit", responses=documents.CommitDetailShape)
    def get(self, request: Request, sha: str) -> Response:
        """Read a commit, by its id in Git, with its objects."""
        found = Commit.objects.filter(sha=sha).order_by("-id").first()
        if found is None or not may(
            kube(), self.caller, Access("get", "gittargets", found.target_namespace, found.target_name)
        ):
            raise Http404
        target = living_targets().filter(namespace=found.target_namespace, name=found.target_name).first()
        objects = found.objects_changed.order_by("id")[:OBJECTS]
        body = documents.commit(found, target.url if target is not None else "")
        return Response({**body, "objects": documents.changed(objects)})


class Branches(View):
    """Branches."""

    @extend_schema(
        operation_id="listBranches",
        parameters=[
            IN_NAMESPACE,
            LIMIT,
            parameter("continue", "Id of the last one seen", pattern="[0-9a-f]{1,64}"),
        ],
        responses=page_of("BranchPage", documents.BranchShape, cluster=True),
    )
    def get(self, request: Request) -> Response:
        """List branches and what waits for each. Seen by whoever may list GitProviders."""
        namespace, after, limit = self.namespace(), self.text("continue", "[0-9a-f]{1,64}"), limit_of(request)
        self.authorize("list", "gitproviders", namespace=namespace)
        rows = [
            row
            for ident, row in sorted(reading_now().branches.items())
            if ident > after and namespace in ("", row.key.namespace)
        ]
        more = rows[limit - 1].key.id if len(rows) > limit else None
        return Response({"continue": more, "results": [documents.branch(row) for row in rows[:limit]]})


class Branch(View):
    """One branch."""

    @extend_schema(operation_id="readBranch", responses=documents.BranchShape)
    def get(self, request: Request, branch_id: str) -> Response:
        """Read a branch."""
        row = reading_now().branches.get(branch_id)
        if row is None or not may(
            kube(), self.caller, Access("get", "gitproviders", row.key.namespace, row.key.provider)
        ):
            raise Http404
        return Response(documents.branch(row))


def reading_now() -> Reading:
    """The current reading. Raises StoreUnavailable."""
    reading = current()
    if reading.problem:
        raise StoreUnavailable(reading.problem)
    return reading


class ClusterObjects(View):
    """A list of objects as the cluster pages it."""

    def listed(self, resource: str, document: Callable[[dict[str, Any]], dict[str, Any]]) -> Response:
        """One page, in the namespace asked for or in all."""
        namespace, token = self.namespace(), self.text("continue", r"[\x21-\x7e]{0,4096}")
        query = {"limit": str(limit_of(self.request)), **({"continue": token} if token else {})}
        self.authorize("list", resource, namespace=namespace)
        path = own_path(resource, namespace=namespace)
        try:
            found, more = decode_page(kube().raw("GET", path, query=query, timeout=KUBE_SECONDS))
        except KubeInvalid as error:
            if not token:
                raise
            raise ValidationError({"continue": "the cluster does not know it; begin anew"}) from error
        return Response({"continue": more or None, "results": [document(item) for item in found.items]})


class Providers(ClusterObjects):
    """GitProviders."""

    @extend_schema(
        operation_id="listGitProviders",
        parameters=[IN_NAMESPACE, LIMIT, CONTINUE],
        responses=page_of("GitProviderPage", documents.ProviderShape, cluster=True),
    )
    def get(self, request: Request) -> Response:
        """List GitProviders."""
        return self.listed("gitproviders", lambda item: documents.provider(parse_git_provider(item)))


class Provider(View):
    """One GitProvider."""

    @extend_schema(operation_id="readGitProvider", responses=documents.ProviderShape)
    def get(self, request: Request, namespace: str, name: str) -> Response:
        """Read a GitProvider."""
        self.authorize("get", "gitproviders", namespace=namespace, name=name)
        found = kube().get(own_path("gitproviders", namespace=namespace, name=name), timeout=KUBE_SECONDS)
        return Response(documents.provider(parse_git_provider(found)))


class Rules(ClusterObjects):
    """Rules of either kind."""

    KINDS: ClassVar[Mapping[str, str]] = {"WatchRule": "watchrules", "ClusterWatchRule": "clusterwatchrules"}

    @extend_schema(
        operation_id="listRules",
        parameters=[
            IN_NAMESPACE,
            LIMIT,
            CONTINUE,
            parameter("kind", "Which kind; WatchRule unless given", enum=sorted(KINDS)),
        ],
        responses=page_of("RulePage", documents.RuleShape, cluster=True),
    )
    def get(self, request: Request) -> Response:
        """List WatchRules or ClusterWatchRules."""
        kind = request.query_params.get("kind", "WatchRule")
        if kind not in self.KINDS:
            raise ValidationError({"kind": f"one of {', '.join(self.KINDS)}"})
        if kind == "ClusterWatchRule" and self.namespace():
            raise ValidationError({"namespace": "a ClusterWatchRule has none"})
        return self.listed(
            self.KINDS[kind], lambda item: documents.rule(parse_watch_rule({**item, "kind": kind}))
        )
