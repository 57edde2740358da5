"""Run a soak: ``python -m tests.soak --seconds 600``."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.soak.plan import Fault, fault_of
from tests.soak.run import soak


def main(argv: list[str]) -> int:
    """Exit code 1 where a change was lost, invented, doubled, put out of order or under a wrong name, or
    where a Secret stands somewhere in plain text.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Faults at random against an installation with several replicas; the API server's own "
        "record of every object is compared with Git. The same seed makes the same changes and faults.",
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to go on (default 600)")
    parser.add_argument("--seed", type=int, help="repeat an earlier run")
    parser.add_argument(
        "--longest-pause", type=float, default=20.0, help="longest time that something is stopped (s)"
    )
    parser.add_argument(
        "--longest-take-over",
        type=float,
        default=20.0,
        help="most seconds from a kill, a pause or a fail-over until a change of then is in Git (default 20)",
    )
    parser.add_argument("--only", default="", help="faults to choose from, by name, with commas between")
    parser.add_argument("--list-faults", action="store_true", help="print the names of all faults and end")
    parser.add_argument("--folder", type=Path, help="where logs and repositories are kept (default: nowhere)")
    parser.add_argument("--json", type=Path, default=Path("build/soak.json"), help="where the JSON goes")
    options = parser.parse_args(argv)
    if options.list_faults:
        for fault in Fault:
            print(f"{fault.word:20} {fault}")
        return 0
    try:
        only = frozenset(map(fault_of, options.only.split(","))) if options.only else frozenset(Fault)
    except ValueError as error:
        parser.error(str(error))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything is stopped with it
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        result = soak(
            folder,
            seed=seed,
            seconds=options.seconds,
            longest_pause=options.longest_pause,
            only=only,
            most_take_over=options.longest_take_over,
            say=lambda line: print(line, flush=True),
        )
    print(result.table())
    for problem in result.verdict.problems:
        print(problem)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result.document(), indent=2) + "\n", encoding="utf-8")
    return 0 if result.verdict.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
