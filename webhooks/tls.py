"""Certificates that change while the server runs.

Mounted Secrets are swapped as a whole, by a symbolic link, and a client CA is rotated like any certificate.
Files are compared by content; a complete new set is used by the next handshake, and a set that cannot be used
(half written, not matching) is logged once and the old one stays. Files that are not there yet are waited
for, which is a cold start; files that are there and cannot be used at the start are a mistake.
"""

from __future__ import annotations

import hashlib
import logging
import ssl
from pathlib import Path

log = logging.getLogger(__name__)


class FilesMissing(Exception):
    """A file is not there yet; the message names it."""


class FilesUnusable(Exception):
    """The files are there but make no TLS server; the message names them, never their content."""


class Certificates:
    """``tls.crt`` and ``tls.key`` of a folder, and the CA that clients must be certified by, if any."""

    def __init__(self, folder: Path, client_ca: Path | None = None) -> None:
        self._cert = folder / "tls.crt"
        self._key = folder / "tls.key"
        self._client_ca = client_ca
        self._digest = b""
        self._told = b""
        self.context: ssl.SSLContext | None = None
        """What the next handshake uses; None before the first load."""

    def load(self) -> None:
        """Take the files as they are now. Raises FilesMissing or FilesUnusable."""
        digest = self._read()
        if digest == self._digest:
            return
        self.context = self._make()
        self._digest = digest

    def refresh(self) -> bool:
        """Take changed files; true when they were taken. Unusable ones are logged once, the old ones stay."""
        try:
            before = self._digest
            self.load()
        except (FilesMissing, FilesUnusable) as error:
            told = str(error).encode()
            if told != self._told:
                log.error("new certificates cannot be used, the old ones stay in use: %s", error)
            self._told = told
            return False
        self._told = b""
        return self._digest != before

    def _files(self) -> list[Path]:
        return [self._cert, self._key, *([self._client_ca] if self._client_ca is not None else [])]

    def _read(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for path in self._files():
            try:
                content = path.read_bytes()
            except FileNotFoundError as error:
                raise FilesMissing(f"{path} does not exist yet") from error
            except OSError as error:
                raise FilesUnusable(f"{path} cannot be read: {error.strerror}") from error
            digest.update(len(content).to_bytes(8, "big") + content)
        return digest.digest()

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._cert, self._key, password="")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise FilesUnusable(
                f"{self._cert} and {self._key} are no certificate and its key ({_code(error)})"
            ) from error
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(cafile=self._client_ca)
            except (ssl.SSLError, OSError) as error:
                raise FilesUnusable(f"{self._client_ca} holds no CA certificate ({_code(error)})") from error
        return context


def _code(error: Exception) -> str:
    return str(getattr(error, "reason", None) or type(error).__name__)


def names_of(connection: ssl.SSLSocket) -> frozenset[str]:
    """Common names and alternative names in the client's certificate; empty without one."""
    peer = connection.getpeercert()
    if not peer:
        return frozenset()
    names: set[str] = set()
    subject = peer.get("subject", ())
    for part in subject if isinstance(subject, tuple) else ():
        names.update(str(pair[1]) for pair in part if isinstance(pair, tuple) and pair[0] == "commonName")
    alternative = peer.get("subjectAltName", ())
    for pair in alternative if isinstance(alternative, tuple) else ():
        if isinstance(pair, tuple):
            names.add(str(pair[1]))
    return frozenset(names)
