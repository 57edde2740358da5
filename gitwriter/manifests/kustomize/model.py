"""One kustomization file, read strictly.

Only what we can predict is supported, by an allow-list of fields: whatever else stands in the file, now
or in a later kustomize, refuses by its own name, because a mirror that guesses what a build does writes
the wrong file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..limits import CONTEXT_LIMITS
from ..loading import YamlError, load_document
from ..splitting import split_documents

_TOLERATED = frozenset(
    {
        "apiVersion",
        "kind",
        "metadata",
        "resources",
        "bases",
        "namespace",
        "images",
        "replicas",
        "labels",
        "commonLabels",
        "commonAnnotations",
        "sortOptions",
        "generatorOptions",
        "patches",
    }
)
# Fields of kustomize that we do not model; empty they do nothing.
_REFUSED_WITH_CONTENT = frozenset(
    {
        "buildMetadata",
        "components",
        "configMapGenerator",
        "configurations",
        "crds",
        "generators",
        "helmChartInflationGenerator",
        "helmCharts",
        "helmGlobals",
        "namePrefix",
        "nameSuffix",
        "openapi",
        "patchesJson6902",
        "patchesStrategicMerge",
        "replacements",
        "secretGenerator",
        "transformers",
        "validators",
        "vars",
    }
)
_UNREADABLE = frozenset({"duplicate-key", "excessive-aliases", "binary", "local-tag"})
_FORGES = (
    "github.com/",
    "gitlab.com/",
    "bitbucket.org/",
    "codeberg.org/",
    "gitea.com/",
    "dev.azure.com/",
    "gh:",
)
_REMOTE_MARKS = ("://", "git@", "git::", "?ref=", "?version=")


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """One `images:` entry; empty parts are not set by it."""

    index: int
    name: str
    new_name: str = ""
    new_tag: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaEntry:
    """One `replicas:` entry."""

    index: int
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Kustomization:
    """A parsed kustomization. `problems` non-empty = unsupported; entries and patches are paths as written.

    `selecting` holds the patches whose `target` says what they apply to; the others name it themselves.
    `decorates` tells that it adds labels or annotations; `editable` that it is one document that can be
    edited.
    """

    path: str
    directory: str
    entries: tuple[str, ...] = ()
    namespace: str = ""
    images: tuple[ImageEntry, ...] = ()
    replicas: tuple[ReplicaEntry, ...] = ()
    patches: tuple[str, ...] = ()
    selecting: frozenset[str] = frozenset()
    has_resources: bool = False
    decorates: bool = False
    editable: bool = True
    problems: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        return not self.problems


def parse_kustomization(path: str, data: bytes) -> Kustomization:
    """Read one kustomization file; never raises, what is wrong with it becomes `problems`."""
    directory = path.rpartition("/")[0]
    if len(data) > CONTEXT_LIMITS.file_bytes:
        problem = f"unparseable: larger than {CONTEXT_LIMITS.file_bytes} bytes"
        return Kustomization(path, directory, editable=False, problems=(problem,))
    split = split_documents(data, at_most=CONTEXT_LIMITS.documents_per_file)
    if len(split) > CONTEXT_LIMITS.documents_per_file:
        problem = f"unparseable: more than {CONTEXT_LIMITS.documents_per_file} documents"
        return Kustomization(path, directory, editable=False, problems=(problem,))
    parts = [part for part in split if not _is_comment(data[part.start : part.end])]
    if not parts:
        return Kustomization(path, directory, editable=False, problems=("unparseable: the file is empty",))
    try:
        loaded = load_document(data[parts[0].start : parts[0].end], limits=CONTEXT_LIMITS)
    except YamlError as error:
        return Kustomization(path, directory, editable=False, problems=(f"unparseable: {error}",))
    unreadable = loaded.constructs & _UNREADABLE
    if unreadable:
        problem = f"unparseable: {', '.join(sorted(unreadable))}"
        return Kustomization(path, directory, editable=False, problems=(problem,))
    value = loaded.value
    if not isinstance(value, dict):
        return Kustomization(path, directory, editable=False, problems=("unparseable: not a mapping",))
    reader = _Reader(value)
    return Kustomization(
        path,
        directory,
        entries=reader.entries(),
        namespace=reader.text("namespace"),
        images=reader.images(),
        replicas=reader.replicas(),
        patches=reader.patches(),
        selecting=frozenset(reader.selecting),
        has_resources=isinstance(value.get("resources"), list),
        decorates=any(value.get(key) for key in ("labels", "commonLabels", "commonAnnotations")),
        editable=len(parts) == 1,
        problems=(*reader.features(), *reader.problems),
    )


def _is_comment(body: bytes) -> bool:
    lines = body.removeprefix(b"\xef\xbb\xbf").splitlines()
    return all(not line.strip() or line.lstrip().startswith(b"#") for line in lines)


def is_remote(entry: str) -> bool:
    """True for an entry that kustomize would fetch rather than read."""
    return any(mark in entry for mark in _REMOTE_MARKS) or entry.startswith(_FORGES)


class _Reader:
    """Reads one section after the other and collects what is malformed."""

    def __init__(self, value: dict[str, Any]) -> None:
        self._value = value
        self.problems: list[str] = []
        self.selecting: list[str] = []

    def features(self) -> list[str]:
        """Fields that we do not model, each by its name."""
        found = sorted(
            str(key)
            for key, value in self._value.items()
            if key not in _TOLERATED and (value or key not in _REFUSED_WITH_CONTENT)
        )
        kind = self._value.get("kind")
        if kind not in (None, "", "Kustomization"):
            found.append(f"kind {kind}")
        return found

    def text(self, key: str) -> str:
        value = self._value.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        self.problems.append(f"malformed-{key}: must be text")
        return ""

    def entries(self) -> tuple[str, ...]:
        found: list[str] = []
        for key in ("resources", "bases"):
            value = self._value.get(key)
            if value is None:
                continue
            if not isinstance(value, list):
                self.problems.append(f"malformed-{key}: must be a list")
                continue
            found.extend(item for item in value if isinstance(item, str) and item.strip())
        self.problems.extend(f'remote-base: "{entry}"' for entry in found if is_remote(entry))
        return tuple(found)

    def patches(self) -> tuple[str, ...]:
        value = self._value.get("patches")
        if not value:
            return ()
        found: list[str] = []
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict) and isinstance(entry.get("path"), str) and "patch" not in entry:
                found.append(entry["path"])
                if entry.get("target"):
                    self.selecting.append(entry["path"])
            else:
                self.problems.append(
                    "patches-inline: put the patch into a file of its own and name it with path"
                )
        return tuple(found)

    def images(self) -> tuple[ImageEntry, ...]:
        entries = []
        for index, entry in self._list("images"):
            problem = _image_problem(entry)
            if problem:
                self.problems.append(f"malformed-images: entry {index}: {problem}")
                continue
            entries.append(
                ImageEntry(
                    index,
                    entry["name"],
                    entry.get("newName") or "",
                    entry.get("newTag") or "",
                    entry.get("digest") or "",
                )
            )
        return tuple(entries)

    def replicas(self) -> tuple[ReplicaEntry, ...]:
        entries = []
        for index, entry in self._list("replicas"):
            problem = _replica_problem(entry)
            if problem:
                self.problems.append(f"malformed-replicas: entry {index}: {problem}")
                continue
            entries.append(ReplicaEntry(index, entry["name"], int(entry["count"])))
        return tuple(entries)

    def _list(self, key: str) -> list[tuple[int, Any]]:
        value = self._value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.problems.append(f"malformed-{key}: must be a list")
            return []
        return list(enumerate(value))


def _image_problem(entry: object) -> str:
    if not isinstance(entry, dict):
        return "must be a mapping"
    unknown = sorted(str(key) for key in entry if key not in ("name", "newName", "newTag", "digest"))
    if unknown:
        return f"unknown field {', '.join(unknown)}"
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        return "has no name"
    for key in ("newName", "newTag", "digest"):
        value = entry.get(key)
        if value is not None and not isinstance(value, str):
            return f"{key} of {name} must be text; put it in quotes"
        if key != "newName" and value is not None and not value.strip():
            return f"{key} of {name} is empty"
    return ""


def _replica_problem(entry: object) -> str:
    if not isinstance(entry, dict):
        return "must be a mapping"
    unknown = sorted(str(key) for key in entry if key not in ("name", "count"))
    if unknown:
        return f"unknown field {', '.join(unknown)}"
    name, count = entry.get("name"), entry.get("count")
    if not isinstance(name, str) or not name.strip():
        return "has no name"
    whole = isinstance(count, int) or (isinstance(count, float) and count.is_integer())
    if count is None or isinstance(count, bool) or not whole or count < 0:
        return f"count of {name} must be a whole number, 0 or more"
    return ""
