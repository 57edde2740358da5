#!/usr/bin/env python3
"""The entry point: ``manage.py demo`` to see it work, ``up`` to run it, ``help`` for the rest."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

OLDEST = (3, 11)
ASKS_FOR_HELP: tuple[list[str], ...] = ([], ["help"], ["--help"], ["-h"])
OWN = frozenset({"reverser", "webhooks", "watchers", "gitwriter"})


def main() -> int:
    """Apply settings given as flags, then hand over to Django. Unusable settings end with exit code 2."""
    if sys.version_info < OLDEST:
        found = f"{sys.version_info[0]}.{sys.version_info[1]}"
        sys.stderr.write(
            f"error: Python 3.11 or newer is needed, this is {found}; name one with make PYTHON=...\n"
        )
        return 2
    try:
        return _run()
    except ImportError as error:
        if (error.name or "").partition(".")[0] in OWN:
            raise
        sys.stderr.write(
            f"error: {error}; run `make demo` once, or install requirements.txt for {sys.executable}\n"
        )
        return 2


def _run() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    from reverser.errors import ReverserError, SettingsInvalid
    from reverser.flags import apply_setting_flags
    from reverser.trust.coredump import forbid_core_dumps

    forbid_core_dumps()
    try:
        if sys.argv[1:] in ASKS_FOR_HELP:
            from reverser.management.overview import overview

            sys.stdout.write(overview())
            return 0
        apply_setting_flags(sys.argv, os.environ)
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except SettingsInvalid as error:
        for problem in error.problems:
            sys.stderr.write(f"error: {problem}\n")
        return 2
    except ReverserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def leave(code: str | int | None) -> NoReturn:
    """End the process. A supervisor has nothing left to tidy up when its children are gone, and taking the
    interpreter apart costs half a second of processor time: on a busy machine many seconds after Ctrl-C.
    """
    if sys.argv[1:2] in (["up"], ["demo"]) and not isinstance(code, str):
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)


if __name__ == "__main__":
    try:
        leave(main())
    except SystemExit as ended:
        leave(ended.code)
