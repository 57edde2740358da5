"""GitProviders from outside: reachability, credentials, host trust, messages and signatures."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from reverser.kube.paths import core_path
from reverser.supervision.gitview import GitView
from tests.e2e.trust import (
    ENCRYPTION,
    SECRETS,
    change,
    change_secret,
    secret,
    secret_data,
    shows,
    verify_commit,
)
from tests.e2e.workspace import CONFIGMAPS, Workspace, until
from tests.git.servers import git_http, git_ssh, require_sshd, ssh_keygen

PASSPHRASE = b"zq-MARKER-passphrase"


def branch_of(space: Workspace, branch: str) -> GitView:
    return GitView(space.repository, branch)


def mirror(space: Workspace, name: str, **provider: Any) -> None:
    """A provider, a target on a branch and a rule of one name."""
    space.provider(name, **provider)
    spec = {"providerRef": {"name": name}, "branch": f"env/{name}", "path": "live"}
    space.apply("gittargets", "GitTarget", name, spec)
    space.rule((CONFIGMAPS,), name=name, target=name)


def raw_commit(repository: Path, commit: str) -> bytes:
    done = subprocess.run(
        ["git", f"--git-dir={repository}", "cat-file", "commit", commit], check=True, capture_output=True
    )
    return done.stdout


def test_a_reachable_empty_repository_stays_empty(space: Workspace) -> None:
    """A01: Ready with the sheet's words; looking at a repository writes nothing to it."""
    space.provider()
    message = shows(space, "gitproviders", "gp", "Ready=True/Ready", seconds=15)
    assert message == f"Repository connectivity validated for file://{space.repository}"
    found = space.get("gitproviders", "gp")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]} == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
    }
    space.quiet()
    refs = subprocess.run(
        ["git", f"--git-dir={space.repository}", "for-each-ref"], check=True, capture_output=True
    )
    assert refs.stdout == b""


def test_credentials_arrive_and_rotate(space: Workspace) -> None:
    """A03, A08: a missing Secret is named, its arrival and its rotation need no restart."""
    with git_http(space.folder) as server:
        server.basic = ("bot", "p4ss")
        space.provider(url=server.url("repo.git"), secretRef={"name": "cred"})
        space.target()
        space.rule()
        message = shows(space, "gitproviders", "gp", "Stalled=True/SecretNotFound")
        assert "'cred'" in message
        assert f"'{space.namespace}'" in message
        secret(space, "cred", {"username": "bot", "password": "p4ss"})
        space.wait_streams()
        space.configmap("menu")
        space.in_git("menu", seconds=45)
        shows(space, "gitproviders", "gp", "Ready=True/Ready", seconds=40)
        server.basic = ("bot", "next")
        change_secret(space, "cred", {"password": "next"})
        space.configmap("rot")
        space.in_git("rot", seconds=60)


def test_every_http_dialect(space: Workspace) -> None:
    """A05, Z9: basic and bearer reach the remote; a login that may only read is told on the provider."""
    with git_http(space.folder) as basic, git_http(space.folder) as bearer, git_http(space.folder) as reading:
        basic.basic, bearer.bearer, reading.read_only = ("bot", "p4ss"), "t0ken", True
        secret(space, "basic", {"username": "bot", "password": "p4ss"})
        secret(space, "bearer", {"bearerToken": "t0ken"})
        mirror(space, "basic", url=basic.url("repo.git"), secretRef={"name": "basic"})
        mirror(space, "bearer", url=bearer.url("repo.git"), secretRef={"name": "bearer"})
        space.provider("reading", url=reading.url("repo.git"))
        space.wait_streams("basic")
        space.wait_streams("bearer")
        space.configmap("menu")
        for name in ("basic", "bearer"):
            git = branch_of(space, f"env/{name}")
            until(lambda git=git: git.read(space.file("menu")), f"menu by {name}")  # type: ignore[misc]
        assert "push" in shows(space, "gitproviders", "reading", "PushPermitted=False/PushRefused")
        assert space.is_condition("gitproviders", "reading", "Ready", "True")


def test_every_ssh_dialect_and_host_trust(space: Workspace) -> None:
    """A05, A06: the three names of an SSH key, both of a passphrase, host keys from each source; a host
    that is not known, or known by another key, is never logged into.
    """
    require_sshd()
    keys = space.folder / "keys"
    keys.mkdir()
    plain, locked = ssh_keygen(keys / "plain"), ssh_keygen(keys / "locked", passphrase="pa55")
    other = ssh_keygen(keys / "other")
    public = [path.with_suffix(".pub").read_text().strip() for path in (plain, locked)]
    with git_ssh(space.folder / "sshd", space.folder, public) as server:
        url, hosts = server.url("repo.git"), server.known_hosts()
        wrong = f"[127.0.0.1]:{server.port} {other.with_suffix('.pub').read_text()}"
        secrets: dict[str, dict[str, bytes | str]] = {
            "unknown": {"identity": plain.read_bytes()},
            "wrong": {"identity": plain.read_bytes(), "known_hosts": wrong},
            "broken": {"identity": plain.read_bytes(), "known_hosts": "no such line"},
            "kubernetes": {"ssh-privatekey": plain.read_bytes(), "known_hosts": hosts},
            "flux": {"identity": plain.read_bytes(), "known_hosts": server.known_hosts(hashed=True)},
            "argo": {"sshPrivateKey": plain.read_bytes()},
            "locked": {
                "ssh-privatekey": locked.read_bytes(),
                "ssh-password": "pa55",
                "known_hosts": hosts,
            },
            "locked-flux": {"identity": locked.read_bytes(), "password": "pa55", "known_hosts": hosts},
        }
        space.kube.create(
            core_path("configmaps", namespace=space.namespace),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "trusted", "namespace": space.namespace},
                "data": {"ssh_known_hosts": hosts.decode()},
            },
        )
        for name, data in secrets.items():
            secret(space, name, data)
        for name in ("unknown", "wrong", "broken"):
            space.provider(name, url=url, secretRef={"name": name})
        message = shows(space, "gitproviders", "unknown", "Stalled=True/SecretMalformed")
        assert "--insecure-allow-missing-known-hosts" in message
        assert "knownHostsRef" in message
        shows(space, "gitproviders", "wrong", "Ready=False/ConnectionFailed")
        shows(space, "gitproviders", "broken", "Stalled=True/SecretMalformed")
        assert "Accepted publickey" not in server.log.read_text()
        trusting = [name for name in secrets if name not in ("unknown", "wrong", "broken")]
        for name in trusting:
            more = {"knownHostsRef": {"name": "trusted"}} if name == "argo" else {}
            mirror(space, name, url=url, secretRef={"name": name}, **more)
        for name in trusting:
            space.wait_streams(name)
        space.configmap("menu")
        for name in trusting:
            git = branch_of(space, f"env/{name}")
            until(lambda git=git: git.read(space.file("menu")), f"menu by {name}", 60)  # type: ignore[misc]
            shows(space, "gitproviders", name, "Ready=True/Ready")


def test_nothing_is_injected(space: Workspace, tmp_path: Path) -> None:
    """A10: options and helpers in a URL or a branch are refused by name; a healthy target goes on."""
    mark = tmp_path / "pwn"
    space.base()
    space.provider("opt", url=f"--upload-pack=touch {mark}", allowedBranches=["*"])
    space.provider("ext", url=f'ext::sh -c "touch {mark}"', allowedBranches=["*"])
    space.provider("ssh", url=f"ssh://-oProxyCommand=touch%20{mark}/x", allowedBranches=["*"])
    space.provider("any", allowedBranches=["*"])
    branches = ("--mirror", "a..b", "x.lock", "re fs")
    for number, branch in enumerate(branches):
        spec = {"providerRef": {"name": "any"}, "branch": branch, "path": f"p{number}"}
        space.apply("gittargets", "GitTarget", f"t{number}", spec)
        space.rule((CONFIGMAPS,), name=f"r{number}", target=f"t{number}")
    space.configmap("menu")
    space.in_git("menu")
    for name in ("opt", "ext", "ssh"):
        message = shows(space, "gitproviders", name, "Stalled=True")
        assert space.condition("gitproviders", name, "Ready")["reason"] in (
            "ConnectionFailed",
            "InvalidConfig",
        )
        assert message
    for number in range(len(branches)):
        shows(space, "gittargets", f"t{number}", "Stalled=True")
        reason = space.condition("gittargets", f"t{number}", "Validated")["reason"]
        assert reason in ("InvalidConfig", "BranchNotAllowed")
    heads = subprocess.run(
        ["git", f"--git-dir={space.repository}", "for-each-ref", "--format=%(refname)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert heads.stdout.split() == ["refs/heads/main"]
    assert not mark.exists()


def test_bad_templates_are_refused_and_good_ones_are_verbatim(space: Workspace) -> None:
    """A11, A13: each bad template is named, nothing is lost meanwhile, and the message is byte for byte."""
    space.base()
    for field, template in (
        ("eventTemplate", "{{.Oops}}"),
        ("groupTemplate", "{{range .Resources}}x"),
        ("reconcileTemplate", "{{if .Group}}{{.Typo}}{{end}}"),
        ("eventTemplate", "{{call .Name}}"),
    ):
        blank = dict.fromkeys(("eventTemplate", "groupTemplate", "reconcileTemplate"))
        change(space, "gitproviders", "gp", {"commit": {"message": {**blank, field: template}}})
        kind = field.removesuffix("Template")
        until(
            lambda kind=kind: kind in space.condition("gitproviders", "gp", "Stalled").get("message", ""),  # type: ignore[misc]
            f"the message names {kind}",
        )
        assert space.is_condition("gitproviders", "gp", "Ready", "False", "CommitConfigInvalid")
        assert space.is_condition("gitproviders", "gp", "Stalled", "True", "CommitConfigInvalid")
    space.configmap("t1")
    space.in_git("t1")
    verbatim = "# {{.Name}}\n\n  indented  \n#tail"
    change(space, "gitproviders", "gp", {"commit": {"message": {"eventTemplate": verbatim}}})
    shows(space, "gitproviders", "gp", "Ready=True/Ready")
    space.configmap("a")
    space.in_git("a")
    _, _, body = raw_commit(space.repository, space.git.tip()).partition(b"\n\n")
    assert body == b"# a\n\n  indented  \n#tail"


def test_every_kind_of_commit_is_signed_by_a_generated_key(space: Workspace) -> None:
    """A16: replay, live change, rebuilt on a foreign commit, sealed Secret; the human's stays as it is."""
    space.configmap("old")
    signing = {"secretRef": {"name": "sig"}, "generateWhenMissing": True}
    message = {"eventTemplate": "{{.Operation}} {{.Name}}\n\n# more\n"}
    space.provider(commit={"signing": signing, "message": message})
    space.target(encryption=ENCRYPTION)
    space.rule((SECRETS,))
    space.wait_streams()
    space.in_git("old")
    shows(space, "gitproviders", "gp", "Ready=True/Ready")
    made = secret_data(space, "sig")
    assert set(made) == {"signing.key", "signing.pub"}
    assert "ownerReferences" not in space.kube.get(space.path("secrets", "sig"))["metadata"]
    key = space.get("gitproviders", "gp")["status"]["signingPublicKey"]
    assert key.startswith("ssh-ed25519 ")
    assert made["signing.pub"].decode().startswith(key)
    space.configmap("a")
    space.in_git("a")
    human = space.seed({"docs/x.md": "by hand\n"})
    space.set("a", "2")
    space.in_git("a", b'v: "2"')
    secret(space, "safe", {"pin": "1"})
    space.in_git("safe", resource="secrets", suffix=".sops.yaml")
    commits = [commit.sha for commit in space.git.log()]
    assert human in commits
    assert not verify_commit(space.repository, human, key, space.folder)
    for commit in commits:
        if commit != human:
            assert 'Good "git" signature' in verify_commit(space.repository, commit, key, space.folder)
    assert space.git.problems() == ""
    assert secret_data(space, "sig") == made


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_users_own_signing_key(space: Workspace, kind: str) -> None:
    """A18: a locked ed25519 key and an RSA key sign; the Secret is not touched."""
    form = PrivateFormat.OpenSSH
    if kind == "rsa":
        private = rsa.generate_private_key(65537, 3072).private_bytes(Encoding.PEM, form, NoEncryption())
        made = secret(space, "sig", {"signing.key": private})
    else:
        locked = BestAvailableEncryption(PASSPHRASE)
        private = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, form, locked)
        made = secret(space, "sig", {"signing.key": private, "passphrase": PASSPHRASE})
    space.provider(commit={"signing": {"secretRef": {"name": "sig"}, "generateWhenMissing": True}})
    space.target()
    space.rule()
    space.wait_streams()
    space.configmap("a")
    space.in_git("a")
    shows(space, "gitproviders", "gp", "Ready=True/Ready")
    key = space.get("gitproviders", "gp")["status"]["signingPublicKey"]
    assert 'Good "git" signature' in verify_commit(space.repository, space.git.tip(), key, space.folder)
    version = space.kube.get(space.path("secrets", "sig"))["metadata"]["resourceVersion"]
    assert version == made["metadata"]["resourceVersion"]
    assert not space.git.contains(PASSPHRASE)
