"""The real kustomize, as an oracle: what does a build of these files render?

The build runs in a temporary folder on memory-backed storage with nothing but the files that the build
names, without network access of its own, under a deadline. Plain text of Secrets never reaches that
folder: their values are replaced by digests first, which is enough to see whether they changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reverser.trust.scratch import scratch_folder

from ..emitter import render_document
from ..facts import DocumentClass, read_document_fact
from ..loading import YamlError, load_document
from ..splitting import split_documents

DEADLINE_SECONDS = 30.0
# kustomize compares each object with each: three thousand of them take it half a minute.
SECONDS_PER_OBJECT = 0.05


class RenderError(Exception):
    """The build failed; the text is kustomize's own, shortened."""


class RenderKey(tuple[str, str, str, str]):
    """(group, kind, namespace, name) of a rendered object."""

    __slots__ = ()


Rendered = dict[RenderKey, bytes]
Renderer = Callable[[Mapping[str, bytes], str], Rendered]


@dataclass(frozen=True, slots=True)
class KustomizeCommand:
    """A renderer that runs `kustomize build` or `kubectl kustomize`."""

    argv: tuple[str, ...]
    deadline: float = DEADLINE_SECONDS

    def __call__(self, files: Mapping[str, bytes], directory: str) -> Rendered:
        """Build `directory` of these files (paths to bytes); raises RenderError."""
        with scratch_folder("reverser-render-", parent=_memory_folder()) as folder:
            root = Path(folder, *["n"] * max((path.count("../") for path in files), default=0))
            root.mkdir(parents=True, exist_ok=True)
            for path, data in files.items():
                target = Path(os.path.normpath(root / path))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(without_secret_values(data))
            objects = sum(data.count(b"apiVersion") for data in files.values())
            deadline = self.deadline + SECONDS_PER_OBJECT * objects
            return parse_rendered(self._run(root, directory, deadline))

    def _run(self, root: Path, directory: str, deadline: float) -> bytes:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(root), "TMPDIR": str(root)}
        argv = [*self.argv, str(root / directory) if directory else str(root)]
        argv.append("--load-restrictor=LoadRestrictionsNone")
        try:
            done = subprocess.run(
                argv, capture_output=True, timeout=deadline, env=environment, cwd=root, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RenderError(f"the build took longer than {deadline:.0f} s; split the build") from error
        except OSError as error:
            raise RenderError(f"kustomize could not be started: {error.strerror}") from error
        if done.returncode != 0:
            text = done.stderr.decode(errors="replace").replace(str(root) + "/", "").strip()
            raise RenderError(text[:500] or f"kustomize ended with status {done.returncode}")
        return done.stdout


def find_renderer() -> KustomizeCommand | None:
    """The kustomize on PATH, else kubectl beside this Python or on PATH, else None."""
    kustomize = shutil.which("kustomize")
    if kustomize:
        return KustomizeCommand((kustomize, "build"))
    beside = Path(sys.executable).parent / "kubectl"
    kubectl = str(beside) if os.access(beside, os.X_OK) else shutil.which("kubectl")
    return KustomizeCommand((kubectl, "kustomize")) if kubectl else None


def _memory_folder() -> Path | None:
    shared = Path("/dev/shm")  # noqa: S108 - the names in it are not to be guessed
    return shared if os.access(shared, os.W_OK) else None


def parse_rendered(output: bytes) -> Rendered:
    """The objects of a build's output; raises RenderError where one cannot be told from another."""
    found: Rendered = {}
    for document in split_documents(output):
        body = document.body(output)
        fact = read_document_fact(body, document.index)
        if fact.document_class is DocumentClass.EMPTY:
            continue
        key = RenderKey((fact.group, fact.kind, fact.namespace, fact.name))
        if not fact.is_krm or key in found:
            raise RenderError(f"the build gives an object that cannot be told apart: {fact.kind} {fact.name}")
        found[key] = body.strip()
    return found


def without_secret_values(data: bytes) -> bytes:
    """A file's bytes with every unencrypted Secret value replaced by its digest; other files come back as
    they are.
    """
    if b"Secret" not in data:
        return data
    pieces: list[bytes] = []
    for document in split_documents(data):
        body = document.body(data)
        pieces.append(data[document.separator_start : document.start])
        fact = read_document_fact(body, document.index)
        plain = fact.kind == "Secret" and fact.group == "" and not fact.sealed
        pieces.append(_redacted(body) if plain else body)
    return b"".join(pieces)


def _redacted(body: bytes) -> bytes:
    try:
        value = load_document(body).value
    except YamlError:
        return b""
    if not isinstance(value, dict):
        return b""
    return render_document(
        {key: _digest(item) if key in ("data", "stringData") else item for key, item in value.items()}
    )


def _digest(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: hashlib.sha256(repr(item).encode()).hexdigest() for key, item in value.items()}
    return value
