"""The proxy passes requests unchanged, and damages those that a test selects."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.servers.proxy import Answer, Before, ChangedAnswer, CutAnswer, Delay, FaultProxy, LostAnswer, LostRequest

SEEN: list[tuple[str, str, bytes, str | None]] = []


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        SEEN.append((self.command, self.path, body, self.headers.get("Host")))
        self.send_response(201)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", "10")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"0123456789")

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _do

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    SEEN.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with FaultProxy(("127.0.0.1", server.server_address[1])) as made:
        yield made
    server.shutdown()
    server.server_close()
    thread.join()


def _ask(proxy: FaultProxy, method: str = "GET", path: str = "/a%20b?x=%2F", body: bytes | None = None) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    try:
        client.request(method, path, body)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def test_requests_pass_as_they_come(proxy: FaultProxy) -> None:
    assert _ask(proxy, "PUT", body=b"body") == (201, b"0123456789")
    assert _ask(proxy, "HEAD") == (201, b"")
    host = f"127.0.0.1:{proxy.port}"
    assert [("PUT", "/a%20b?x=%2F", b"body", host), ("HEAD", "/a%20b?x=%2F", b"", host)] == SEEN
    assert [(r.method, r.path, r.body, r.status) for r in proxy.requests] == [
        ("PUT", "/a%20b?x=%2F", b"body", 201),
        ("HEAD", "/a%20b?x=%2F", b"", 201),
    ]


def test_one_connection_serves_several_requests_with_chunks(proxy: FaultProxy) -> None:
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    for _ in range(2):
        client.request("PUT", "/c", iter([b"one", b"two"]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        assert client.getresponse().read() == b"0123456789"
    client.close()
    assert [seen[2] for seen in SEEN] == [b"onetwo", b"onetwo"]


def test_an_answer_of_its_own_reaches_the_client_and_not_the_server(proxy: FaultProxy) -> None:
    proxy.spoil(Answer(503, b"SlowDown"), method="GET", path="/a", times=2, after=1)
    assert [_ask(proxy)[0] for _ in range(4)] == [201, 503, 503, 201]
    assert _ask(proxy, "PUT")[0] == 201
    assert len(SEEN) == 3


def test_lost_requests_and_lost_answers_differ_in_what_the_server_saw(proxy: FaultProxy) -> None:
    for fault, seen in ((LostRequest(), 0), (LostAnswer(), 1)):
        proxy.spoil(fault)
        with pytest.raises((http.client.HTTPException, OSError)):
            _ask(proxy, "POST", body=b"x")
        assert len(SEEN) == seen
    assert [r.status for r in proxy.requests] == [None, None]
    proxy.forget()
    assert proxy.requests == []


def test_answers_are_changed_cut_and_delayed(proxy: FaultProxy) -> None:
    happened: list[str] = []
    proxy.spoil(ChangedAnswer.of(502, b"bad gateway"))
    proxy.spoil(CutAnswer(4))
    proxy.spoil(Delay(0.01))
    proxy.spoil(Before(lambda request: happened.append(request.path)))
    assert _ask(proxy) == (502, b"bad gateway")
    with pytest.raises(http.client.IncompleteRead) as cut:
        _ask(proxy)
    assert cut.value.partial == b"0123"
    assert _ask(proxy) == _ask(proxy) == (201, b"0123456789")
    assert happened == ["/a%20b?x=%2F"]
    assert len(SEEN) == 4
