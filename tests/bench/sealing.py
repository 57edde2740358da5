"""Secrets on a first replay, beside as many plain runs of sops over the same files, equally parallel."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pyrage

from reverser.trust.sealing import SECRET_REGEX, find_sops
from tests.bench.installation import WAIT_SECONDS, installation, settled
from tests.bench.options import Options
from tests.bench.report import Report, timed
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace, until

SECRETS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}


def run(report: Report, folder: Path, options: Options) -> None:
    """First replay of so many Secrets, a restart, a flushed store, and a changed recipient set."""
    objects = options.secrets
    recipients = [str(pyrage.x25519.Identity.generate().to_public()) for _ in range(2)]
    with installation(folder) as (operator, space):
        bodies = [_body(number) for number in range(objects)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda body: space.kube.create(space.path("secrets"), body), bodies))
        floor = _plain_runs(bodies, folder / "floor", recipients[0])
        report.add(f"floor: {objects} plain runs of sops", floor, "s", note=f"{_parallel()} at a time")
        space.provider()
        space.target(encryption=_encryption(recipients[:1]))
        until(lambda: space.is_condition("gittargets", "gt", "Validated", "True"), "Validated", WAIT_SECONDS)
        with timed() as first:
            space.rule((SECRETS,))
            until(lambda: space.git.tip(), "the first commit", WAIT_SECONDS)
        report.add(f"first replay of {objects} Secrets", first.wall, "s", note=space.subjects()[0])
        report.add("first replay of Secrets / plain runs of sops", first.wall / floor, "x", bar=3.0)
        _unchanged(report, operator, space)
        commits = len(space.subjects())
        with timed() as changed:
            space.kube.patch(
                f"/apis/configbutler.ai/v1alpha3/namespaces/{space.namespace}/gittargets/gt",
                {"spec": {"encryption": _encryption(recipients)}},
            )
            until(lambda: len(space.subjects()) > commits, "sealed for two", WAIT_SECONDS)
        report.add("another recipient: all sealed again / plain runs", changed.wall / floor, "x", bar=3.0)
        settled(operator, space)
        report.add("commits for it", len(space.subjects()) - commits, "", bar=1.0)


def _unchanged(report: Report, operator: Operator, space: Workspace) -> None:
    """A restart seals nothing again; a store that lost its memory seals each Secret once."""
    settled(operator, space)
    for name, flush, bar in (("restart", False, 0.0), ("restart with an empty store", True, 1.0)):
        tip, commits = space.git.tip(), len(space.subjects())
        operator.stop()
        if flush:
            shutil.rmtree(operator.state / "valkey" / "appendonlydir")
        operator.start()
        if flush:
            until(lambda tip=tip: space.git.tip() != tip, "all sealed once more", WAIT_SECONDS)  # type: ignore[misc]
        settled(operator, space)
        report.add(f"{name}: commits that seal again", len(space.subjects()) - commits, "", bar=bar)


def _encryption(recipients: list[str]) -> dict[str, Any]:
    return {"provider": "sops", "age": {"enabled": True, "recipients": {"publicKeys": recipients}}}


def _body(number: int) -> dict[str, Any]:
    data = {"password": f"value-{number}", "file": "x" * 700}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    meta = {"name": f"s-{number:05}"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": encoded}


def _parallel() -> int:
    return max(2, os.cpu_count() or 2)


def _plain_runs(bodies: list[dict[str, Any]], folder: Path, recipient: str) -> float:
    """Wall seconds of ``sops --encrypt`` over one file each, as many at a time as the product runs."""
    folder.mkdir()
    paths = []
    for body in bodies:
        paths.append(folder / f"{body['metadata']['name']}.yaml")
        paths[-1].write_bytes(orjson.dumps(body))
    options = ["--age", recipient, "--encrypted-regex", SECRET_REGEX, "--input-type", "yaml"]
    command = [str(find_sops()), "--disable-version-check", "--encrypt", "--output-type", "yaml", *options]

    def one(path: Path) -> None:
        done = subprocess.run([*command, str(path)], check=True, capture_output=True)
        path.with_suffix(".sops.yaml").write_bytes(done.stdout)

    began = time.perf_counter()
    with ThreadPoolExecutor(_parallel()) as pool:
        list(pool.map(one, paths))
    return time.perf_counter() - began
