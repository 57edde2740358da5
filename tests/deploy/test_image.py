"""The image and the compose file, as far as they can be judged without building."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement

from reverser.config import load_config
from tests.deploy.render import DEPLOY, ROOT

DOCKERFILE = (DEPLOY / "image" / "Dockerfile").read_text()


def _lock() -> ModuleType:
    """The script that writes the lock; deploy/ is no package."""
    spec = importlib.util.spec_from_file_location("image_lock", DEPLOY / "image" / "lock.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lock = _lock()


def _as_locked(name: str, version: str) -> Distribution | None:
    """The package as it is installed here, if it is the lock's: what others bring may be newer here."""
    with contextlib.suppress(PackageNotFoundError):
        if (here := distribution(name)).version == version:
            return here
    return None


def test_everything_that_is_copied_exists_and_is_let_through() -> None:
    """Each COPY of the build context names something that is there and that the ignore file lets through."""
    ignored = (DEPLOY / "image" / "Dockerfile.dockerignore").read_text().split()
    sources = [
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source


def test_every_package_of_the_product_is_in_the_image() -> None:
    """The four packages, manage.py and the definitions that --install-crds and the doctor read."""
    for source in ("manage.py", "reverser", "webhooks", "watchers", "gitwriter", "deploy/crds"):
        assert re.search(rf"^COPY {source} /app/", DOCKERFILE, re.MULTILINE), source


def test_it_is_not_root_and_brings_what_it_needs() -> None:
    """User 65532, git and ssh, the Python that the lock was made for, and no address of a package index."""
    assert re.search(r"^USER 65532:65532$", DOCKERFILE, re.MULTILINE)
    assert re.search(r'^ARG DEBIAN="git openssh-client tini"$', DOCKERFILE, re.MULTILINE)
    base = re.search(r"^ARG PYTHON=(\d+)\.(\d+)-", DOCKERFILE, re.MULTILINE)
    assert base
    assert (int(base[1]), int(base[2])) == lock.PYTHON
    for text in (DOCKERFILE, lock.LOCK.read_text(), (DEPLOY / "image" / "lock.py").read_text()):
        assert not re.search(r"index-url|https?://", text)


def test_every_file_from_the_index_is_pinned_by_its_hash() -> None:
    """The image takes what the lock names and nothing else, and nothing is compiled: one wheel for both
    machines, or one for each where it holds compiled parts.
    """
    assert re.findall(r"pip install (.*?) *\\?$", DOCKERFILE, re.MULTILINE) == [
        "--only-binary :all: --require-hashes --requirement /build/requirements.lock"
    ]
    pinned = lock.pins(lock.LOCK.read_text())
    everything = [one for _, hashes in pinned.values() for one in hashes]
    assert len(everything) == len(set(everything))
    for name, (version, hashes) in pinned.items():
        assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes), name
        if here := _as_locked(name, version):
            pure = "-none-any" in (here.read_text("WHEEL") or "")
            assert len(hashes) == (1 if pure else len(lock.MACHINES)), name


WITHOUT = """
import importlib, importlib.metadata as metadata, json, pkgutil, sys

hidden, modules = (set(names) for names in json.load(sys.stdin))
found_by_name = metadata.Distribution.from_name.__func__

class Hide:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in modules:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

def from_name(kind, name):
    if name.lower().replace("_", "-").replace(".", "-") in hidden:
        raise metadata.PackageNotFoundError(name)
    return found_by_name(kind, name)

sys.meta_path.insert(0, Hide)
metadata.Distribution.from_name = classmethod(from_name)

import django
django.setup()
for package in ("reverser", "webhooks", "watchers", "gitwriter"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from gitwriter.manifests.codeprint import codeprint
print(len(codeprint()))
"""


def test_the_product_needs_nothing_that_only_the_tests_have(tmp_path: Path) -> None:
    """With the packages of the lock alone every module can be imported, and the writer can mark what it keeps
    with their versions; no function imports another package later.
    """
    pinned = lock.pins(lock.LOCK.read_text())
    brought = packages_distributions()
    hidden = {lock.plain(name) for names in brought.values() for name in names} - set(pinned)
    modules = {module for module, names in brought.items() if {lock.plain(name) for name in names} <= hidden}
    assert "pytest" in modules
    imported = {
        name.partition(".")[0]
        for package in ("reverser", "webhooks", "watchers", "gitwriter")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _names(node)
    }
    assert imported & modules == set()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=ROOT,
        env={
            "DJANGO_SETTINGS_MODULE": "reverser.settings",
            "REVERSER_STATE_DIR": str(tmp_path),
            "REVERSER_REDIS_URL": "redis://127.0.0.1:1/0",
        },
        input=json.dumps([sorted(hidden), sorted(modules)]),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "32\n"), done.stderr


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def test_the_lock_is_what_is_required_and_all_that_it_brings() -> None:
    """Each package that is installed for the product, directly or for another, has one version in the lock,
    that which the requirements ask for, and the lock holds no other. What a package brings depends on no
    machine.
    """
    pinned = lock.pins(lock.LOCK.read_text())
    wanted = [Requirement(line) for line in lock.wanted()]
    assert {tool.partition("==")[0] for tool in lock.TOOLS} <= {each.name for each in wanted}
    for requirement in wanted:
        assert str(requirement.specifier) == f"=={pinned[lock.plain(requirement.name)][0]}", requirement
    todo = wanted
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        requirement = todo.pop()
        if (key := (lock.plain(requirement.name), frozenset(requirement.extras))) in seen:
            continue
        seen.add(key)
        assert key[0] in pinned, f"{requirement}: run deploy/image/lock.py"
        here = _as_locked(requirement.name, pinned[key[0]][0])
        for text in (here.requires if here else None) or ():
            needed = Requirement(text)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                assert "platform_machine" not in str(needed.marker), needed
                todo.append(needed)
    if all(_as_locked(name, version) for name, (version, _) in pinned.items()):
        assert {name for name, _ in seen} == set(pinned)


def test_a_lock_names_each_file_once_and_the_same_version_for_each_machine() -> None:
    """What is written is read back; two machines with two versions are no lock."""
    one = {"a": ("1", "aa"), "b-c": ("2", "b1")}
    text = lock.merged([one, {**one, "b-c": ("2", "b2")}])
    assert lock.pins(text) == {"a": ("1", ("aa",)), "b-c": ("2", ("b1", "b2"))}
    with pytest.raises(SystemExit, match="b-c: not the same version"):
        lock.merged([one, {**one, "b-c": ("3", "b2")}])
    with pytest.raises(SystemExit, match="a: not the same version"):
        lock.merged([one, {"b-c": one["b-c"]}])


@pytest.mark.parametrize(
    ("base", "release", "refused", "told"),
    [
        ("3.11-slim-trixie", "", False, True),
        ("3.11-slim-trixie", "1", True, True),
        ("3.11-slim-trixie@sha256:00", "", False, False),
        ("3.11-slim-trixie@sha256:00", "1", False, False),
    ],
)
def test_a_release_names_its_base_by_digest(base: str, release: str, refused: bool, told: bool) -> None:
    """The build says so when its base is a tag, which may be another image tomorrow; a release ends there."""
    step = re.search(r"^RUN (case \"\$PYTHON\".*?esac)$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert step
    ran = subprocess.run(
        ["sh", "-c", step[1].replace("\\\n", "")],
        env={"PYTHON": base, "RELEASE": release},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode != 0, f"--build-arg PYTHON={base}@sha256:" in ran.stderr) == (refused, told)


def test_compose_runs_every_process_with_settings_that_exist() -> None:
    """compose.yaml starts each kind of process, hardened, with an environment that the product accepts."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    services = compose["services"]
    assert {"web", "watcher", "worker", "beat", "database"} <= set(services)
    addresses = set()
    for name in ("web", "watcher", "worker", "beat", "database"):
        service = services[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        config = load_config(service["environment"])
        addresses.add(str(config.http_addr if name == "web" else config.health_addr))
    assert len(addresses - {"0.0.0.0:8081"}) == 4, "processes on one host must not share an address"
    assert "noeviction" in services["valkey"]["command"]
    assert Path(ROOT / services["web"]["build"]["dockerfile"]).exists()
