"""The addresses of REST."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView

from reverser.rest import events, problems, requests, views


class NamespaceConverter(StringConverter):
    """The name of a namespace."""

    regex = views.NAMESPACE.replace("(", "(?:")


class NameConverter(StringConverter):
    """The name of an object."""

    regex = views.NAME.replace("(", "(?:")


class ShaConverter(StringConverter):
    """The id of a commit."""

    regex = "[0-9a-f]{40,64}"


class BranchConverter(StringConverter):
    """The id of a branch."""

    regex = "[0-9a-f]{20}"


register_converter(NamespaceConverter, "namespace")
register_converter(NameConverter, "objectname")
register_converter(ShaConverter, "sha")
register_converter(BranchConverter, "branchid")

urlpatterns = [
    path("schema", SpectacularJSONAPIView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    path("v1/gittargets", views.Targets.as_view()),
    path("v1/gittargets/<namespace:namespace>/<objectname:name>", views.Target.as_view()),
    path("v1/streams", views.Streams.as_view()),
    path("v1/gitproviders", views.Providers.as_view()),
    path("v1/gitproviders/<namespace:namespace>/<objectname:name>", views.Provider.as_view()),
    path("v1/rules", views.Rules.as_view()),
    path("v1/commits", views.Commits.as_view()),
    path("v1/commits/<sha:sha>", views.OneCommit.as_view()),
    path("v1/branches", views.Branches.as_view()),
    path("v1/branches/<branchid:branch_id>", views.Branch.as_view()),
    path("v1/commitrequests", requests.Requests.as_view()),
    path(
        "v1/commitrequests/<namespace:namespace>/<objectname:name>",
        requests.OneRequest.as_view(),
        name="commitrequest",
    ),
    path("v1/events", events.Events.as_view()),
    path("<path:path>", problems.not_found),
]
