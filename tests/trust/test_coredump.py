"""A crash leaves nothing of the process' memory behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = re.compile(r"Max core file size +([01]) +([01]) ")


@pytest.mark.parametrize(
    "start",
    [
        "import sys, manage; sys.argv = ['manage.py', 'help']; sys.stdout = sys.stderr; manage.main()",
        "import reverser.celery",
    ],
    ids=["manage", "celery"],
)
def test_no_process_dumps_its_memory(start: str) -> None:
    """106: whichever way a process starts, neither it nor its children may leave a core dump."""
    script = (
        f"{start}\nimport subprocess, sys\nsys.stdout = sys.__stdout__\n"
        "print(open('/proc/self/limits').read())\n"
        "print(subprocess.run(['cat', '/proc/self/limits'], capture_output=True, text=True).stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True, timeout=120
    )
    assert len(LIMIT.findall(done.stdout)) == 2, done.stdout
