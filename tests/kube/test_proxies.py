"""Which proxy leads to an API server: the environment as kubectl reads it, and the kubeconfig."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reverser.errors import SettingsInvalid
from reverser.kube.credentials import KubeConfig
from reverser.kube.proxies import proxy_for

PROXY = "http://proxy.example.com:3128"


@pytest.mark.parametrize(
    ("left_out", "url", "directly"),
    [
        ("", "https://10.96.0.1", False),
        ("10.96.0.0/12", "https://10.96.0.1:443", True),
        ("10.96.0.1/12", "https://10.97.0.1:443", True),
        ("192.168.0.0/16, 10.0.0.0/8 ,.svc", "https://10.96.0.1", True),
        ("192.168.0.0/16", "https://10.96.0.1", False),
        ("fd00::/8", "https://[fd00::1]:6443", True),
        ("10.0.0.0/8", "https://[fd00::1]:6443", False),
        ("10.0.0.0/99,nonsense/8", "https://10.96.0.1", False),
        ("10.0.0.0/8", "https://api.example.com", False),
        ("10.96.0.1", "https://10.96.0.1", True),
        ("10.96.0.1:443", "https://10.96.0.1", True),
        ("10.96.0.1:6443", "https://10.96.0.1", False),
        ("[fd00::1]:443", "https://[fd00::1]", True),
        ("[fd00::1]", "https://[fd00::1]", True),
        ("fd00::1", "https://[fd00::1]", True),
        (".example.com", "https://api.example.com", True),
        ("*.example.com", "https://api.example.com", True),
        ("example.com", "https://api.example.com", True),
        ("EXAMPLE.com", "https://API.example.com", True),
        ("example.com:6443", "https://api.example.com:6443", True),
        ("example.com:6443", "https://api.example.com", False),
        ("ample.com", "https://api.example.com", False),
        (".api.example.com", "https://api.example.com", False),
        ("0.0.1", "https://10.0.0.1", False),
        ("*", "https://api.example.com", True),
        (" , ,", "https://api.example.com", False),
        ("", "https://127.0.0.1:6443", True),
        ("", "https://127.8.8.8:6443", True),
        ("", "https://[::1]:6443", True),
        ("", "https://localhost:6443", True),
        ("", "http://api.example.com", True),
    ],
)
def test_the_environment(left_out: str, url: str, directly: bool) -> None:
    """NO_PROXY takes ranges, addresses, domains and ports; this machine is never asked through a proxy."""
    environment = {"HTTPS_PROXY": PROXY, "NO_PROXY": left_out}
    assert proxy_for(url, environment) == (None if directly else PROXY)
    small = {name.lower(): value for name, value in environment.items()}
    assert proxy_for(url, small) == (None if directly else PROXY)


def test_a_proxy_without_a_scheme() -> None:
    """``host:port`` is how many write it."""
    assert proxy_for("https://10.0.0.1", {"HTTPS_PROXY": "proxy:3128"}) == "http://proxy:3128"


def _kubeconfig(folder: Path, **cluster: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "clusters": [{"name": "x", "cluster": {"server": "https://10.96.0.1", **cluster}}],
                "users": [{"name": "x", "user": {"token": "t"}}],
            }
        )
    )
    return str(path)


def test_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its proxy-url wins over the environment and over NO_PROXY; one that cannot be spoken is refused."""
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    monkeypatch.delenv("no_proxy", raising=False)
    own = "http://127.0.0.1:3129"
    assert KubeConfig.load(_kubeconfig(tmp_path)).proxy is None
    assert KubeConfig.load(_kubeconfig(tmp_path, **{"proxy-url": own})).proxy == own
    monkeypatch.setenv("NO_PROXY", "")
    assert KubeConfig.load(_kubeconfig(tmp_path)).proxy == PROXY
    with pytest.raises(SettingsInvalid, match="proxy-url"):
        KubeConfig.load(_kubeconfig(tmp_path, **{"proxy-url": "socks5://127.0.0.1:1"}))
