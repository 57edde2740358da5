"""The two groups of people: viewers read everything, operators may also act. Kept after every migration."""

from __future__ import annotations

from typing import Any

VIEWER = "viewer"
OPERATOR = "operator"
OPERATE = "operate_targetstate"


def ensure_groups(**_signal: Any) -> None:
    """Create the groups and give them what they need; permissions added by a person stay."""
    from django.contrib.auth.models import Group, Permission

    mine = Permission.objects.filter(content_type__app_label="history")
    views = list(mine.filter(codename__startswith="view_"))
    for name, permissions in ((VIEWER, views), (OPERATOR, [*views, *mine.filter(codename=OPERATE)])):
        group, _created = Group.objects.get_or_create(name=name)
        group.permissions.add(*permissions)
