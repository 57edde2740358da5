"""Run the benchmarks."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.bench.report import Report

SECTIONS = ("micro", "writer", "pipeline", "mix", "sealing", "audit", "live", "fairness", "history")


def main(argv: list[str]) -> int:
    """Parse the command line, run the sections, write the JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure the product on this machine, beside floors made of plain tools. With KUBECONFIG "
        "set, the pipeline figures are taken on that cluster instead of the sandbox.",
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"any of {', '.join(SECTIONS)}; all if none"
    )
    parser.add_argument(
        "--objects", type=int, default=10_000, help="objects of the first replay (default 10000)"
    )
    parser.add_argument(
        "--sizes",
        default="100,1000,10000,50000",
        help="files in the target for the cost of one edit (default 100,1000,10000,50000)",
    )
    parser.add_argument("--rate", type=int, default=1000, help="changes a second of the live load")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the live load lasts")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), help="where the JSON goes")
    options = parser.parse_args(argv)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    wanted = options.sections or list(SECTIONS)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        os.environ.setdefault("REVERSER_STATE_DIR", str(Path(folder) / "settings"))
        for section in wanted:
            print(f"-- {section}", flush=True)
            _run(section, report, Path(folder), options)
    report.write(options.json)
    print(f"written to {options.json}")
    return 0


def _run(section: str, report: Report, folder: Path, options: argparse.Namespace) -> None:
    place = folder / section
    place.mkdir()
    if section == "micro":
        from tests.bench import micro

        micro.run(report)
    elif section == "writer":
        from tests.bench import writer

        writer.run(report, [int(size) for size in options.sizes.split(",")])
    elif section == "pipeline":
        from tests.bench import pipeline

        pipeline.run(report, place, options.objects)
    elif section == "sealing":
        from tests.bench import sealing

        sealing.run(report, place, min(options.objects, 1_000))
    elif section == "mix":
        from tests.bench import mix

        mix.run(report, place, options.objects)
    elif section == "audit":
        from tests.bench import audit

        audit.run(report, place)
    elif section == "live":
        from tests.bench import live

        live.run(report, place, rate=options.rate, seconds=options.seconds)
    elif section == "fairness":
        from tests.bench import fairness

        fairness.run(report, place)
    elif section == "history":
        from tests.bench import history

        history.run(report, place)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
