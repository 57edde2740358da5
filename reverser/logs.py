"""Logs: one line per event worth an operator's time, as text for people or JSON for machines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

import structlog

_STACKS = frozenset({"exc_info", "exception", "stack", "stack_info"})
# One line per task or request is of no use to an operator.
_CHATTY = (
    "kombu",
    "amqp",
    "urllib3",
    "aiohttp.access",
    "celery.app.trace",
    "celery.beat",
    "celery.worker.strategy",
    "celery.utils.functional",
    "asyncio",
)


def _in_one_line(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Texts of others (a database, a broker, Git) may have several lines; a log line is one. Stacks stay."""
    for name, value in event.items():
        if isinstance(value, str) and "\n" in value and name not in _STACKS:
            event[name] = " ".join(value.split())
    return event


def configure(options: Mapping[str, Any]) -> None:
    """Route every logger of the process through structlog to standard error."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _in_one_line,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if options.get("format") == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    level = str(options.get("level", "info")).upper()
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    if level != "DEBUG":
        for noisy in _CHATTY:
            logging.getLogger(noisy).setLevel("WARNING")
