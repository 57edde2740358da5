"""Settings as flags of the commands that start processes."""

from __future__ import annotations

import argparse

import pytest
from django.core.management import get_commands

from reverser.config import SETTINGS, flag_name, variable_name
from reverser.flags import COMMANDS_WITH_FLAGS, add_setting_flags, apply_setting_flags
from reverser.management.overview import overview


@pytest.mark.parametrize("command", sorted(COMMANDS_WITH_FLAGS))
def test_flags_win_over_the_environment(command: str) -> None:
    """A flag replaces the variable, so that child processes see it too; other arguments stay alone."""
    environ = {"REVERSER_STATE_DIR": "/a", "REVERSER_LOG_LEVEL": "debug"}
    apply_setting_flags(["manage.py", command, "--state-dir", "/b", "--verbosity", "2"], environ)
    assert environ == {"REVERSER_STATE_DIR": "/b", "REVERSER_LOG_LEVEL": "debug"}


def test_a_mistyped_flag_is_told_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The usage line does not list every setting: it would hide what is wrong."""
    parser = argparse.ArgumentParser(prog="manage.py up")
    add_setting_flags(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--http-adr", "x"])
    assert capsys.readouterr().err.splitlines() == [
        "usage: manage.py up [options] [settings]",
        "manage.py up: error: unrecognized arguments: --http-adr x",
    ]


def test_the_page_without_a_command_shows_ours() -> None:
    """Every command of this project with a sentence, none of Django's."""
    page = overview()
    own = [name for name, app in get_commands().items() if app == "reverser"]
    assert "doctor" in own
    shown = [line.split()[0] for line in page.splitlines() if line[:2] == "  " and line[2:3] != " "]
    assert shown == sorted(own)
    assert all(len(line) <= 100 for line in page.splitlines())


def test_a_switch_needs_no_value() -> None:
    """``--audit-insecure`` alone means true; with a value it means that."""
    environ: dict[str, str] = {}
    apply_setting_flags(["manage.py", "up", "--audit-insecure", "--noise-filter=false"], environ)
    assert environ == {"REVERSER_AUDIT_INSECURE": "true", "REVERSER_NOISE_FILTER": "false"}


def test_other_commands_take_no_settings() -> None:
    """A flag of Django's own commands is theirs."""
    environ: dict[str, str] = {}
    apply_setting_flags(["manage.py", "migrate", "--state-dir", "/b"], environ)
    assert environ == {}


def test_every_setting_has_a_flag_that_names_its_variable() -> None:
    """The help of a secret setting names the variable to prefer."""
    parser = argparse.ArgumentParser()
    add_setting_flags(parser)
    words = parser.format_help()
    assert [name for name in SETTINGS if flag_name(name) not in words] == []
    joined = "".join(words.split())
    assert [name for name, row in SETTINGS.items() if row.secret and variable_name(name) not in joined] == []
