"""Certificates of private authorities: what is missing in them, and what is checked all the same."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path

import pytest

from reverser.trust.tls import client_context
from tests.git.servers import make_authority
from tests.store.tlsfront import tls_front
from tests.valkey import running_valkey


def test_a_certificate_without_key_identifiers_is_accepted(tmp_path: Path) -> None:
    """As kubectl and git do, while Python by itself refuses it; another authority's is refused, and so is
    another name's.
    """
    ours, other = make_authority(tmp_path / "ours"), make_authority(tmp_path / "other")

    def greets(context: ssl.SSLContext, *, host: str = "127.0.0.1") -> None:
        connection = http.client.HTTPSConnection(host, front, context=context, timeout=60)
        connection.connect()
        connection.close()

    with running_valkey() as behind, tls_front(behind.port, ours.context()) as front:
        greets(client_context(ca_file=str(ours.ca)))
        greets(client_context(ca=ours.ca.read_bytes()))
        for refused in (
            ssl.create_default_context(cafile=str(ours.ca)),
            client_context(ca=other.ca.read_bytes()),
            client_context(),
        ):
            with pytest.raises(ssl.SSLCertVerificationError):
                greets(refused)
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            greets(client_context(ca_file=str(ours.ca)), host="localhost")


def test_a_bundle_that_is_none(tmp_path: Path) -> None:
    """Said when the context is made."""
    (tmp_path / "ca").write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        client_context(ca_file=str(tmp_path / "ca"))
