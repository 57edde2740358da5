"""HTTPS servers that receive what the sandbox sends: admission reviews and audit events."""

import base64
import json
import ssl
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from reverser.sandbox.pki import Authority

Obj = dict[str, Any]


class _Receiver:
    """An HTTPS server on loopback; `client_ca` makes it demand a client certificate of that authority."""

    def __init__(self, *, client_ca: bytes | None = None) -> None:
        self.authority = Authority()
        pair = self.authority.serving()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code, answer = outer.answer(self.path, json.loads(body))
                sent = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.cert + pair.key)
            file.flush()
            context.load_cert_chain(file.name)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=client_ca.decode())
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def ca(self) -> str:
        """The authority of its certificate, as `caBundle` wants it."""
        return base64.b64encode(self.authority.pair.cert).decode()

    def answer(self, path: str, body: Any) -> tuple[int, Obj]:
        """Status code and body for a request."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class Webhook(_Receiver):
    """A validating webhook that keeps what it is asked and refuses `deny-me`."""

    def __init__(self) -> None:
        self.reviews: list[Obj] = []
        self.delay = 0.0
        self.code = 200
        self.extra: Obj = {}
        super().__init__()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}/validate"

    def answer(self, path: str, body: Any) -> tuple[int, Obj]:
        """Allow everything else."""
        self.reviews.append({"path": path, "request": body})
        time.sleep(self.delay)
        request = body["request"]
        response: Obj = {"uid": request["uid"], "allowed": request.get("name") != "deny-me"} | self.extra
        if not response["allowed"]:
            response["status"] = {"message": "denied by the lab", "code": 403}
        return self.code, {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": response,
        }


class AuditReceiver(_Receiver):
    """Takes EventLists; answers the first requests with `failures`, in order."""

    def __init__(self, *, failures: tuple[int, ...] = (), client_ca: bytes | None = None) -> None:
        self.batches: list[Obj] = []
        self._failures = list(failures)
        super().__init__(client_ca=client_ca)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}/audit-webhook"

    def answer(self, path: str, body: Any) -> tuple[int, Obj]:
        """Keep the batch unless it is to fail."""
        if self._failures:
            return self._failures.pop(0), {}
        self.batches.append(body)
        return 200, {}
