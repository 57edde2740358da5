"""Settings as command-line flags, for the commands that start processes.

Django reads its settings before a command parses its arguments, so flags are turned into environment
variables first; child processes then inherit them too.
"""

from __future__ import annotations

import argparse
from collections.abc import MutableMapping, Sequence
from typing import Any

from reverser.config import SETTINGS, flag_name, variable_name

COMMANDS_WITH_FLAGS = frozenset({"up", "demo", "watch", "serve", "doctor"})


def add_setting_flags(parser: argparse.ArgumentParser | Any) -> None:
    """Offer every setting as a flag; the value is applied by ``apply_setting_flags``.

    The usage line does not repeat all of them: it would fill the screen before the first word of help, and
    hide the message of a mistyped argument.
    """
    parser.usage = "%(prog)s [options] [settings]"
    group = parser.add_argument_group("settings", "each is also an environment variable, REVERSER_...")
    for name, setting in SETTINGS.items():
        default = f" (default {setting.default})" if setting.default else ""
        text = f"{setting.help}{default}".replace("%", "%%")
        if setting.secret:
            text += f"; prefer {variable_name(name)} or {variable_name(name)}_FILE: arguments are visible"
        is_switch = setting.default in {"true", "false"}
        group.add_argument(
            flag_name(name),
            dest=f"setting_{name}",
            metavar="BOOL" if is_switch else "VALUE",
            nargs="?" if is_switch else None,
            const="true" if is_switch else None,
            help=text,
        )


def apply_setting_flags(argv: Sequence[str], environ: MutableMapping[str, str]) -> None:
    """Copy settings given as flags into ``environ``; other arguments are left for the command."""
    if len(argv) < 2 or argv[1] not in COMMANDS_WITH_FLAGS:
        return
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_setting_flags(parser)
    known, _rest = parser.parse_known_args(list(argv[2:]))
    for name in SETTINGS:
        value = getattr(known, f"setting_{name}")
        if value is not None:
            environ[variable_name(name)] = value
