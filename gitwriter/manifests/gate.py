"""Whether a path may be written to at all: structure only, judged before anything is planned.

Facts about a cluster never refuse a path, so a failed discovery blocks nobody. Every issue names the file and
what its owner can do; one issue is enough to leave the whole path untouched.
"""

from __future__ import annotations

from collections.abc import Iterator

from .bootstrap import is_untouched_ignore_file
from .facts import DocumentClass, DocumentFact, FileFacts
from .guards import untouchable_text
from .identity import NameKey
from .ignore import IGNORE_FILE
from .inventory import Inventory
from .issues import Diagnostic, Issue, IssueKind, Level, sort_issues
from .kustomize.remedies import remedy
from .records import DocumentRef, FileRecord
from .roles import SEALED_SUFFIXES, Role

_REMEDY = f"remove it or list it in {IGNORE_FILE}"
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io"
_WHAT = {
    DocumentClass.EMPTY: "empty",
    DocumentClass.NON_KRM: "not a Kubernetes manifest",
    DocumentClass.INVALID: "invalid YAML",
}


def check(inventory: Inventory) -> tuple[Issue, ...]:
    """Every issue of a path, sorted; empty means accepted."""
    issues = inventory.derived("gate", lambda: sort_issues(_issues(inventory)))
    assert isinstance(issues, tuple)
    return issues


def diagnostics(inventory: Inventory) -> tuple[Diagnostic, ...]:
    """Remarks on documents that are left alone, in path order."""
    found: list[Diagnostic] = []
    for path, record in sorted(inventory.suspects.items()):
        for fact in (
            record.facts.documents if record.facts is not None and record.role is Role.MANIFEST else ()
        ):
            untouchable = untouchable_text(path, fact) if fact.is_krm and not fact.has_sops else None
            if untouchable is not None:
                text = f"{fact.describe()}: {untouchable[1]}"
                found.append(Diagnostic(Level.WARNING, "non-editable", path, fact.index, text))
    return tuple(found)


def _issues(inventory: Inventory) -> Iterator[Issue]:
    yield from inventory.rules.issues
    yield from _limit_issues(inventory)
    for path, record in inventory.suspects.items():
        yield from _file_issues(inventory, path, record)
    yield from _kustomize_issues(inventory)
    for key in inventory.repeated_names():
        yield from _duplicates(inventory, key)
    for path in inventory.context.reaches:
        yield from _ambiguous(inventory, path)


def _limit_issues(inventory: Inventory) -> Iterator[Issue]:
    limits = inventory.limits
    advice = "split the path over several GitTargets or hide what need not be managed in " + IGNORE_FILE
    if inventory.total_files > limits.files:
        text = f"holds {inventory.total_files} YAML files, over the limit of {limits.files}; {advice}"
        yield Issue(IssueKind.LIMIT_EXCEEDED, ".", text)
    if inventory.total_bytes > limits.tree_bytes:
        text = f"holds {inventory.total_bytes} bytes of YAML, over the limit of {limits.tree_bytes}; {advice}"
        yield Issue(IssueKind.LIMIT_EXCEEDED, ".", text)


def _file_issues(inventory: Inventory, path: str, record: FileRecord) -> Iterator[Issue]:
    if record.role is Role.FOREIGN:
        if is_untouched_ignore_file(record.entry):
            return
        text = f"{path} is a file that this path does not manage; {_renaming(path)}{_REMEDY}"
        yield Issue(IssueKind.FOREIGN_FILE, path, text)
    elif record.role is Role.SYMLINK:
        yield Issue(IssueKind.FOREIGN_SYMLINK, path, f"{path} is a symbolic link, never followed; {_REMEDY}")
    elif record.role is Role.SUBMODULE:
        yield Issue(IssueKind.FOREIGN_SUBMODULE, path, f"{path} is a Git submodule, never entered; {_REMEDY}")
    elif record.oversize:
        text = f"{path} has {record.entry.size} bytes, the limit is {inventory.limits.file_bytes}; {_REMEDY}"
        yield Issue(IssueKind.LIMIT_EXCEEDED, path, text)
    elif record.facts is not None and record.facts.too_many:
        text = f"{path} holds more than {inventory.limits.documents_per_file} documents; split the file"
        yield Issue(IssueKind.LIMIT_EXCEEDED, path, text)
    elif record.facts is not None and record.role is Role.KUSTOMIZATION:
        yield from _kustomization_documents(path, record.facts)
    elif record.facts is not None and path not in inventory.context.patches:
        yield from _manifest_issues(inventory, path, record.facts)


def _renaming(path: str) -> str:
    """What makes a file with a name that is not read one that is."""
    name = path.rsplit("/", 1)[-1]
    stem, _dot, suffix = name.rpartition(".")
    if name == "Kustomization":
        return "rename it to kustomization.yaml to have it built, else "
    if stem and suffix == "json":
        return f"where it holds a manifest, rename it to {stem}.yaml (YAML reads JSON), else "
    if stem and suffix.lower() in ("yaml", "yml"):
        return f"rename it to {stem}.{suffix.lower()}, else "
    return ""


def _kustomization_documents(path: str, facts: FileFacts) -> Iterator[Issue]:
    for fact in facts.documents:
        if fact.is_krm and fact.group != _KUSTOMIZE_GROUP:
            text = f"{fact.describe()} stands in {path}, a kustomization; move it to its own file"
            yield Issue(IssueKind.MIXED_MANAGED_ALLOWLISTED, path, text, fact.index)


def framing(facts: FileFacts) -> frozenset[int]:
    """Documents that are only framing: blank or comments before the first separator, blank after the last."""
    documents = facts.documents
    if len(documents) < 2:
        return frozenset()
    found = set()
    if documents[0].document_class is DocumentClass.EMPTY:
        found.add(documents[0].index)
    if documents[-1].blank:
        found.add(documents[-1].index)
    return frozenset(found)


def _manifest_issues(inventory: Inventory, path: str, facts: FileFacts) -> Iterator[Issue]:
    frames = framing(facts)
    judged = [(fact, _seal_problem(path, fact)) for fact in facts.documents if fact.index not in frames]
    managed = any(fact.is_krm and not problem for fact, problem in judged)
    for fact, problem in judged:
        if fact.is_krm and not problem:
            continue
        kind, text = _document_issue(path, fact, problem, managed=managed)
        if kind is None or (kind is IssueKind.NON_KRM_YAML and _is_values_file(inventory, path, facts)):
            continue
        yield Issue(kind, path, text, fact.index)


def _seal_problem(path: str, fact: DocumentFact) -> str:
    if not fact.is_krm or not path.endswith(SEALED_SUFFIXES):
        return ""
    if not fact.has_sops:
        return f"{path} is named as an encrypted file but lacks its sops key; encrypt it or rename it"
    return ""


def _document_issue(
    path: str, fact: DocumentFact, problem: str, *, managed: bool
) -> tuple[IssueKind | None, str]:
    document_class = DocumentClass.INVALID if problem else fact.document_class
    what = problem or _WHAT[document_class]
    if not problem:
        is_yaml = document_class is DocumentClass.NON_KRM
        what += _lack(fact) if is_yaml else f": {fact.detail}" if fact.detail else ""
    if managed:
        text = (
            f"document {fact.index} of {path} is {what}; every document of a managed file must be a manifest"
        )
        return IssueKind.IMPURE_MANAGED_FILE, text
    if document_class is DocumentClass.EMPTY:
        return None, ""
    if document_class is DocumentClass.NON_KRM:
        return IssueKind.NON_KRM_YAML, f"YAML is not a Kubernetes manifest{_lack(fact)}; {_REMEDY}"
    return (
        IssueKind.INVALID_YAML,
        problem or f"invalid YAML ({fact.detail}); correct it or list it in {IGNORE_FILE}",
    )


def _lack(fact: DocumentFact) -> str:
    """What a document that looks like a manifest lacks, and what to do about it; empty for other YAML."""
    if fact.detail:
        return f" ({fact.detail})"
    if fact.api_version and fact.kind.endswith("List"):
        return f" (a {fact.kind} without a name: write its items as documents of their own)"
    if fact.api_version and fact.kind:
        return (
            f" (a {fact.kind} without metadata.name: give it a name; with generateName each apply makes "
            "another object)"
        )
    if fact.name and (fact.api_version or fact.kind):
        return f" (it lacks {'kind' if fact.api_version else 'apiVersion'})"
    return ""


def _is_values_file(inventory: Inventory, path: str, facts: FileFacts) -> bool:
    if len(facts.documents) != 1:
        return False
    return any(_names(written, path) for written in inventory.values_files())


def _names(written: str, path: str) -> bool:
    """True when a values file as written in a Helm object can be this file: one path ends with the other."""
    parts = [part for part in written.split("/") if part not in ("", ".")]
    if parts and parts[0].startswith("$"):
        parts = parts[1:]
    own = path.split("/")
    while parts and parts[0] == "..":
        parts = parts[1:]
    if not parts or ".." in parts:
        return False
    shorter, longer = sorted((parts, own), key=len)
    return longer[-len(shorter) :] == shorter


def _kustomize_issues(inventory: Inventory) -> Iterator[Issue]:
    seen: dict[str, str] = {}
    for kustomization in inventory.kustomization_files():
        first = seen.setdefault(kustomization.directory, kustomization.path)
        problems = list(kustomization.problems)
        if first != kustomization.path:
            problems.append(f"render-failed: {first} stands in the same folder; keep one of the two")
        problems.extend(inventory.context.problems.get(kustomization.path, ()))
        if problems and not _holds_objects(inventory, kustomization.path):
            listed, advice = ", ".join(dict.fromkeys(problems)), remedy(problems)
            text = f"unsupported in {kustomization.path}: {listed}; {advice}, or mirror another path"
            yield Issue(IssueKind.UNSUPPORTED_KUSTOMIZE, kustomization.path, text)


def _holds_objects(inventory: Inventory, path: str) -> bool:
    """True for a kustomization file that is refused already because an object stands in it."""
    record = inventory.files.get(path)
    return (
        record is not None and record.facts is not None and any(_kustomization_documents(path, record.facts))
    )


def _duplicates(inventory: Inventory, key: NameKey) -> Iterator[Issue]:
    first: dict[str, DocumentRef] = {}
    for ref in inventory.lookup(*key):
        if _seal_problem(ref.path, ref.fact):
            continue
        namespace = inventory.effective_namespace(ref)
        holder = first.setdefault(namespace, ref)
        if holder is not ref:
            text = (
                f"{ref.fact.describe()} in {ref.path}#{ref.fact.index} is already in "
                f"{holder.path}#{holder.fact.index}; keep one of the two"
            )
            yield Issue(IssueKind.DUPLICATE_IDENTITY, ref.path, text, ref.fact.index)


def _ambiguous(inventory: Inventory, path: str) -> Iterator[Issue]:
    namespaces = inventory.context.namespaces(path)
    if len(namespaces) < 2:
        return
    record = inventory.files.get(path)
    for fact in record.facts.documents if record is not None and record.facts is not None else ():
        if fact.is_krm and inventory.is_ambiguous(DocumentRef(path, fact)):
            named = " and ".join(f"{source} ({namespace})" for namespace, source in namespaces)
            text = f"{fact.kind} {fact.name} gets different namespaces from {named}; mirror one per path"
            yield Issue(IssueKind.AMBIGUOUS_NAMESPACE, path, text, fact.index)
