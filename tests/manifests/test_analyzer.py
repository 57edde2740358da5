"""The offline report: verdict, layout, candidates, and what a mirror would do; it reads and never writes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command
from django.core.management.base import CommandError

from gitwriter.git.ignored import ignored_paths
from gitwriter.manifests import DEFAULT_LIMITS, DirectoryTree, MemoryTree, Policy
from gitwriter.manifests.analyzer import Layout, analyze, plan_mirror
from gitwriter.manifests.report import as_text, as_values
from reverser.sandbox.thread import SandboxServer

from .folder import config_map, manifest, sealed_secret, sweep, text

TILL = manifest("Deployment", "till")
OVERLAYS = {
    "base/kustomization.yaml": "resources: [till.yaml]\n",
    "base/till.yaml": TILL,
    "overlays/prod/kustomization.yaml": "namespace: prod\nresources: [../../base]\n",
    "overlays/test/kustomization.yaml": "namespace: test\nresources: [../../base]\n",
}


@pytest.mark.parametrize(
    ("files", "layout"),
    [
        ({}, Layout.EMPTY),
        ({"README.md": "x"}, Layout.EMPTY),
        ({"a.yaml": TILL}, Layout.PLAIN),
        ({"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": TILL}, Layout.KUSTOMIZE_SINGLE),
        (OVERLAYS, Layout.KUSTOMIZE_OVERLAY),
        ({"kustomization.yaml": "namePrefix: x-\n"}, Layout.REFUSED_STRUCTURAL),
    ],
)
def test_layouts_are_named(files: dict, layout: Layout) -> None:
    """Each sort of folder is recognised."""
    assert analyze(MemoryTree(text(files))).layout is layout


def test_candidates_are_judged_inside_the_repository() -> None:
    """An overlay that could not be built alone is accepted where its base is at hand; the base is no
    candidate.
    """
    report = analyze(MemoryTree(text(OVERLAYS)))
    assert not report.accepted
    assert [(found.path, found.accepted, found.reads) for found in report.candidates] == [
        ("overlays/prod", True, ("base",)),
        ("overlays/test", True, ("base",)),
    ]
    assert report.candidates[0].types == {"prod": ("apps/v1/Deployment",)}
    assert (report.candidates[0].rendered, report.candidates[0].editable) == (1, 0)


def test_nested_candidates_are_named() -> None:
    """A candidate inside another says so: both cannot be targets."""
    files = {
        "apps/a.yaml": manifest("ConfigMap", "a", "x"),
        "apps/sub/b.yaml": manifest("ConfigMap", "b", "x"),
    }
    assert [(found.path, found.inside) for found in analyze(MemoryTree(text(files))).candidates] == [
        ("apps", ""),
        ("apps/sub", "apps"),
    ]


def test_text_says_what_to_do() -> None:
    """The text names the verdict, each refusing file with its remedy, and what would be managed."""
    files = {
        "deploy.sh": "x",
        "a.yaml": manifest("ConfigMap", "a", "shop"),
        "s.yaml": sealed_secret("db").sealed or b"",
    }
    shown = as_text(analyze(MemoryTree(text(files)), root="repo"))
    for part in (
        "refused (UnsupportedContent): 1 issue",
        "deploy.sh",
        ".gittargetignore",
        "2 documents in 2 files",
    ):
        assert part in shown
    assert "1 encrypted" in shown


def test_a_refusal_points_at_folders_that_are_fine() -> None:
    """The verdict tells of accepted folders; a refused one names what kustomize cannot do first of all."""
    files = {
        "a/cm.yaml": manifest("ConfigMap", "a", "shop"),
        "b/cm.yaml": manifest("ConfigMap", "b", "shop"),
        "b/run.sh": "x",
        "c/about.txt": "x",
        "c/cm.yaml": manifest("ConfigMap", "c"),
        "c/kustomization.yaml": "resources: [cm.yaml]\nnamePrefix: x-\n",
    }
    shown = as_text(analyze(MemoryTree(text(files))))
    assert "3 issues to solve first, or take one of the accepted folders below (1)" in shown
    assert "kustomization.yaml: unsupported in kustomization.yaml: namePrefix;" in shown
    assert "(and 1 more)" in shown


CHART = {
    "charts/web/Chart.yaml": "apiVersion: v2\nname: web\n",
    "charts/web/values.yaml": "replicas: 2\n",
    "charts/web/crds/crd.yaml": manifest("ConfigMap", "crd", "shop"),
    "charts/web/templates/web.yaml": "name: {{ .x }}\n",
    "charts/web/templates/_helpers.tpl": "x",
}
CLUTTER = {
    **CHART,
    ".github/workflows/ci.yaml": "on: push\n",
    "Makefile": "x",
    "docs/a[1].svg": "x",
    "docs/b.svg": "x",
    "live/cm.yaml": manifest("ConfigMap", "a", "shop"),
    "live/a.png": "x",
    "live/b.png": "x",
    "live/sub/c.png": "x",
    "live/odd [x]?.txt": "x",
    "live/values.yaml": "a: 1\n",
    "live/read.yaml": "b: 1\n",
    "live/app.yaml": "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  name: a\n"
    "  namespace: shop\nspec:\n  source: {helm: {valueFiles: [read.yaml]}}\n",
}


def test_lines_for_the_ignore_file_make_a_folder_acceptable() -> None:
    """Whole folders and suffixes rather than files; a chart goes whole; nothing that is managed or read
    goes."""
    report = analyze(MemoryTree(text(CLUTTER)))
    assert report.ignore == (
        "*.png",
        "/.github/",
        "/Makefile",
        "/charts/",
        "/docs/",
        "/live/odd \\[x]\\?.txt",
        "/live/values.yaml",
    )
    assert "Lines for .gittargetignore" in as_text(report)
    assert as_values(report)["ignore"] == list(report.ignore)
    cleaned = analyze(MemoryTree(text({**CLUTTER, ".gittargetignore": "\n".join(report.ignore)})))
    assert cleaned.accepted and cleaned.ignore == ()
    assert {item.path for item in cleaned.documents if item.name} == {"live/cm.yaml", "live/app.yaml"}


def test_an_ignore_file_does_not_overflow() -> None:
    """Where folders alone would be more lines than an ignore file may have, suffixes are used."""
    files = {f"a{number}/x/{name}.sh": "x" for number in range(501) for name in "pq"}
    files |= {f"a{number}/cm.yaml": manifest("ConfigMap", "a", f"n{number}") for number in range(501)}
    assert analyze(MemoryTree(text(files))).ignore == ("*.sh",)


def test_a_mistake_is_not_to_be_hidden() -> None:
    """A manifest that does not parse, a duplicate and a build that is not supported are for their owners;
    what lies beside them is listed file by file."""
    files = {
        "a/broken.yaml": "a: [1\n",
        "a/x.sh": "x",
        "a/y.sh": "x",
        "b/one.yaml": manifest("ConfigMap", "a", "shop"),
        "b/two.yaml": manifest("ConfigMap", "a", "shop"),
        "c/kustomization.yaml": "namePrefix: x-\n",
        "c/x.txt": "x",
    }
    assert analyze(MemoryTree(text(files))).ignore == ("/a/x.sh", "/a/y.sh", "/c/x.txt")


def test_a_large_repository_is_told_in_a_page() -> None:
    """Each sort of issue is shown with its number, the folders that help most come first, and the folder
    above many is offered as one."""
    files = {f"apps/a{number:03}/run.sh": "x" for number in range(60)}
    files |= {f"live/ns{n}/cm.yaml": manifest("ConfigMap", "a", f"ns{n}") for n in range(30)}
    files |= {f"dup/d{n}/cm.yaml": manifest("ConfigMap", "d", "dup") for n in range(30)}
    files["zz/kustomization.yaml"] = "namePrefix: x-\n"
    report = analyze(MemoryTree(text(files)))
    shown = as_text(report)
    assert "To solve (60 foreign-file, 29 duplicate-identity, 1 unsupported-kustomize):" in shown
    assert "unsupported in zz/kustomization.yaml: namePrefix" in shown
    assert "and 70 more; --format json lists all" in shown
    folders = shown.split("targets of their own:\n")[1]
    assert folders.splitlines()[0].startswith("  accepted  live  plain, 30 objects (30 editable here), ns0, ")
    assert "and 22 more" in folders.splitlines()[0]
    assert "dup/d0" in shown and "  accepted  dup  " not in shown
    assert "more (21 accepted); --format json lists all" in shown
    assert {one.path for one in report.candidates if one.inside == "live"} == {
        f"live/ns{n}" for n in range(30)
    }


def test_folders_beyond_those_that_are_judged_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out in silence."""
    monkeypatch.setattr("gitwriter.manifests.candidates.MAX_JUDGED", 2)
    files = {f"n{number}/cm.yaml": manifest("ConfigMap", "a", f"n{number}") for number in range(5)}
    report = analyze(MemoryTree(text(files)))
    assert (len(report.candidates), report.not_judged) == (2, 3)
    assert as_values(report)["foldersNotJudged"] == 3
    assert "3 folders more not judged" in as_text(report)


def test_secrets_in_clear_text_are_told() -> None:
    """Object and file, never a value; other sensitive types too."""
    files = {
        "s.yaml": manifest("Secret", "db", "shop", stringData={"k": "zq-MARKER"}),
        "g.yaml": manifest("Gizmo", "g", "shop").replace("v1", "lab.test/v1"),
        "sealed.yaml": sealed_secret("ok").sealed or b"",
    }
    tree = MemoryTree(text(files))
    (told,) = analyze(tree).warnings
    assert told.startswith(
        "sensitive objects stand in clear text: v1/Secret/shop/db in s.yaml; treat their values"
    )
    (told,) = analyze(tree, policy=Policy(sensitive_types=frozenset({"lab.test/gizmos"}))).warnings
    assert "Gizmo/shop/g in g.yaml" in told
    assert "zq-MARKER" not in as_text(analyze(tree))
    assert "Warning: sensitive objects stand in clear text" in as_text(analyze(tree))


def test_editable_is_what_the_editor_would_edit() -> None:
    """Anchors are edited with care; a key that stands twice is not."""
    files = {
        "anchored.yaml": manifest("ConfigMap", "a", "shop") + "data: &d {k: v}\n",
        "twice.yaml": manifest("ConfigMap", "b", "shop") + "data: {k: v}\nx: 1\nx: 2\n",
        "directive.yaml": "%YAML 1.2\n---\n" + manifest("ConfigMap", "c", "shop"),
    }
    report = analyze(MemoryTree(text(files)))
    editable = {document.path: document.editable for document in report.documents if document.name}
    assert editable == {"anchored.yaml": True, "twice.yaml": False, "directive.yaml": True}
    assert [(found.path, found.reason) for found in report.diagnostics] == [("twice.yaml", "non-editable")]
    assert "remove one of the two" in report.diagnostics[0].message
    assert "directive" in report.issues[0].message
    assert as_values(report)["counts"]["notEditable"] == 1


def test_values_are_plain() -> None:
    """The values survive JSON and YAML unchanged."""
    values = as_values(analyze(MemoryTree(text(OVERLAYS))))
    assert json.loads(json.dumps(values)) == values
    assert yaml.safe_load(yaml.safe_dump(values)) == values
    assert {issue["actor"] for issue in values["issues"]} == {"repository-author"}


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_who_can_solve_an_issue_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """``solvable`` where an edit of the repository alone makes the issue go away; a limit is the
    platform's.
    """
    limits = replace(DEFAULT_LIMITS, file_bytes=100)
    monkeypatch.setattr("reverser.management.commands.analyze.analyze", partial(analyze, limits=limits))
    files = {
        "big.yaml": manifest("ConfigMap", "big", "shop", data={"v": "x" * 100}),
        "values.yaml": "replicas: 2\n",
        "sub/kustomization.yaml": "resources: []\nnamePrefix: x-\n",
        "run.sh": "x",
    }
    call_command("analyze", str(folder_of(tmp_path, files)), format=form)
    report = yaml.safe_load(capsys.readouterr().out)  # JSON is YAML
    found = {issue["path"]: (issue["kind"], issue["solvable"], issue["actor"]) for issue in report["issues"]}
    assert found == {
        "big.yaml": ("limit-exceeded", False, "platform-operator"),
        "values.yaml": ("non-krm-yaml", True, "repository-author"),
        "sub/kustomization.yaml": ("unsupported-kustomize", True, "repository-author"),
        "run.sh": ("foreign-file", True, "repository-author"),
    }
    assert {type(issue["solvable"]) for issue in report["issues"]} == {bool}


def test_mirror_plan_sets_refusing_files_aside() -> None:
    """The plan for a cluster is made also where the folder is refused today, and says what it left out."""
    files = {
        "deploy.sh": "x",
        "a.yaml": manifest("ConfigMap", "a", "shop", data={"k": "old"}),
        "gone.yaml": manifest("ConfigMap", "gone", "shop") + "---\n" + manifest("ConfigMap", "too", "shop"),
    }
    changes = [config_map("a", k="new"), config_map("b"), sweep("ConfigMap", [("shop", "a"), ("shop", "b")])]
    made = plan_mirror(MemoryTree(text(files)), changes, Policy())
    assert made.counts == {"change": 1, "create": 1, "delete": 2}
    assert made.set_aside == ("deploy.sh",)
    assert [(item.path, item.identity) for item in made.actions if item.action == "delete"] == [
        ("gone.yaml", "v1/ConfigMap/shop/gone"),
        ("gone.yaml", "v1/ConfigMap/shop/too"),
    ]


def folder_of(tmp_path: Path, files: dict[str, str]) -> Path:
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    return tmp_path


def test_command_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints each format, ends with 1 only where it is told to refuse, and changes no file."""
    folder = folder_of(tmp_path, {"a.yaml": manifest("ConfigMap", "a", "shop"), "x.sh": ""})
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    call_command("analyze", str(folder))
    assert "x.sh" in capsys.readouterr().out
    call_command("analyze", str(folder), "--format", "json")
    assert json.loads(capsys.readouterr().out)["accepted"] is False
    call_command("analyze", str(folder), "--format", "yaml")
    assert yaml.safe_load(capsys.readouterr().out)["layout"] == "plain"
    with pytest.raises(SystemExit) as ended:
        call_command("analyze", str(folder), "--policy", "refuse")
    assert ended.value.code == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_what_git_ignores_is_not_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Caches and environments are never committed; a file that is committed is seen, also where a pattern
    names it."""
    files = {
        ".gitignore": "cache/\n*.log\n",
        "live/cache/a.bin": "x",
        "live/cache/deep/b.bin": "x",
        "live/run.log": "x",
        "live/kept.log": "x",
        "live/cm.yaml": manifest("ConfigMap", "a", "shop"),
    }
    folder = folder_of(tmp_path / "repo", files)
    for command in (("init", "-q"), ("add", "-f", "live/kept.log")):
        subprocess.run(["git", "-C", str(folder), *command], check=True, timeout=60)
    call_command("analyze", str(folder / "live"), format="json")
    report = json.loads(capsys.readouterr().out)
    assert [issue["path"] for issue in report["issues"]] == ["kept.log"]
    assert report["ignoredByGit"] == 2
    call_command("analyze", str(folder / "live"))
    assert "Left out: 2 paths that Git ignores" in capsys.readouterr().out
    assert ignored_paths(tmp_path / "nowhere") == frozenset()


def test_what_cannot_be_read_is_named_and_accepts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the user may not read is a warning, once; a pipeline does not take it for accepted."""
    folder = folder_of(tmp_path, {"a.yaml": manifest("ConfigMap", "a", "shop"), "sub/b.yaml": "x"})
    read_bytes = Path.read_bytes

    def denied(path: Path) -> bytes:
        if path.name == "b.yaml":
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", denied)
    call_command("analyze", str(folder))
    assert capsys.readouterr().out.count("Warning: sub/b.yaml: Permission denied") == 1
    with pytest.raises(SystemExit) as ended:
        call_command("analyze", str(folder), policy="refuse", format="json")
    assert ended.value.code == 2
    assert json.loads(capsys.readouterr().out)["warnings"] == ["sub/b.yaml: Permission denied"]


def test_command_needs_a_folder(tmp_path: Path) -> None:
    """A folder that does not exist, or a cluster that cannot be read, ends with status 2."""
    with pytest.raises(CommandError) as ended:
        call_command("analyze", str(tmp_path / "none"))
    assert ended.value.returncode == 2
    with pytest.raises(CommandError) as ended:
        call_command("analyze", str(tmp_path), "--kubeconfig", str(tmp_path / "none"))
    assert ended.value.returncode == 2


def test_directory_never_follows_links(tmp_path: Path) -> None:
    """N11: a symlink is listed and never followed; a submodule is recognised; .git is not read."""
    folder = folder_of(
        tmp_path / "repo", {"a.yaml": TILL, ".git/config": "x", "sub/.git": "gitdir: x", "sub/b.sh": ""}
    )
    outside = folder_of(tmp_path / "outside", {"secret.yaml": TILL})
    (folder / "link").symlink_to(outside, target_is_directory=True)
    (folder / "dangling.yaml").symlink_to("/nowhere")
    report = analyze(DirectoryTree(folder))
    assert [(issue.path, issue.kind.value) for issue in report.issues] == [
        ("dangling.yaml", "foreign-symlink"),
        ("link", "foreign-symlink"),
        ("sub", "foreign-submodule"),
    ]
    assert DirectoryTree(folder, repository=tmp_path).read_outside("repo/link/secret.yaml") is None


def two_contexts(given: Path, written: Path) -> Path:
    """A kubeconfig whose current context leads nowhere; the one given is its second context."""
    config = yaml.safe_load(given.read_text())
    (context,) = config["contexts"]
    config["contexts"].append({**context, "name": "second"})
    config["clusters"].append({"name": "away", "cluster": {"server": "http://127.0.0.1:9"}})
    config["contexts"].append({"name": "first", "context": {**context["context"], "cluster": "away"}})
    written.write_text(yaml.safe_dump({**config, "current-context": "first"}))
    return written


def test_command_compares_with_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a kubeconfig the report says what a mirror would create, change and delete; no Secret is read."""
    folder = folder_of(
        tmp_path / "repo",
        {
            "menu.yaml": manifest("ConfigMap", "menu", "default", data={"soup": "old"}),
            "gone.yaml": manifest("ConfigMap", "gone", "default"),
            "gizmo.yaml": manifest("ConfigMap", "g", "default").replace("ConfigMap", "Gizmo"),
        },
    )
    objects = [
        manifest("ConfigMap", "menu", "default", data={"soup": "leek"}),
        manifest("ConfigMap", "other", "default", data={"a": "b"}),
        manifest("Secret", "db", "default", stringData={"k": "zq-MARKER"}),
    ]
    with SandboxServer() as cluster:
        kubectl = [str(Path(sys.executable).parent / "kubectl"), f"--kubeconfig={cluster.kubeconfig_path}"]
        subprocess.run(
            [*kubectl, "apply", "-f", "-"], input="---\n".join(objects), text=True, check=True, timeout=240
        )
        kubeconfig = two_contexts(cluster.kubeconfig_path, tmp_path / "kubeconfig")
        options = ["--kubeconfig", str(kubeconfig), "--namespace", "default", "--format", "json"]
        with pytest.raises(CommandError, match="nowhere") as ended:
            call_command("analyze", str(folder), *options, "--context", "nowhere")
        assert ended.value.returncode == 2
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        capsys.readouterr()
        call_command("analyze", str(folder), *options, "--context", "second", "--type", "configmap")
        unknown = json.loads(capsys.readouterr().out)
        call_command("analyze", str(folder), "--context", "second", *options[2:])
    shown = capsys.readouterr().out
    assert "zq-MARKER" not in shown
    assert unknown["warnings"][-1].startswith("--type configmap: no type that a mirror")
    assert unknown["mirror"]["actions"] == []
    report = json.loads(shown)
    assert [text.split(" is")[0] for text in report["warnings"]] == ["gizmo.yaml: core/Gizmo"]
    found = {(item["action"], item["path"]) for item in report["mirror"]["actions"]}
    assert found >= {
        ("change", "menu.yaml"),
        ("delete", "gone.yaml"),
        ("create", "other.yaml"),
        ("create", "default/secrets/db.sops.yaml"),
    }
