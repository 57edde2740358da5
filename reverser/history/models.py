"""The history as rows. Filled from outcomes in the store, each once; never read by the data plane."""

from __future__ import annotations

from django.db import models


class Commit(models.Model):
    """One commit that reached the remote."""

    outcome = models.CharField(max_length=80, unique=True)
    sha = models.CharField(max_length=64, db_index=True)
    provider_namespace = models.CharField(max_length=63)
    provider_name = models.CharField(max_length=253)
    branch = models.CharField(max_length=255)
    target_uid = models.CharField(max_length=64, db_index=True)
    target_namespace = models.CharField(max_length=63)
    target_name = models.CharField(max_length=253)
    author_name = models.CharField(max_length=512, blank=True)
    author_email = models.CharField(max_length=512, blank=True)
    username = models.CharField(max_length=512, blank=True, db_index=True)
    message = models.TextField()
    close_reason = models.CharField(max_length=40, blank=True)
    request_uid = models.CharField(max_length=64, blank=True, db_index=True)
    resource_version = models.CharField(max_length=64, blank=True)
    changes_total = models.PositiveIntegerField(default=0)
    swept = models.PositiveIntegerField(default=0)
    first_seen_at = models.DateTimeField(null=True)
    pushed_at = models.DateTimeField()

    class Meta:
        ordering = ("-pushed_at", "-id")
        indexes = (
            # The last column lets the chart be read from the index alone.
            models.Index(fields=("-pushed_at", "-id", "changes_total"), name="history_commit_newest"),
            models.Index(fields=("changes_total", "id"), name="history_commit_size"),
            models.Index(fields=("author_name",), name="history_commit_author"),
            models.Index(fields=("author_email",), name="history_commit_email"),
            models.Index(fields=("target_namespace", "target_name", "-pushed_at")),
            # Without the last column SQLite would read the whole namespace for a target that seldom commits.
            models.Index(
                fields=("target_namespace", "target_name", "-pushed_at", "-id"), name="history_commit_target"
            ),
            models.Index(fields=("target_namespace", "-pushed_at", "-id"), name="history_commit_namespace"),
        )

    def __str__(self) -> str:
        return f"{self.sha[:12]} {self.subject}"

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.split("\n", 1)[0]


class CommitObject(models.Model):
    """One object that a commit changed."""

    commit = models.ForeignKey(Commit, on_delete=models.CASCADE, related_name="objects_changed")
    operation = models.CharField(max_length=10)
    group = models.CharField(max_length=253, blank=True)
    version = models.CharField(max_length=63, blank=True)
    resource = models.CharField(max_length=253)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    path = models.CharField(max_length=2048, blank=True)
    outcome = models.CharField(max_length=20, blank=True)

    class Meta:
        indexes = (
            models.Index(fields=("resource", "namespace", "name")),
            models.Index(fields=("namespace", "name")),
            models.Index(fields=("name",), name="history_object_name"),
        )

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.operation} {self.resource} {where}"


class CommitText(models.Model):
    """What may be searched of a commit. The database keeps its text index in step with this table: triggers
    on SQLite, a generated column on PostgreSQL (see ``search.py``). A table of its own, because SQLite copies
    a table to alter it and would lose its triggers; this one is never altered.
    """

    commit = models.OneToOneField(
        Commit, on_delete=models.CASCADE, primary_key=True, related_name="searchable"
    )
    text = models.TextField()

    def __str__(self) -> str:
        return self.text[:80]


class Incident(models.Model):
    """An outcome that is not a commit and that somebody may ask about: refused, void, held, unsealed."""

    outcome = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=20, db_index=True)
    provider_namespace = models.CharField(max_length=63)
    provider_name = models.CharField(max_length=253)
    branch = models.CharField(max_length=255)
    target_uid = models.CharField(max_length=64, db_index=True)
    target_namespace = models.CharField(max_length=63)
    target_name = models.CharField(max_length=253)
    reason = models.CharField(max_length=80, blank=True)
    detail = models.TextField(blank=True)
    changes_total = models.PositiveIntegerField(default=0)
    happened_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ("-happened_at", "-id")
        indexes = (models.Index(fields=("target_namespace", "target_name", "-happened_at")),)

    def __str__(self) -> str:
        return f"{self.kind} {self.target_namespace}/{self.target_name}: {self.reason}"


class SaveRequest(models.Model):
    """A CommitRequest and how it ended; kept after the object is gone."""

    uid = models.CharField(max_length=64, unique=True)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    target_uid = models.CharField(max_length=64, blank=True)
    target_name = models.CharField(max_length=253)
    submitter = models.CharField(max_length=512, blank=True)
    message = models.TextField(blank=True)
    outcome = models.CharField(max_length=40, blank=True, db_index=True)
    detail = models.TextField(blank=True)
    branch = models.CharField(max_length=255, blank=True)
    sha = models.CharField(max_length=64, blank=True)
    requested_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        ordering = ("-id",)
        verbose_name = "commit request"
        indexes = (models.Index(fields=("namespace", "target_name", "-id")),)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} {self.outcome or 'waiting'}"


class TargetState(models.Model):
    """The last status of a GitTarget, as its controller wrote it."""

    uid = models.CharField(max_length=64, unique=True)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    provider = models.CharField(max_length=253)
    url = models.CharField(max_length=2048, blank=True)
    branch = models.CharField(max_length=255)
    path = models.CharField(max_length=2048)
    ready = models.CharField(max_length=10, default="Unknown")
    reconciling = models.CharField(max_length=10, default="Unknown")
    stalled = models.CharField(max_length=10, default="Unknown")
    reason = models.CharField(max_length=80, blank=True)
    message = models.TextField(blank=True)
    conditions = models.JSONField(default=list)
    streams_ready = models.PositiveIntegerField(default=0)
    streams_total = models.PositiveIntegerField(default=0)
    last_push_at = models.DateTimeField(null=True)
    retention = models.JSONField(null=True)
    removed_at = models.DateTimeField(null=True, db_index=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("namespace", "name")
        verbose_name = "git target"
        permissions = (("operate_targetstate", "Can save, check again, replay and wake"),)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class OpenIdentity(models.Model):
    """The OpenID Connect identity of an account: an issuer's subject never changes, a name may."""

    user = models.OneToOneField("auth.User", on_delete=models.CASCADE, related_name="open_identity")
    issuer = models.CharField(max_length=512)
    subject = models.CharField(max_length=255)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("issuer", "subject"), name="history_open_identity"),)

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class ProjectorPosition(models.Model):
    """How far the outcomes stream has been projected."""

    stream = models.CharField(max_length=80, unique=True)
    position = models.CharField(max_length=40, default="0-0")
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.stream} at {self.position}"
