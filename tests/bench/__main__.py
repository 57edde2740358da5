"""Run the benchmarks."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path

from tests.bench.options import Options
from tests.bench.report import Report

SECTIONS = (
    "micro",
    "writer",
    "latency",
    "pipeline",
    "mix",
    "sealing",
    "audit",
    "live",
    "watches",
    "fairness",
    "history",
)
"""Each is a module of this package with a function ``run``."""


def main(argv: list[str]) -> int:
    """Run the sections; exit code 1 where a bar is missed or a section broke off."""
    options, wanted, path = _parse(argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything is stopped with it
    report = Report()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        os.environ.setdefault("REVERSER_STATE_DIR", str(Path(folder) / "settings"))
        for number, section in enumerate(wanted, 1):
            passed = (time.monotonic() - began) / 60
            print(f"-- {section} ({number} of {len(wanted)}, after {passed:.1f} min)", flush=True)
            _run(section, report, Path(folder) / section, options)
    report.write(path)
    print(f"-- the bars, after {(time.monotonic() - began) / 60:.1f} min")
    print(report.summary())
    print(f"written to {path}")
    return 0 if report.passed else 1


def _run(section: str, report: Report, folder: Path, options: Options) -> None:
    """One that breaks off is told, and the next goes on."""
    folder.mkdir()
    report.section = section
    began = time.monotonic()
    try:
        import_module(f"tests.bench.{section}").run(report, folder, options)
    except Exception as error:
        traceback.print_exc()
        report.broken[section] = f"{type(error).__name__}: {error}"
    report.seconds[section] = time.monotonic() - began
    shutil.rmtree(folder, ignore_errors=True)


def _parse(argv: list[str]) -> tuple[Options, list[str], Path]:
    usual = Options()
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure the product on this machine, beside floors of plain tools that are taken in the "
        "same run. With KUBECONFIG set, latency, pipeline, mix, sealing and fairness are measured on that "
        "cluster instead of the sandbox, in namespaces that are removed afterwards.",
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"any of {', '.join(SECTIONS)}; all if none"
    )
    for name, kind, words in (
        ("objects", int, "objects of a first replay"),
        ("small", int, "objects of the small target beside it"),
        ("rate", int, "changes a second of the live load"),
        ("seconds", float, "how long the live load lasts"),
        ("samples", int, "single changes whose latency is taken"),
        ("secrets", int, "Secrets that are sealed"),
        ("branches", int, "branches that share four threads"),
        ("commits", int, "commits in the history"),
    ):
        default = getattr(usual, name)
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{words} (default {default:g})")
    sizes = ",".join(map(str, usual.sizes))
    parser.add_argument(
        "--sizes", default=sizes, help=f"files in the target for the cost of one edit (default {sizes})"
    )
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), help="where the JSON goes")
    given = vars(parser.parse_args(argv))
    wanted, path = given.pop("sections") or list(SECTIONS), given.pop("json")
    unknown = set(wanted) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    given["sizes"] = tuple(map(int, given["sizes"].split(",")))
    return Options(**given), wanted, path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
