"""What the prune mode keeps. It may be null: a version before this one writes rows without it."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("history", "0006_target_index")]

    operations = [
        migrations.AddField(model_name="targetstate", name="retention", field=models.JSONField(null=True))
    ]
