"""The text of commits, the databases' own indexes on it, and the orders in which commits are listed."""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

_SQLITE = (
    "CREATE VIRTUAL TABLE history_commitsearch USING fts5("
    "text, content='history_committext', content_rowid='commit_id',"
    " tokenize='unicode61 remove_diacritics 0')",
    "CREATE TRIGGER history_committext_added AFTER INSERT ON history_committext BEGIN"
    " INSERT INTO history_commitsearch (rowid, text) VALUES (new.commit_id, new.text); END",
    "CREATE TRIGGER history_committext_removed AFTER DELETE ON history_committext BEGIN"
    " INSERT INTO history_commitsearch (history_commitsearch, rowid, text)"
    " VALUES ('delete', old.commit_id, old.text); END",
    "CREATE TRIGGER history_committext_changed AFTER UPDATE ON history_committext BEGIN"
    " INSERT INTO history_commitsearch (history_commitsearch, rowid, text)"
    " VALUES ('delete', old.commit_id, old.text);"
    " INSERT INTO history_commitsearch (rowid, text) VALUES (new.commit_id, new.text); END",
)
_POSTGRESQL = (
    "ALTER TABLE history_committext ADD COLUMN document tsvector GENERATED ALWAYS AS"
    " (to_tsvector('simple'::regconfig, regexp_replace(text, '(^| )', '\\1x', 'g'))) STORED",
    "CREATE INDEX history_committext_document ON history_committext USING gin (document)",
)


def _index(_apps: Any, editor: Any) -> None:
    for statement in _SQLITE if editor.connection.vendor == "sqlite" else _POSTGRESQL:
        editor.execute(statement, params=None)


def _drop(_apps: Any, editor: Any) -> None:
    # What hangs on history_committext goes with that table.
    if editor.connection.vendor == "sqlite":
        editor.execute("DROP TABLE history_commitsearch", params=None)


class Migration(migrations.Migration):
    dependencies = [
        ("history", "0002_permissions_and_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="CommitText",
            fields=[
                (
                    "commit",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="searchable",
                        serialize=False,
                        to="history.commit",
                    ),
                ),
                ("text", models.TextField()),
            ],
        ),
        migrations.RunPython(_index, _drop),
        migrations.AlterField(model_name="commit", name="pushed_at", field=models.DateTimeField()),
        migrations.AddIndex(
            model_name="commit",
            index=models.Index(fields=["-pushed_at", "-id", "changes_total"], name="history_commit_newest"),
        ),
        migrations.AddIndex(
            model_name="commit",
            index=models.Index(fields=["changes_total", "id"], name="history_commit_size"),
        ),
        migrations.AddIndex(
            model_name="commit",
            index=models.Index(fields=["author_name"], name="history_commit_author"),
        ),
        migrations.AddIndex(
            model_name="commit",
            index=models.Index(fields=["author_email"], name="history_commit_email"),
        ),
        migrations.AddIndex(
            model_name="commit",
            index=models.Index(
                fields=["target_namespace", "-pushed_at", "-id"], name="history_commit_namespace"
            ),
        ),
        migrations.AddIndex(
            model_name="commitobject",
            index=models.Index(fields=["name"], name="history_object_name"),
        ),
    ]
