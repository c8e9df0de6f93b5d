"""An HTTP proxy between a client and a server that spoils chosen requests: what networks and busy services do.

    with FaultProxy(("127.0.0.1", port)) as proxy:
        proxy.spoil(Answer(503, b"SlowDown"), method="PUT", times=2)       # the server never sees them
        proxy.spoil(LostAnswer(), method="POST", path="/commit")           # the server does it, the client gets no answer
        client = Client(proxy.endpoint)

Requests pass as they came, ``Host`` included, so that signatures stay valid: the client signs the proxy's address. Every request
is recorded (``proxy.requests``), with the status that the client got (None: no answer).
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authorization", "expect"})
"""Headers between two hops, which are created again."""
_SERVER_S = 60.0
_POLL_S = 0.02
"""How soon the proxy notices that it is to end."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came. ``path`` has the query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    status: int | None = None
    """What the client got; None: no answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """The proxy answers itself; the server never sees the request."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LostRequest:
    """The connection ends before the server sees the request."""


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """The server does what it is asked; the connection ends before the client gets an answer."""


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """The server does what it is asked, and the client gets another answer: a gateway's 502 or 504, say."""

    change: Callable[[Reply], Reply]

    @classmethod
    def of(cls, status: int, body: bytes = b"") -> ChangedAnswer:
        return cls(lambda _: Reply(status, (), body))


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """The headers promise the whole body, and the connection ends after ``after`` bytes of it."""

    after: int


@dataclass(frozen=True, slots=True)
class Delay:
    """The request reaches the server late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Before:
    """Something happens right before the request reaches the server: another client comes first."""

    act: Callable[[Request], object]


Fault = Answer | LostRequest | LostAnswer | ChangedAnswer | CutAnswer | Delay | Before


@dataclass(slots=True)
class _Plan:
    fault: Fault
    when: Callable[[Request], bool]
    left: int | None
    after: int


@dataclass(slots=True)
class _State:
    ask_as: Callable[[Request], Request]
    answer_as: Callable[[Reply], Reply]
    plans: list[_Plan] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class FaultProxy:
    """Listens on a free port of the loopback address for the time of a ``with`` block; ``target`` is the server's address.
    ``ask_as`` and ``answer_as`` translate what passes, where the client speaks another dialect than the server."""

    def __init__(
        self,
        target: tuple[str, int],
        *,
        ask_as: Callable[[Request], Request] = lambda request: request,
        answer_as: Callable[[Reply], Reply] = lambda reply: reply,
    ) -> None:
        self._state = state = _State(ask_as, answer_as)

        class Handler(_Handler):
            upstream = target
            shared = state

        self._server = _Listener(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="fault-proxy", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """Those that came since the start, or the last ``forget``, in the order of their ends."""
        with self._state.lock:
            return list(self._state.requests)

    def spoil(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str = "",
        when: Callable[[Request], bool] = lambda _: True,
        times: int | None = 1,
        after: int = 0,
    ) -> None:
        """Spoil the next ``times`` requests (None: all) of a ``method`` whose path holds the text ``path`` and for which ``when``
        is true, after the first ``after`` of them. Of several plans that a request meets, the one that was made first is used."""

        def meets(request: Request) -> bool:
            return method in (None, request.method) and path in request.path and when(request)

        with self._state.lock:
            self._state.plans.append(_Plan(fault, meets, times, after))

    def forget(self) -> None:
        """Spoil nothing more, and forget what was recorded."""
        with self._state.lock:
            self._state.plans.clear()
            self._state.requests.clear()

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is no news here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or a body waits for 40 ms, until the client has acknowledged the headers
    upstream: tuple[str, int]
    shared: _State

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read ``FaultProxy.requests``."""

    def handle_one_request(self) -> None:
        """One method for all verbs."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            self.close_connection = True
            return
        if self.parse_request():
            self._serve()

    def _serve(self) -> None:
        path = self.raw_requestline.split(b" ")[1].decode("latin-1")  # as it came: parse_request takes doubled slashes away
        request = Request(self.command, path, dict(self.headers.items()), self._body())
        self._answer(request, self._fault_of(request))

    def _record(self, request: Request, status: int | None) -> None:
        """Before the client gets the answer: a test that has the answer finds the request."""
        with self.shared.lock:
            self.shared.requests.append(replace(request, status=status))

    def _fault_of(self, request: Request) -> Fault | None:
        with self.shared.lock:
            for plan in self.shared.plans:
                if plan.left == 0 or not plan.when(request):
                    continue
                if plan.after:
                    plan.after -= 1
                    continue
                plan.left = None if plan.left is None else plan.left - 1
                return plan.fault
        return None

    def _answer(self, request: Request, fault: Fault | None) -> None:
        if isinstance(fault, Answer):
            self._send(request, Reply(fault.status, fault.headers, fault.body))
            return
        if isinstance(fault, LostRequest):
            self._lose(request)
            return
        if isinstance(fault, Delay):
            time.sleep(fault.seconds)
        if isinstance(fault, Before):
            fault.act(request)
        try:
            reply = self.shared.answer_as(self._ask(self.shared.ask_as(request)))
        except (OSError, http.client.HTTPException):
            self._lose(request)
            return
        if isinstance(fault, LostAnswer):
            self._lose(request)
            return
        if isinstance(fault, ChangedAnswer):
            reply = fault.change(reply)
        self._send(request, reply, fault.after if isinstance(fault, CutAnswer) else None)

    def _ask(self, request: Request) -> Reply:
        server = http.client.HTTPConnection(*self.upstream, timeout=_SERVER_S)
        try:
            server.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() not in _HOP and name.lower() != "content-length":
                    server.putheader(name, value)
            if request.body or "content-length" in self.headers or "transfer-encoding" in self.headers:
                server.putheader("Content-Length", str(len(request.body)))
            server.putheader("Connection", "close")
            server.endheaders(request.body or None)
            answer = server.getresponse()
            kept = tuple((name, value) for name, value in answer.getheaders() if name.lower() not in _HOP)
            return Reply(answer.status, kept, answer.read())
        finally:
            server.close()

    def _send(self, request: Request, reply: Reply, cut: int | None = None) -> None:
        self._record(request, reply.status)
        self.send_response_only(reply.status)
        for name, value in reply.headers:
            if name.lower() != "content-length" or request.method == "HEAD":
                self.send_header(name, value)
        if request.method != "HEAD" and reply.status not in (204, 304):
            self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if request.method != "HEAD":
            self.wfile.write(reply.body if cut is None else reply.body[:cut])
        if cut is not None:
            self._hang_up()

    def _lose(self, request: Request) -> None:
        self._record(request, None)
        self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the client was faster

    def _body(self) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._chunks()
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            continue
        return found
