"""``manage.py rbac --people`` prints what the two groups of the admin may do in the cluster."""

from __future__ import annotations

import dataclasses
from io import StringIO

import pytest
import yaml
from django.conf import settings
from django.core.management import call_command

from reverser.rest.peopleroles import people_roles


def test_printed_for_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups have the prefix of the settings; viewers read, operators also ask for commits; no more."""
    config = dataclasses.replace(settings.CONFIG, session_user_prefix="people:")
    monkeypatch.setattr(settings, "CONFIG", config)
    out = StringIO()

    call_command("rbac", "--people", stdout=out)

    found = list(yaml.safe_load_all(out.getvalue()))
    assert found == people_roles("people:")
    subjects = [one["subjects"][0]["name"] for one in found if one["kind"] == "ClusterRoleBinding"]
    assert subjects == ["people:viewer", "people:operator"]
    rights = {
        one["metadata"]["name"]: {verb for rule in one["rules"] for verb in rule["verbs"]}
        for one in found
        if one["kind"] == "ClusterRole"
    }
    assert rights == {
        "gitops-reverser-viewer": {"get", "list"},
        "gitops-reverser-operator": {"get", "list", "create"},
    }
