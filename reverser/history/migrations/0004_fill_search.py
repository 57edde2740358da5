"""Commits of before become searchable."""

from __future__ import annotations

from typing import Any

from django.db import migrations

BATCH = 500


def _fill(apps: Any, _editor: Any) -> None:
    from reverser.history.search import text_of

    commit, text = apps.get_model("history", "Commit"), apps.get_model("history", "CommitText")
    last = 0
    while True:
        rows = list(
            commit.objects.filter(pk__gt=last).order_by("pk").prefetch_related("objects_changed")[:BATCH]
        )
        if not rows:
            return
        last = rows[-1].pk
        text.objects.bulk_create(
            (text(commit=row, text=text_of(row, row.objects_changed.all())) for row in rows),
            ignore_conflicts=True,
        )


class Migration(migrations.Migration):
    dependencies = [
        ("history", "0003_search"),
    ]

    operations = [migrations.RunPython(_fill, migrations.RunPython.noop)]
