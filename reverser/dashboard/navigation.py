"""The side bar, and the style sheet and script beside the theme's own."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse, reverse_lazy


def stylesheet(_request: HttpRequest) -> str:
    """The few rules that the theme lacks."""
    return static("reverser/dashboard.css")


def keyboard(_request: HttpRequest) -> str:
    """The script that makes the theme's controls reachable without a mouse."""
    return static("reverser/keyboard.js")


def favicon(_request: HttpRequest) -> str:
    """The icon of the tab."""
    return static("reverser/favicon.svg")


def _item(title: str, icon: str, view: str, permission: str) -> dict[str, Any]:
    def allowed(request: HttpRequest) -> bool:
        return request.user.has_perm(permission)

    return {"title": title, "icon": icon, "link": reverse_lazy(f"admin:{view}"), "permission": allowed}


def sections(_request: HttpRequest) -> list[dict[str, Any]]:
    """The items of the side bar; those that a person may not see are left out."""
    overview = {
        **_item("Overview", "monitor_heart", "index", "history.view_targetstate"),
        "active": lambda request: request.path == reverse("admin:index"),
    }
    return [
        {
            "items": [
                overview,
                _item(
                    "Targets", "folder_managed", "history_targetstate_changelist", "history.view_targetstate"
                ),
                _item("Commits", "commit", "history_commit_changelist", "history.view_commit"),
                _item(
                    "Commit requests", "save", "history_saverequest_changelist", "history.view_saverequest"
                ),
                _item("Incidents", "report", "history_incident_changelist", "history.view_incident"),
                _item("Branches", "account_tree", "branches", "history.view_targetstate"),
            ]
        },
        {
            "title": "Access",
            "separator": True,
            "items": [
                _item("People", "person", "auth_user_changelist", "auth.view_user"),
                _item("Groups", "group", "auth_group_changelist", "auth.view_group"),
                _item("Actions taken", "history_edu", "admin_logentry_changelist", "admin.view_logentry"),
            ],
        },
    ]
