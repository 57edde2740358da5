"""Errors of commit message templates."""

from __future__ import annotations

from reverser.errors import RefusedError


class TemplateError(RefusedError):
    """A template cannot be used. ``phase`` is ``parse`` or ``execute``; the text names the construct."""

    def __init__(self, message: str, *, phase: str) -> None:
        super().__init__("TemplateInvalid", message)
        self.phase = phase


def parse_error(message: str, line: int) -> TemplateError:
    """An error of the text itself; ``line`` counts from 1."""
    return TemplateError(f"line {line}: {message}", phase="parse")


def execute_error(message: str, line: int) -> TemplateError:
    """An error of evaluation: an unknown field, a wrong type, a limit."""
    return TemplateError(f"line {line}: {message}", phase="execute")
