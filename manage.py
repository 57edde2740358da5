#!/usr/bin/env python3
"""The entry point: ``manage.py demo`` to see it work, ``up`` to run it, ``help`` for the rest."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Apply settings given as flags, then hand over to Django. Unusable settings end with exit code 2."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    from reverser.errors import SettingsInvalid
    from reverser.flags import apply_setting_flags

    try:
        apply_setting_flags(sys.argv, os.environ)
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except SettingsInvalid as error:
        for problem in error.problems:
            sys.stderr.write(f"error: {problem}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
