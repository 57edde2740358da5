"""Other readers of YAML, as oracles: kubectl (the reader that counts), a YAML 1.1 and a YAML 1.2 reader."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import yaml
from ruamel.yaml import YAML

from tests import needs

HEAD = "apiVersion: v1\nkind: Thing\nmetadata: {name: thing}\n"


def kubernetes_reads(text: str | bytes) -> Any:
    """One manifest as kubectl reads it."""
    (value,) = kubernetes_reads_all(text)
    return value


def kubernetes_reads_all(text: str | bytes) -> list[Any]:
    """Every document as kubectl reads it; the annotation that the call needs is taken off again."""
    data = text.encode() if isinstance(text, str) else text
    done = subprocess.run(
        [needs.kubectl(), "annotate", "--local", "-f", "-", "zz=y", "-o", "json"],
        input=data,
        capture_output=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr.decode())
    decoder, output, position = json.JSONDecoder(), done.stdout.decode().strip(), 0
    values: list[Any] = []
    while position < len(output):
        value, position = decoder.raw_decode(output, position)
        values += value["items"] if value.get("kind") == "List" else [value]
        while position < len(output) and output[position].isspace():
            position += 1
    for value in values:
        del value["metadata"]["annotations"]["zz"]
        if not value["metadata"]["annotations"]:
            del value["metadata"]["annotations"]
    return values


def yaml_1_1_reads(text: str | bytes) -> Any:
    """As a YAML 1.1 reader."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def yaml_1_2_reads(text: str | bytes) -> Any:
    """As a YAML 1.2 reader."""
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 2)
    return reader.load(text)
