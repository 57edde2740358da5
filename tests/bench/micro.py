"""Figures of single parts: sanitizer, editor, emitter, index."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import yaml

from gitwriter.manifests import Inventory, MemoryTree
from gitwriter.manifests.editing import edit_document
from gitwriter.manifests.emitter import render_document
from tests.bench.report import Report, timed

SECONDS = 1.5
INDEX_FILES = 10_000


def _rate(work: Callable[[int], object]) -> float:
    """Calls a second, by CPU."""
    count, began = 0, time.process_time()
    while time.process_time() - began < SECONDS:
        work(count)
        count += 1
    return count / (time.process_time() - began)


def _deployment() -> dict[str, Any]:
    env = [{"name": f"SETTING_{number}", "value": f"value {number}"} for number in range(20)]
    container = {
        "name": "web",
        "image": "registry.example/web:1.0",
        "env": env,
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


def run(report: Report) -> None:
    """Measure each part alone."""
    from watchers.sanitize import sanitize

    live = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "a",
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"app": "a"},
            "managedFields": [{"manager": "kubectl", "operation": "Update"}],
        },
        "data": {"key": "value", "other": "x" * 200},
    }
    report.add("sanitizer", _rate(lambda _n: sanitize(live)), "obj/s", bar=20_000, at_least=True)
    desired = _deployment()
    text = b"# a hand-written note\n" + render_document(desired)
    versions = []
    for number in range(50):
        version = copy.deepcopy(desired)
        version["spec"]["template"]["spec"]["containers"][0]["image"] = f"registry.example/web:1.{number}"
        versions.append(version)
    report.add(
        f"editor, {len(text)} bytes",
        _rate(lambda n: edit_document(text, 0, versions[n % 50])),
        "edits/s",
        bar=200,
        at_least=True,
    )
    report.add("emitter, the same document", _rate(lambda n: render_document(versions[n % 50])), "docs/s")
    plain = _rate(lambda n: yaml.dump(versions[n % 50], Dumper=yaml.CSafeDumper))
    report.add("PyYAML's C dumper, the same document", plain, "docs/s")
    _index(report)


def _index(report: Report) -> None:
    def manifest(number: int) -> bytes:
        return render_document(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"cm-{number}", "namespace": "shop"},
                "data": {"text": "x" * 850},
            }
        )

    files = {f"d{number // 100}/cm-{number}.yaml": manifest(number) for number in range(INDEX_FILES)}
    tree = MemoryTree(files)
    with timed() as parsing:
        for content in files.values():
            yaml.load(content, Loader=yaml.CSafeLoader)
    with timed() as cold:
        Inventory.scan(tree)
    report.add(f"cold index of {INDEX_FILES} files / parsing them", cold.cpu / parsing.cpu, "x", bar=2.0)
