"""The services that give AWS keys, on loopback: STS, an instance's metadata, a container's address, single sign-on.

Each answer has another key, which is good for ``life_s`` seconds from then on. ``is_good`` tells a store in front of which a proxy
stands whether a request is signed with a key that still counts.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.servers.proxy import Request

EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_KEY = re.compile(r"Credential=([^/]+)/")
_METADATA_TOKEN = "metadata-token"


@dataclass(slots=True)
class AwsServices:
    """``asked``: what was asked, as ``METHOD path`` and the fields of a form. ``refusal``: answered instead of keys."""

    port: int = 0
    life_s: float = 3600.0
    good_until: dict[str, float] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    signed_by: list[str | None] = field(default_factory=list)
    refusal: tuple[int, bytes] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next_key(self) -> tuple[str, float]:
        with self.lock:
            key, ends = f"ASIA{len(self.good_until) + 1}", time.time() + self.life_s
            self.good_until[key] = ends
            return key, ends

    def is_good(self, request: Request) -> bool:
        """Whether a request is signed with a key of these services that has not expired."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        found = _KEY.search(headers.get("authorization", ""))
        if found is None or not headers.get("x-amz-security-token", "").endswith(f"token-of-{found[1]}"):
            return False
        return self.good_until.get(found[1], 0.0) > time.time()

    def is_refused(self, request: Request) -> bool:
        return not self.is_good(request)


@contextmanager
def aws_services() -> Iterator[AwsServices]:
    """The services, for the time of a ``with`` block."""
    state = AwsServices()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing."""

        def do_PUT(self) -> None:
            state.asked.append((f"PUT {self.path}", {}))
            self._answer(200, _METADATA_TOKEN.encode())

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            state.asked.append((f"GET {parts.path}", {k: v[0] for k, v in parse_qs(parts.query).items()}))
            if state.refusal is not None:
                self._answer(*state.refusal)
            elif parts.path.startswith("/latest/"):
                self._metadata(parts.path)
            elif parts.path == "/federation/credentials" and self.headers["x-amz-sso_bearer_token"] == "sso-token":
                key, ends = state.next_key()
                found = {"accessKeyId": key, "secretAccessKey": f"secret-of-{key}", "sessionToken": f"token-of-{key}"}
                self._answer(200, json.dumps({"roleCredentials": {**found, "expiration": int(ends * 1000)}}).encode())
            elif parts.path == "/container" and self.headers["Authorization"] == "container-token":
                self._answer(200, _document(state))
            else:
                self._answer(401, b"{}")

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            state.asked.append((f"POST {self.path}", {k: v[0] for k, v in form.items()}))
            signed = _KEY.search(self.headers["Authorization"] or "")
            state.signed_by.append(signed[1] if signed else None)
            if state.refusal is not None:
                self._answer(*state.refusal)
                return
            key, ends = state.next_key()
            at = datetime.fromtimestamp(ends, UTC).isoformat()
            self._answer(
                200,
                f"<R><Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>secret-of-{key}</SecretAccessKey>"
                f"<SessionToken>a&amp;b-token-of-{key}</SessionToken><Expiration>{at}</Expiration></Credentials></R>".encode(),
            )

        def _metadata(self, path: str) -> None:
            if self.headers["X-aws-ec2-metadata-token"] != _METADATA_TOKEN:
                self._answer(401, b"")
            elif path.endswith("/security-credentials/"):
                self._answer(200, b"a-role")
            else:
                self._answer(200, _document(state))

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _document(state: AwsServices) -> bytes:
    key, ends = state.next_key()
    found = {"AccessKeyId": key, "SecretAccessKey": f"secret-of-{key}", "Token": f"token-of-{key}"}
    return json.dumps({**found, "Expiration": datetime.fromtimestamp(ends, UTC).isoformat().replace("+00:00", "Z")}).encode()
