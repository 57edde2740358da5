"""An analysis as text for people and as plain values for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from .analyzer import MirrorReport, Report
from .candidates import STRUCTURAL, Candidate, Layout
from .ignore import IGNORE_FILE
from .issues import Issue

_MAX_LISTED = 20
_MAX_FOLDERS = 40
_MAX_NAMED = 8
_LAYOUT_TEXT = {
    Layout.EMPTY: "empty: a mirror would create everything",
    Layout.PLAIN: "plain: manifests without kustomize",
    Layout.KUSTOMIZE_SINGLE: "kustomize-single: kustomizations that build what lies below them",
    Layout.KUSTOMIZE_OVERLAY: "kustomize-overlay: kustomizations that build on bases elsewhere",
    Layout.REFUSED_STRUCTURAL: "refused-structural: kustomize features that a mirror cannot write through",
}


def as_values(report: Report) -> dict[str, Any]:
    """The report as JSON-like values; the field names are stable."""
    return {
        "root": report.root,
        "accepted": report.accepted,
        "reason": report.reason,
        "layout": report.layout.value,
        "issues": [_issue_values(issue) for issue in report.issues],
        "ignore": list(report.ignore),
        "counts": {
            "files": dict(report.roles),
            "documents": report.by_class(),
            "kinds": report.by_kind(),
            "encrypted": sum(document.encrypted for document in report.documents),
            "notEditable": sum(
                bool(document.name) and not (document.editable or document.encrypted)
                for document in report.documents
            ),
        },
        "documents": [
            {
                "path": document.path,
                "document": document.index,
                "class": document.document_class.value,
                "apiVersion": document.api_version,
                "kind": document.kind,
                "namespace": document.namespace,
                "namespaceSource": document.namespace_source,
                "name": document.name,
                "editable": document.editable,
                "encrypted": document.encrypted,
                "detail": document.detail,
            }
            for document in report.documents
        ],
        "retained": list(report.retained),
        "diagnostics": [
            {
                "level": item.level.value,
                "reason": item.reason,
                "path": item.path,
                "document": item.document,
                "message": item.message,
            }
            for item in report.diagnostics
        ],
        "candidates": [_candidate_values(candidate) for candidate in report.candidates],
        "foldersNotJudged": report.not_judged,
        "ignoredByGit": report.left_out,
        "warnings": list(report.warnings),
        **({"mirror": _mirror_values(report.mirror)} if report.mirror is not None else {}),
    }


def _issue_values(issue: Issue) -> dict[str, Any]:
    return {
        "kind": issue.kind.value,
        "path": issue.path,
        "document": issue.document,
        "message": issue.message,
        "solvable": issue.solvable,
        "actor": issue.actor.value,
    }


def _candidate_values(candidate: Candidate) -> dict[str, Any]:
    return {
        "path": candidate.path,
        "layout": candidate.layout.value,
        "accepted": candidate.accepted,
        "issues": [_issue_values(issue) for issue in candidate.issues],
        "resources": {"rendered": candidate.rendered, "editable": candidate.editable},
        "types": {namespace: list(types) for namespace, types in candidate.types.items()},
        "reads": list(candidate.reads),
        "inside": candidate.inside,
    }


def _mirror_values(mirror: MirrorReport) -> dict[str, Any]:
    return {
        "counts": mirror.counts,
        "setAside": list(mirror.set_aside),
        "actions": [
            {"action": item.action, "path": item.path, "identity": item.identity, "reason": item.reason}
            for item in mirror.actions
        ],
    }


def as_text(report: Report) -> str:
    """The report for a person: verdict first, then what is wrong and how to fix it, then what there is."""
    lines = [
        f"Folder   {report.root}",
        f"Verdict  {_verdict(report)}",
        f"Layout   {_LAYOUT_TEXT[report.layout]}",
        "",
    ]
    lines += _issue_lines(report.issues)
    lines += _ignore_lines(report.ignore)
    lines += _content_lines(report)
    lines += _candidate_lines(report.candidates, report.not_judged)
    if report.mirror is not None:
        lines += _mirror_lines(report.mirror)
    if report.left_out:
        lines.append(f"Left out: {_count(report.left_out, 'path')} that Git ignores")
    lines += [f"Warning: {warning}" for warning in report.warnings]
    return "\n".join(lines).rstrip() + "\n"


def _verdict(report: Report) -> str:
    if report.accepted:
        return "accepted: a GitTarget may point here"
    fine = sum(candidate.accepted and candidate.path != "." for candidate in report.candidates)
    other = f", or take one of the accepted folders below ({fine})" if fine else ""
    return f"refused ({report.reason}): {_count(len(report.issues), 'issue')} to solve first{other}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _issue_lines(issues: Iterable[Issue]) -> list[str]:
    listed = list(issues)
    if not listed:
        return []
    counts = Counter(issue.kind.value for issue in listed)
    sorts = ", ".join(f"{number} {kind}" for kind, number in counts.most_common())
    lines = ["To solve:" if len(listed) <= _MAX_LISTED else f"To solve ({sorts}):"]
    shown = _of_each_sort(listed)
    lines += [f"  {issue.path}  [{issue.kind.value}]  {issue.message}" for issue in shown]
    if len(listed) > len(shown):
        lines.append(f"  and {len(listed) - len(shown)} more; --format json lists all")
    return [*lines, ""]


def _of_each_sort(issues: Sequence[Issue]) -> list[Issue]:
    """As many as are listed, in their order: of a sort that is frequent no more than its share."""
    if len(issues) > _MAX_LISTED:
        issues = list({(issue.path, issue.message): issue for issue in issues}.values())
    share = max(_MAX_LISTED // len({issue.kind for issue in issues}), 2)
    seen: Counter[str] = Counter()
    ranks: list[tuple[int, int]] = []
    for position, issue in enumerate(issues):
        seen[issue.kind] += 1
        ranks.append((max(seen[issue.kind] - share, 0), position))
    return [issues[position] for position in sorted(place for _rank, place in sorted(ranks)[:_MAX_LISTED])]


def _ignore_lines(lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  and {len(lines) - _MAX_LISTED} more; --format json lists all"] if lines[_MAX_LISTED:] else []
    head = f"Lines for {IGNORE_FILE} that hide what need not be managed (look at them first):"
    return [head, *(f"  {line}" for line in lines[:_MAX_LISTED]), *more, ""]


def _content_lines(report: Report) -> list[str]:
    managed = [document for document in report.documents if document.name]
    files = len({document.path for document in managed})
    lines = [f"Managed: {_count(len(managed), 'document')} in {_count(files, 'file')}"]
    encrypted = sum(document.encrypted for document in managed)
    if encrypted:
        lines.append(f"  {encrypted} encrypted: rewritten whole, never patched")
    special = [document for document in managed if document.detail]
    if special:
        lines.append(f"  {len(special)} with YAML that is edited only where that is safe:")
        lines += [f"    {item.path}#{item.index}: {item.detail}" for item in special[:_MAX_LISTED]]
    homeless = [item for item in managed if item.namespace_source == "none" and item.namespace == ""]
    if homeless:
        lines.append(
            f"  {len(homeless)} without a namespace: cluster-scoped, or not to be told from the file"
        )
    lines += [f"  {number:6}  {kind}" for kind, number in list(report.by_kind().items())[:_MAX_LISTED]]
    return [*lines, ""]


def _candidate_lines(candidates: Iterable[Candidate], not_judged: int) -> list[str]:
    listed = list(candidates)
    if not listed or (len(listed) == 1 and listed[0].path == "."):
        return []
    lines = ["Folders that could be targets of their own:"]
    shown = listed
    if len(listed) > _MAX_FOLDERS:  # those that help most: accepted, in no other, with much to edit
        shown = sorted(
            listed,
            key=lambda one: (not one.accepted, bool(one.inside), -one.editable, -one.rendered, one.path),
        )[:_MAX_FOLDERS]
    for candidate in shown:
        verdict = "accepted" if candidate.accepted else "refused "
        named = [namespace or "no namespace" for namespace in candidate.types] or ["nothing"]
        namespaces = ", ".join(named[:_MAX_NAMED])
        if len(named) > _MAX_NAMED:
            namespaces += f" and {len(named) - _MAX_NAMED} more"
        lines.append(
            f"  {verdict}  {candidate.path}  {candidate.layout.value}, "
            f"{_count(candidate.rendered, 'object')} ({candidate.editable} editable here), {namespaces}"
        )
        if candidate.reads:
            lines.append(f"            reads {', '.join(candidate.reads)}")
        if candidate.inside:
            lines.append(f"            lies inside {candidate.inside}; not both can be targets")
        if not candidate.accepted:
            first = min(candidate.issues, key=lambda issue: issue.kind not in STRUCTURAL)
            more = f" (and {len(candidate.issues) - 1} more)" if len(candidate.issues) > 1 else ""
            lines.append(f"            {first.path}: {first.message}{more}")
    if len(listed) > len(shown):
        accepted = sum(one.accepted for one in listed) - sum(one.accepted for one in shown)
        lines.append(f"  and {len(listed) - len(shown)} more ({accepted} accepted); --format json lists all")
    if not_judged:
        lines.append(f"  {_count(not_judged, 'folder')} more not judged; analyze a part of the repository")
    return [*lines, ""]


def _mirror_lines(mirror: MirrorReport) -> list[str]:
    counts = ", ".join(f"{action} {number}" for action, number in mirror.counts.items()) or "nothing to do"
    lines = [f"A mirror of the cluster would: {counts}"]
    if mirror.set_aside:
        lines.append(f"  (without {', '.join(mirror.set_aside)}, which refuse the folder today)")
    for item in mirror.actions[: 5 * _MAX_LISTED]:
        note = f"  ({item.reason})" if item.reason else ""
        lines.append(f"  {item.action:6}  {item.path or '-'}  {item.identity}{note}")
    if len(mirror.actions) > 5 * _MAX_LISTED:
        lines.append(f"  and {len(mirror.actions) - 5 * _MAX_LISTED} more; --format json lists all")
    return [*lines, ""]
