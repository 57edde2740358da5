"""``manage.py watch`` with shorter durations: ``python -m tests.watchers.replica '{"lease": 3}'``.

The product's own durations are fixed. A test that needs real processes, but not a minute of real time, gives
the fields of ``Timing`` and ``removal_grace`` that are to be shorter, in seconds.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial

from django.core.management import execute_from_command_line

from watchers import registry, runtime
from watchers.timing import Timing


def main() -> None:
    """Runs until SIGTERM."""
    shorter = json.loads(sys.argv[1])
    registry.REMOVAL_GRACE = float(shorter.pop("removal_grace", registry.REMOVAL_GRACE))
    setattr(runtime, "Timing", partial(Timing, **shorter))  # noqa: B010
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    execute_from_command_line(["manage.py", "watch"])


if __name__ == "__main__":
    main()
