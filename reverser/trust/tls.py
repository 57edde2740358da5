"""TLS towards servers whose certificates private authorities made: API servers, Git hosts, Redis.

Such authorities seldom write certificates to the letter of RFC 5280: a key identifier or a usage is missing.
kubectl and git accept them, so they are accepted here, while Python refuses them from version 3.13 on. What
makes a certificate trustworthy (signature, chain, name, time) is always checked.
"""

from __future__ import annotations

import ssl

TOO_STRICT = ssl.VERIFY_X509_STRICT


def client_context(*, ca: bytes = b"", ca_file: str = "") -> ssl.SSLContext:
    """A context for a client that trusts ``ca`` (PEM) or ``ca_file`` alone, or with neither what the machine
    trusts. Raises OSError (ssl.SSLError) for a bundle that cannot be read.
    """
    context = ssl.create_default_context(
        cafile=ca_file or None, cadata=ca.decode("ascii", "replace") if ca else None
    )
    context.verify_flags &= ~TOO_STRICT
    return context
