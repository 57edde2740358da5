"""The newest commits of a target in the order of the lists, for targets that seldom commit."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("history", "0005_openidentity")]

    operations = [
        migrations.AddIndex(
            model_name="commit",
            index=models.Index(
                fields=["target_namespace", "target_name", "-pushed_at", "-id"], name="history_commit_target"
            ),
        ),
    ]
