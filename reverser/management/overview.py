"""What ``manage.py`` shows when it is asked for nothing, or for help: the commands of this project.

Django's own page names forty commands without a word about any; the ten that matter drown in it. They are
still there, on the page that ``manage.py help --commands`` prints.
"""

from __future__ import annotations

import re
import textwrap

import django
from django.core.management import get_commands, load_command_class

OWN = "reverser"
NAME_WIDTH = 18


def overview() -> str:
    """Each command of our own with the first sentence of its help."""
    django.setup()
    lines = ["usage: manage.py COMMAND [options]", ""]
    for name in sorted(name for name, app in get_commands().items() if app == OWN):
        sentence = re.split(r"(?<=[.;])\s", load_command_class(OWN, name).help, maxsplit=1)[0].rstrip(".;")
        lines += textwrap.wrap(
            sentence, 100, initial_indent=f"  {name:<{NAME_WIDTH}}", subsequent_indent=" " * (NAME_WIDTH + 2)
        )
    lines += [
        "",
        "manage.py COMMAND --help tells more of each, manage.py help --commands names those of Django, too.",
        "",
    ]
    return "\n".join(lines)
