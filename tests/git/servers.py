"""Real Git servers on loopback: ``git http-backend`` behind HTTP(S), and OpenSSH.

Each can be told to misbehave: to demand one kind of login, to answer an error, to hang.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import getpass
import http.server
import ipaddress
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests import needs
from tests.loopback import serving
from tests.ports import free_port


@dataclass
class GitHttp:
    """A running HTTP(S) server over a folder of bare repositories."""

    root: Path
    scheme: str = "http"
    basic: tuple[str, str] | None = None
    bearer: str | None = None
    answer: int | None = None
    """Answer every request with this status."""
    retry_after: str = ""
    """Retry-After header of those answers."""
    read_only: bool = False
    """Answer 403 to everything that concerns receive-pack."""
    hang: threading.Event = field(default_factory=threading.Event)
    """While set, requests are accepted and never answered."""
    port: int = 0
    redirect: str = ""
    """Redirect every request to this server."""
    requests: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def url(self, name: str = "origin.git") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/{name}"


def _handler(state: GitHttp) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            state.requests.append(f"{self.command} {self.path}")

        def _refuse(self, status: int, challenge: str = "") -> None:
            self._body()
            self.send_response(status)
            if challenge:
                self.send_header("WWW-Authenticate", challenge)
            if state.retry_after:
                self.send_header("Retry-After", state.retry_after)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _allowed(self) -> bool:
            given = self.headers.get("Authorization", "")
            if state.basic:
                want = "Basic " + base64.b64encode(":".join(state.basic).encode()).decode()
                return given == want
            return not state.bearer or given == f"Bearer {state.bearer}"

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _serve(self) -> None:
            while state.hang.is_set() and not state.stopped.wait(0.05):
                pass
            state.authorizations.append(self.headers.get("Authorization", ""))
            if state.redirect:
                self.send_response(302)
                self.send_header("Location", state.redirect + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
            if state.answer:
                return self._refuse(state.answer)
            if not self._allowed():
                return self._refuse(401, 'Basic realm="git"' if state.basic else 'Bearer realm="git"')
            if state.read_only and "git-receive-pack" in self.path:
                return self._refuse(403)
            parts = urlsplit(self.path)
            environment = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(state.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_NOSYSTEM": "1",
                "HOME": "/nonexistent",
                "REMOTE_USER": "tester",
                "REMOTE_ADDR": "127.0.0.1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            body = self._body()
            environment["CONTENT_LENGTH"] = str(len(body))
            done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            status, headers = 200, []
            for line in head.decode().split("\r\n"):
                name, _, value = line.partition(": ")
                if name == "Status":
                    status = int(value.split()[0])
                elif name:
                    headers.append((name, value))
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return None

        do_GET = do_POST = _serve

    return Handler


@contextlib.contextmanager
def git_http(root: Path, *, tls: ssl.SSLContext | None = None) -> Iterator[GitHttp]:
    """Serve the bare repositories of a folder; change the yielded state to change its behaviour."""
    state = GitHttp(root, scheme="https" if tls else "http")
    with serving(_handler(state), tls=tls) as state.port:
        try:
            yield state
        finally:
            state.stopped.set()


@dataclass(frozen=True)
class Authority:
    """A private certificate authority with one server and one client certificate (PEM files)."""

    ca: Path
    server: Path
    client_cert: Path
    client_key: Path

    def context(self, *, demand_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        if demand_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


def make_authority(folder: Path) -> Authority:
    """A fresh authority; valid for 127.0.0.1."""
    folder.mkdir(parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_cert = _certificate("Test CA", ca_key, None, None)
    (folder / "ca.pem").write_bytes(ca_cert.public_bytes(Encoding.PEM))
    paths = []
    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        cert = _certificate(name, key, ca_cert, ca_key).public_bytes(Encoding.PEM)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.crt").write_bytes(cert)
        (folder / f"{name}.key").write_bytes(secret)
        (folder / f"{name}.pem").write_bytes(cert + secret)
        paths.append(folder / f"{name}.pem")
    return Authority(folder / "ca.pem", paths[0], folder / "client.crt", folder / "client.key")


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey | None,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(issuer_key or key, hashes.SHA256())


@dataclass
class GitSsh:
    """A running OpenSSH server whose authorized user may only run git."""

    port: int
    root: Path
    host_key: Path
    authority: Path
    log: Path
    user: str

    def url(self, name: str = "origin.git") -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}{self.root}/{name}"

    def known_hosts(self, *, hashed: bool = False) -> bytes:
        key = self.host_key.with_suffix(".pub").read_text().split()
        file = self.host_key.with_name(f"known_hosts-{hashed}")
        file.write_text(f"[127.0.0.1]:{self.port} {key[0]} {key[1]}\n")
        if hashed:
            subprocess.run(["ssh-keygen", "-H", "-f", str(file)], check=True, capture_output=True)
        return file.read_bytes()


def require_sshd() -> str:
    """The sshd binary; skips the test where OpenSSH is not installed."""
    return needs.program("sshd", "ssh", "ssh-keygen")


def ssh_keygen(path: Path, *arguments: str, passphrase: str = "") -> Path:
    """A new key pair made by the real ssh-keygen; skips the test where there is none."""
    subprocess.run(
        [needs.program("ssh-keygen"), "-q", "-N", passphrase, "-C", "test", "-f", str(path), *arguments],
        check=True,
    )
    return path


@contextlib.contextmanager
def git_ssh(folder: Path, root: Path, public_keys: list[str]) -> Iterator[GitSsh]:
    """Serve the bare repositories below ``root`` to the holders of the given public keys."""
    binary = require_sshd()
    folder.mkdir(parents=True, exist_ok=True)
    host_key = ssh_keygen(folder / "host", "-t", "ed25519")
    authority = ssh_keygen(folder / "authority", "-t", "ed25519")
    subprocess.run(
        ["ssh-keygen", "-q", "-s", authority, "-I", "host", "-h", "-n", "127.0.0.1", f"{host_key}.pub"],
        check=True,
    )
    authorized = folder / "authorized"
    command = 'restrict,command="git-shell -c \\"$SSH_ORIGINAL_COMMAND\\""'
    authorized.write_text("".join(f"{command} {key}\n" for key in public_keys))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    log = folder / "log"
    config = folder / "config"
    config.write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {host_key}\nHostCertificate {host_key}-cert.pub\n"
        f"AuthorizedKeysFile {authorized}\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nPidFile none\nLogLevel VERBOSE\n"
    )
    process = subprocess.Popen([binary, "-D", "-f", str(config), "-E", str(log)])
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield GitSsh(port, root, host_key, authority, log, getpass.getuser())
    finally:
        process.terminate()
        process.wait()
