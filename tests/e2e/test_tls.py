"""The whole product over TLS to Redis, on a web address whose port the system chooses."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from reverser.kube.sync import Kube
from tests.e2e.operator import Operator
from tests.e2e.workspace import CONFIGMAPS, Workspace, until
from tests.git.servers import make_authority
from tests.store.tlsfront import tls_front
from tests.valkey import running_valkey


def test_changes_arrive_over_tls(kubeconfig: Path, tmp_path: Path) -> None:
    """Redis asks for client certificates and shows one of a private authority; web listens on port 0. All
    processes become ready, the address of the admin is told with its port, and a change reaches Git.
    """
    authority = make_authority(tmp_path / "authority")
    with (
        running_valkey() as valkey,
        tls_front(valkey.port, authority.context(demand_client=True)) as port,
    ):
        operator = Operator(
            tmp_path / "state",
            kubeconfig,
            REVERSER_REDIS_URL=(
                f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={authority.ca}"
                f"&ssl_certfile={authority.client_cert}&ssl_keyfile={authority.client_key}"
            ),
            REVERSER_HTTP_ADDR="127.0.0.1:0",
        )
        operator.start()
        try:
            pattern = re.compile(r"admin: (http://127\.0\.0\.1:[1-9]\d*)/admin/")
            told = until(
                lambda: next(filter(None, map(pattern.match, operator.lines)), None), "the address is told"
            )
            with urllib.request.urlopen(f"{told[1]}/readyz", timeout=30) as answer:
                assert answer.status == 200
            (tmp_path / "space").mkdir()
            space = Workspace(Kube.connect(str(kubeconfig)), "over-tls", tmp_path / "space")
            space.configmap("menu", {"v": "soup"})
            space.base(window="0s", rules=[CONFIGMAPS])
            space.in_git("menu", seconds=60)
        finally:
            assert operator.stop() == 0
