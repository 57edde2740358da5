"""What the pages say can be done, is done here."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reverser.config import SETTINGS, variable_name
from reverser.sandbox.thread import SandboxServer
from tests import needs
from tests.deploy.render import DEPLOY, check_references, helm, kubectl, parsed
from tests.docs.pages import ROOT, Block, anchors, blocks, links, pages

MINE = [page for page in pages() if page.parent.name in {"docs", "kinds"} and page.name != "attribution.md"]
SCRIPTED = [page for page in MINE if any(block.language == "sh" for block in blocks(page))]
MANIFESTS = [
    block
    for page in [*MINE, ROOT / "README.md"]
    for block in blocks(page)
    if block.language == "yaml" and "configbutler.ai/" in block.text
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """A cluster with the definitions."""
    with SandboxServer() as server:
        kubectl("apply", "--server-side", "-f", str(DEPLOY / "crds"), kubeconfig=server.kubeconfig_path)
        kubectl("create", "namespace", "shop", kubeconfig=server.kubeconfig_path)
        yield server.kubeconfig_path


@pytest.mark.parametrize("page", SCRIPTED, ids=lambda page: page.name)
def test_commands_run(page: Path, tmp_path: Path) -> None:
    """The `sh` blocks of a page, in order, as one script on a fresh cluster, from a fresh checkout."""
    for name in ("manage.py", "reverser", "webhooks", "watchers", "gitwriter", "deploy", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    script = "".join(block.text for block in blocks(page) if block.language == "sh")
    for name in needs.PACKAGES:
        if re.search(rf"\b{name}\b(?!-)", script):
            needs.program(name)
    with SandboxServer(finish_namespaces=True) as server:
        kubectl("apply", "--server-side", "-f", str(DEPLOY / "crds"), kubeconfig=server.kubeconfig_path)
        kubectl(
            "apply", "-f", str(DEPLOY / "kustomize/base/namespace.yaml"), kubeconfig=server.kubeconfig_path
        )
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "KUBECONFIG": str(server.kubeconfig_path),
                "REVERSER_STATE_DIR": str(tmp_path / "state"),
            },
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.mark.parametrize("block", MANIFESTS, ids=lambda block: block.name)
def test_manifests_are_accepted(block: Block, cluster: Path) -> None:
    """Every example of a custom resource passes the API server."""
    documents = parsed(block.text)
    out = kubectl("create", "--dry-run=server", "-f", "-", stdin=block.text, kubeconfig=cluster)
    assert out.count("created (server dry run)") == len(documents)


@pytest.mark.parametrize("page", MINE, ids=lambda page: page.name)
def test_yaml_is_yaml(page: Path) -> None:
    """Every YAML block can be read."""
    for block in blocks(page):
        if block.language == "yaml":
            assert list(yaml.safe_load_all(block.text))


def test_helm_commands_render() -> None:
    """What the pages set with --set is what the chart takes."""
    found = 0
    for page in MINE:
        for block in blocks(page):
            for line in block.text.replace("\\\n", " ").splitlines():
                if "helm upgrade" not in line:
                    continue
                found += 1
                values: dict[str, object] = {}
                words = shlex.split(line)
                for flag, word in itertools.pairwise(words):
                    if flag == "--set":
                        path, _, text = word.partition("=")
                        _put(values, path.split("."), yaml.safe_load(text))
                check_references(parsed(helm(values)))
    assert found >= 2


def _put(values: dict[str, object], path: list[str], value: object) -> None:
    for key in path[:-1]:
        inner = values.setdefault(key, {})
        assert isinstance(inner, dict)
        values = inner
    values[path[-1]] = value


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that is there, and a heading that it has."""
    for link in links(page):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_configuration_is_current() -> None:
    """docs/configuration.md is what its script writes now."""
    fresh = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, 'docs'); import build_configuration as b;"
         "sys.stdout.write(b.page())"],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert fresh.stdout == page, "run: python docs/build_configuration.py"


def test_pages_name_settings_that_exist() -> None:
    """A variable that a page names is one of the settings."""
    known = {variable_name(name) + end for name in SETTINGS for end in ("", "_FILE")}
    for page in pages():
        for name in re.findall(r"REVERSER_[A-Z][A-Z_]*[A-Z]", page.read_text()):
            of_tests = name.startswith("REVERSER_TEST_")
            assert of_tests or name in known, f"{page.name}: {name}"


def test_pages_name_values_of_the_chart_that_exist() -> None:
    """What install.md and rbac.md say of chart values is in values.yaml."""
    values = yaml.safe_load((DEPLOY / "chart" / "values.yaml").read_text())
    for page in (ROOT / "docs" / "install.md", ROOT / "docs" / "rbac.md"):
        for path in re.findall(r"`([a-z]\w+(?:\.\w+)+)(?:=[^`]*)?`", page.read_text()):
            if path.split(".")[0] not in values:
                continue
            here = values
            for key in path.split("."):
                assert key in here, f"{page.name}: {path}"
                here = here[key]


def test_every_page_is_in_the_index() -> None:
    """docs/README.md leads to each page."""
    listed = {
        (ROOT / "docs" / link.partition("#")[0]).resolve() for link in links(ROOT / "docs" / "README.md")
    }
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or page in listed, page.name


def test_the_api_server_gets_the_same_flags_however_it_is_run() -> None:
    """docs/attribution.md: kind in both versions of kubeadm's format and k3s, as in the list of flags."""
    found = blocks(ROOT / "docs" / "attribution.md")
    listed = next(block.text for block in found if block.text.startswith("--audit-policy-file="))
    flags = {line[2:] for line in listed.split()}
    yamls = [document for block in found if block.language == "yaml" for document in parsed(block.text)]
    cluster = next(document for document in yamls if document.get("kind") == "Cluster")
    patches = [yaml.safe_load(text) for text in cluster["nodes"][0]["kubeadmConfigPatches"]]
    older, newer = (patch["apiServer"]["extraArgs"] for patch in patches)
    ways = [
        [f"{name}={value}" for name, value in older.items()],
        [f"{arg['name']}={arg['value']}" for arg in newer],
        next(document["kube-apiserver-arg"] for document in yamls if "kube-apiserver-arg" in document),
    ]
    for way in ways:
        assert set(way) <= flags
        assert set(way) == set(ways[0])
    assert [patch["apiVersion"] for patch in patches] == ["kubeadm.k8s.io/v1beta3", "kubeadm.k8s.io/v1beta4"]
