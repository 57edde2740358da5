"""One cluster and one operator per test session; one namespace and repository per test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from reverser.kube.sync import Kube
from tests.e2e.audited import alone, board, lab  # noqa: F401
from tests.e2e.beside import Crew
from tests.e2e.cluster import running_cluster, wait_for_cluster
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace

CORE = frozenset({"test_admin.py", "test_pipeline.py", "test_restarts.py", "test_health.py"})
"""What every run of the suite has; the other modules run with ``--acceptance``."""


def pytest_configure(config: pytest.Config) -> None:
    """The marker of scenarios that need more than about 20 s of waiting."""
    config.addinivalue_line("markers", "slow: runs only with REVERSER_TEST_ALL_SLOW=1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here shares one operator, so it stays on one test process and may take longer."""
    here = Path(__file__).parent
    for item in items:
        if here not in Path(item.fspath).parents:
            continue
        item.add_marker(pytest.mark.xdist_group("e2e"))
        item.add_marker(pytest.mark.timeout(600))
        if Path(item.fspath).name not in CORE:
            item.add_marker(pytest.mark.acceptance)
        if item.get_closest_marker("slow") and os.environ.get("REVERSER_TEST_ALL_SLOW") != "1":
            item.add_marker(pytest.mark.skip(reason="slow; set REVERSER_TEST_ALL_SLOW=1"))


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of the cluster under test."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as path:
        yield path


@pytest.fixture(scope="session")
def kube(kubeconfig: Path) -> Kube:
    """A client with the administrator's rights."""
    return wait_for_cluster(kubeconfig)


@pytest.fixture(scope="session")
def shared_operator(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The installation that most tests share."""
    operator = Operator(tmp_path_factory.mktemp("operator") / "state", kubeconfig)
    try:
        operator.start()
        yield operator
        if operator.running:
            assert operator.stop() == 0
    finally:
        if operator.running:
            operator.kill()


@pytest.fixture(scope="session")
def all_beside(
    shared_operator: Operator, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Crew]:
    """The selected scenarios that run side by side."""
    del shared_operator
    names = [
        f"{item.nodeid.partition('.py')[0].replace('/', '.')}.{item.name}"
        for item in request.session.items
        if not item.get_closest_marker("skip")
    ]
    made = Crew(tmp_path_factory.mktemp("beside"), names)
    yield made
    made.close()


@pytest.fixture
def crew(all_beside: Crew, shared_operator: Operator, kube: Kube) -> Crew:
    """They have begun."""
    if not shared_operator.running:
        shared_operator.start()
    all_beside.begin(kube)
    return all_beside


@pytest.fixture
def operator(shared_operator: Operator, all_beside: Crew) -> Operator:
    """The shared installation for one test alone, started again where the test before has left it down."""
    all_beside.wait()
    if not shared_operator.running:
        shared_operator.start()
    return shared_operator


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """What the operator printed during a test that failed belongs to its report."""
    report = yield
    given = getattr(item, "funcargs", {})
    operator = given.get("operator") or given.get("shared_operator")
    if report.when == "call" and report.failed and isinstance(operator, Operator):
        report.sections.append(("operator", "\n".join(operator.lines[-80:])))
    return report


@pytest.fixture
def space(operator: Operator, kube: Kube, tmp_path: Path) -> Iterator[Workspace]:
    """A fresh namespace and repository; the project's objects in it are removed afterwards."""
    del operator
    workspace = Workspace(kube, f"e2e-{uuid.uuid4().hex[:8]}", tmp_path)
    yield workspace
    workspace.remove()
