"""The certificate authority of a sandbox and the kubeconfig files that trust it.

One authority signs the serving certificate (loopback names only) and client certificates. With a state
directory the keys survive a restart, so that a kubeconfig handed out once stays valid.
"""

import base64
import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_TEN_YEARS = datetime.timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    cert: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(cert=..., key=***)"


class Authority:
    """Signs certificates; made new in memory, or kept in `folder`."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        stored = self._load("ca")
        if stored is None:
            stored = _self_signed()
            self._save("ca", stored)
        self.pair = stored
        self._cert = x509.load_pem_x509_certificate(stored.cert)
        key = serialization.load_pem_private_key(stored.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(
                "the sandbox's CA key is not an EC key; delete the pki folder of its state directory"
            )
        self._key = key

    def serving(self) -> KeyPair:
        """The certificate for `127.0.0.1`, `::1` and `localhost`."""
        stored = self._load("serving")
        if stored is None:
            names: list[x509.GeneralName] = [
                x509.DNSName("localhost"),
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                x509.IPAddress(ipaddress.ip_address("::1")),
            ]
            stored = self._sign(_name("sandbox", ()), ExtendedKeyUsageOID.SERVER_AUTH, names)
            self._save("serving", stored)
        return stored

    def client(self, user: str, groups: Iterable[str] = ()) -> KeyPair:
        """A client certificate: the common name is the user, the organisations are its groups."""
        return self._sign(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _sign(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: list[x509.GeneralName]
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._cert.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert = builder.sign(self._key, hashes.SHA256())
        return KeyPair(cert.public_bytes(serialization.Encoding.PEM), _pem(key))

    def _load(self, name: str) -> KeyPair | None:
        if self._folder is None or not (self._folder / f"{name}.key").exists():
            return None
        return KeyPair(
            (self._folder / f"{name}.crt").read_bytes(), (self._folder / f"{name}.key").read_bytes()
        )

    def _save(self, name: str, pair: KeyPair) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{name}.crt").write_bytes(pair.cert)
        write_private(self._folder / f"{name}.key", pair.key)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, complete or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def kubeconfig(*, server: str, ca: bytes | None, token: str = "", client: KeyPair | None = None) -> bytes:
    """A kubeconfig (JSON, which every YAML reader takes) with one context named `sandbox`."""
    cluster: dict[str, str] = {"server": server}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    user: dict[str, str] = {}
    if token:
        user["token"] = token
    if client is not None:
        user["client-certificate-data"] = base64.b64encode(client.cert).decode()
        user["client-key-data"] = base64.b64encode(client.key).decode()
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "users": [{"name": "sandbox", "user": user}],
            "contexts": [
                {
                    "name": "sandbox",
                    "context": {"cluster": "sandbox", "user": "sandbox", "namespace": "default"},
                }
            ],
            "current-context": "sandbox",
        },
        option=orjson.OPT_INDENT_2,
    )


def _name(common: str, organisations: Iterable[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in organisations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _TEN_YEARS)
    )


def _self_signed() -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name("sandbox-ca", ())
    builder = _builder(subject, subject, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(
        x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        ),
        critical=True,
    )
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return KeyPair(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
