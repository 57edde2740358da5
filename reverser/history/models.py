"""What happened, as rows. Filled from outcomes in the store, each once; never read by the data plane."""

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
    pushed_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ("-pushed_at", "-id")
        indexes = (models.Index(fields=("target_namespace", "target_name", "-pushed_at")),)

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
        )

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.operation} {self.resource} {where}"


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
    removed_at = models.DateTimeField(null=True, db_index=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("namespace", "name")
        verbose_name = "git target"
        permissions = (("operate_targetstate", "Can save, check again, replay and wake"),)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ProjectorPosition(models.Model):
    """How far the outcomes stream has been projected."""

    stream = models.CharField(max_length=80, unique=True)
    position = models.CharField(max_length=40, default="0-0")
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.stream} at {self.position}"
