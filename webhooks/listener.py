"""A listener on a port of its own: waits for its certificates, serves, follows their changes, ends cleanly.

It is ready once its socket is bound, whether or not a request came yet. It waits for certificates that do not
exist yet, so that a cold start gives a process that is not ready instead of one that fails.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from reverser.errors import SettingsInvalid
from reverser.quantities import Address
from webhooks.server import Application, Limits, Server
from webhooks.tls import Certificates, FilesMissing, FilesUnusable

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
WAIT_SECONDS = 1.0


class Listener:
    """One address, one application."""

    def __init__(
        self,
        name: str,
        setting: str,
        address: Address,
        app: Application,
        *,
        limits: Limits,
        certificates: Certificates | None,
        on_failure: Callable[[], None],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.name = name
        self._setting = setting
        self._address = address
        self._certificates = certificates
        self._on_failure = on_failure
        self._poll_seconds = poll_seconds
        self._server = Server(address, app, limits=limits, certificates=certificates)
        self._serving = threading.Event()
        self._missing = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once it serves."""
        return self._server.port

    def start(self) -> None:
        """Serve as soon as the certificates exist. Raises SettingsInvalid for unusable ones, and for an
        address that cannot be bound.
        """
        if self._certificates is not None:
            try:
                self._certificates.load()
            except FilesMissing as error:
                self._missing = str(error)
                log.warning("%s waits for its certificate: %s", self.name, error)
            except FilesUnusable as error:
                raise SettingsInvalid([f"{self._setting}_CERT_DIR: {error}"]) from error
        if not self._missing:
            self._bind()
        self._thread = threading.Thread(target=self._run, name=f"{self.name} files", daemon=True)
        self._thread.start()

    def serving_check(self) -> str:
        """Why nothing is accepted, or an empty text."""
        if self._serving.is_set():
            return ""
        return f"{self.name} not yet serving" + (f": {self._missing}" if self._missing else "")

    def certificate_check(self) -> str:
        """Why no handshake can succeed, or an empty text."""
        if self._certificates is None or self._certificates.context is not None:
            return ""
        return f"{self.name} has no certificate: {self._missing}"

    def stop(self) -> None:
        """Let requests end, then close. Waits as long as the limits allow."""
        self._stop.set()
        self._serving.clear()
        self._server.stop()
        if self._thread is not None:
            self._thread.join(5)

    def _bind(self) -> None:
        try:
            self._server.prepare()
        except OSError as error:
            raise SettingsInvalid(
                [f"{self._setting}_ADDR: cannot listen on {self._address}: {error}; choose another"]
            ) from error
        self._serving.set()
        threading.Thread(target=self._serve, name=self.name, daemon=True).start()
        log.info("%s serves on %s", self.name, self._address)

    def _serve(self) -> None:
        """Serve until stopped; an unrequested end is a failure of the process."""
        try:
            self._server.serve()
        finally:
            self._serving.clear()
            if not self._stop.is_set():
                log.error("%s ended by itself", self.name)
                self._on_failure()

    def _run(self) -> None:
        while not self._stop.wait(WAIT_SECONDS if self._missing else self._poll_seconds):
            if self._certificates is None:
                continue
            if not self._missing:
                if self._certificates.refresh():
                    log.info("%s uses new certificates", self.name)
                continue
            try:
                self._certificates.load()
                self._missing = ""
                self._bind()
            except (FilesMissing, FilesUnusable) as error:
                self._missing = str(error)
            except SettingsInvalid as error:
                log.error("%s", error)
                self._on_failure()
                return
