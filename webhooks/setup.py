"""The two listeners as the settings ask for them, and the numbers of the index."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from reverser.config import Config
from reverser.errors import SettingsInvalid, StoreUnavailable
from reverser.factmetrics import FACTS
from reverser.store import Store
from webhooks import metrics
from webhooks.admission import MAX_BODY, AdmissionIngress
from webhooks.audit import AuditIngress
from webhooks.listener import Listener
from webhooks.server import Limits
from webhooks.tls import Certificates

log = logging.getLogger(__name__)

ADMISSION_REDIS_SECONDS = 0.3
"""A review must be answered within 2 s, whatever Redis does."""
COUNT_SECONDS = 30.0


def audit_listener(config: Config, redis_url: str, on_failure: Callable[[], None]) -> Listener | None:
    """The audit listener; None while attribution is off."""
    if not config.author_attribution:
        return None
    ingress = AuditIngress(
        Store.connect(redis_url),
        ttl_ms=int(config.author_attribution_ttl * 1000),
        max_body=config.audit_max_request_body_bytes,
        client_names=frozenset(filter(None, (n.strip() for n in config.audit_client_names.split(",")))),
    )
    certificates = None
    if config.audit_insecure:
        log.warning("the audit listener serves plain HTTP and trusts every caller (REVERSER_AUDIT_INSECURE)")
    elif config.audit_cert_dir is None or config.audit_client_ca is None:
        raise SettingsInvalid(["REVERSER_AUDIT_CERT_DIR and REVERSER_AUDIT_CLIENT_CA must both be set"])
    else:
        certificates = Certificates(config.audit_cert_dir, config.audit_client_ca)
    limits = Limits(
        read=config.audit_read_timeout,
        write=config.audit_write_timeout,
        idle=config.audit_idle_timeout,
        body=config.audit_max_request_body_bytes,
    )
    return Listener(
        "audit ingress",
        "REVERSER_AUDIT",
        config.audit_addr,
        ingress,
        limits=limits,
        certificates=certificates,
        on_failure=on_failure,
    )


def admission_listener(config: Config, redis_url: str, on_failure: Callable[[], None]) -> Listener | None:
    """The admission listener; None without its certificates."""
    if config.admission_cert_dir is None:
        return None
    return Listener(
        "admission ingress",
        "REVERSER_ADMISSION",
        config.admission_addr,
        AdmissionIngress(Store.connect(redis_url, deadline_s=ADMISSION_REDIS_SECONDS)),
        limits=Limits(read=5.0, write=5.0, body=MAX_BODY, threads=8),
        certificates=Certificates(config.admission_cert_dir, config.admission_client_ca),
        on_failure=on_failure,
    )


class IndexGauge:
    """The size of the index, and what expires from it unused, as metrics: counted periodically, not at each
    write.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self, stop: threading.Event) -> None:
        """Until ``stop`` is set."""
        while not stop.wait(COUNT_SECONDS):
            try:
                self.count()
            except StoreUnavailable as error:
                log.debug("the size of the attribution index is not known: %s", error)

    def count(self) -> None:
        """Once. Raises StoreUnavailable."""
        total, cursor = 0, 0
        while True:
            cursor, met = self._store.count_fact_keys(cursor)
            total += met
            if cursor == 0:
                break
        metrics.INDEX_SIZE.set(total)
        while gone := self._store.drop_expired():
            FACTS.labels("expired_unmatched").inc(gone)
