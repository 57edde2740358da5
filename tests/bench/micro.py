"""Figures of single parts: sanitizer, editor, emitter, index. Documents of twenty kinds, 2 KB each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from gitwriter.manifests import Inventory, MemoryTree
from gitwriter.manifests.editing import edit_document
from gitwriter.manifests.emitter import render_document
from tests.bench.mix import kinds
from tests.bench.options import Options
from tests.bench.report import Report, timed
from tests.manifests.wild import WildWriter, mutate

SECONDS = 1.5
INDEX_FILES = 10_000
EDITS = 200
SEED = 11
INDEX_RUNS = 3
PARSERS: dict[str, Callable[[bytes], object]] = {
    "events": lambda text: list(yaml.parse(text, Loader=yaml.CSafeLoader)),
    "nodes": lambda text: yaml.compose(text, Loader=yaml.CSafeLoader),
    "values": lambda text: yaml.load(text, Loader=yaml.CSafeLoader),
}
"""What the C parser offers, from the least work to the most."""


def run(report: Report, folder: Path, options: Options) -> None:
    """Measure each part alone."""
    del folder, options
    from watchers.sanitize import sanitize

    objects = [_named(kind.object(number)) for number in range(10) for kind in kinds()]
    live = [_as_served(found) for found in objects]
    report.add(
        "sanitizer, objects of twenty kinds",
        _rate(lambda number: sanitize(live[number % len(live)])),
        "obj/s",
        bar=20_000,
        at_least=True,
    )
    _editor(report, objects)
    report.add(
        "emitter, the same objects", _rate(lambda n: render_document(objects[n % len(objects)])), "docs/s"
    )
    plain = _rate(lambda n: yaml.dump(objects[n % len(objects)], Dumper=yaml.CSafeDumper))
    report.add("PyYAML's C dumper, the same objects", plain, "docs/s")
    _index(report)


def _rate(work: Callable[[int], object]) -> float:
    """Calls a second, by CPU."""
    count, began = 0, time.process_time()
    while time.process_time() - began < SECONDS:
        work(count)
        count += 1
    return count / (time.process_time() - began)


def _named(found: dict[str, Any]) -> dict[str, Any]:
    """With a namespace, and as many labels and annotations as make 2 KB on average."""
    meta = found["metadata"]
    labels = {f"example.com/label-{number}": f"value-{number}" for number in range(14)}
    notes = {f"example.com/note-{number}": f"a sentence about {number}: it holds" for number in range(10)}
    more = {
        "namespace": "shop",
        "labels": meta["labels"] | labels,
        "annotations": meta["annotations"] | notes,
    }
    return {**found, "metadata": {**meta, **more}}


def _as_served(found: dict[str, Any]) -> dict[str, Any]:
    """With what an API server adds."""
    manager = {
        "manager": "kubectl",
        "operation": "Update",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {}},
    }
    added = {"uid": "u", "resourceVersion": "7", "generation": 3, "managedFields": [manager, manager]}
    return {**found, "metadata": {**found["metadata"], **added}, "status": {"observedGeneration": 3}}


def _editor(report: Report, objects: Sequence[dict[str, Any]]) -> None:
    """Documents as people write them, with comments, quotes and blank lines; one to three values change."""
    rnd = random.Random(SEED)
    edits = []
    for number in range(EDITS):
        found = objects[number % len(objects)]
        writer = WildWriter(rnd)
        writer.write(found)
        text = ("\n".join(line for line, _ in writer.lines) + "\n").encode()
        changed, _ = mutate(rnd, found, rnd.randint(1, 3))
        edits.append((text, changed))
    size = sum(len(text) for text, _ in edits) / len(edits)
    report.add(
        f"editor, hand-written documents of {size / 1024:.1f} KB",
        _rate(lambda number: edit_document(edits[number % EDITS][0], 0, edits[number % EDITS][1])),
        "edits/s",
        bar=200,
        at_least=True,
    )


def _index(report: Report) -> None:
    """Indexing a tree for the first time, beside the fastest of what the C parser offers."""
    mixed = kinds()
    files = {
        f"d{number // 100}/o{number}.yaml": render_document(_named(mixed[number % len(mixed)].object(number)))
        for number in range(INDEX_FILES)
    }
    tree = MemoryTree(files)
    spent: dict[str, list[float]] = {}
    for _ in range(INDEX_RUNS):
        for name, parse in PARSERS.items():
            with timed() as parsing:
                for text in files.values():
                    parse(text)
            spent.setdefault(name, []).append(parsing.cpu)
        with timed() as cold:
            Inventory.scan(tree)
        spent.setdefault("index", []).append(cold.cpu)
    best = {name: min(runs) for name, runs in spent.items()}
    index = best.pop("index")
    fastest = min(best, key=lambda name: best[name])
    report.add(
        f"cold index of {INDEX_FILES} files / the fastest parser",
        index / best[fastest],
        "x",
        bar=2.0,
        note=f"{index:.1f} s; " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in best.items()),
    )
