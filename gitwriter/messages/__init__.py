"""Commit messages: the supported subset of Go's text/template, its variables, its defaults."""

from gitwriter.messages.templates import (
    DEFAULTS,
    EventValues,
    GroupValues,
    ReconcileValues,
    Rendered,
    ResourceName,
    Template,
    TemplateKind,
    compile_template,
    message_bytes,
    render_message,
    validate_templates,
)

__all__ = [
    "DEFAULTS",
    "EventValues",
    "GroupValues",
    "ReconcileValues",
    "Rendered",
    "ResourceName",
    "Template",
    "TemplateKind",
    "compile_template",
    "message_bytes",
    "render_message",
    "validate_templates",
]
