"""An HTTP proxy that counts requests and delays each by the same time: a store that is as far away as one likes.

    with delaying_proxy(port_of_the_store) as proxy:
        proxy.begin(delay_ms=20)
        ...                            # clients use proxy.endpoint
        proxy.counts()                 # {"GET": 5, "PUT": 1, "LIST": 1}

It is a process of its own. A request is delayed once, before its first byte reaches the store; bytes pass unchanged in both
directions, and requests on other connections do not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from typing import Any

HOST = "127.0.0.1"
_CONTROL = b"/-/begin/"
_END_OF_HEAD = b"\r\n\r\n"


class DelayingProxy:
    """A running proxy on ``port``."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def begin(self, delay_ms: int) -> Mapping[str, int]:
        """Count from here on, with this delay; what was counted before."""
        client = HTTPConnection(HOST, self.port, timeout=10)
        try:
            client.request("GET", f"{_CONTROL.decode()}{delay_ms}")
            found: dict[str, int] = json.loads(client.getresponse().read())
            return found
        finally:
            client.close()

    def counts(self) -> Mapping[str, int]:
        """Requests since ``begin``, by kind: the method, LIST for a listing, BULK for a delete of many keys. Ends the delay."""
        return self.begin(0)


@contextlib.contextmanager
def delaying_proxy(store_port: int) -> Iterator[DelayingProxy]:
    """A proxy in front of the store on ``store_port`` of this machine."""
    command = [sys.executable, "-m", "benchmarks.delaying_proxy", str(store_port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield DelayingProxy(int(process.stdout.readline()))
        finally:
            process.kill()


class _Shared:
    def __init__(self, store_port: int) -> None:
        self.store_port = store_port
        self.delay_s = 0.0
        self.counts: Counter[str] = Counter()

    def begin(self, delay_ms: int) -> bytes:
        before, self.counts, self.delay_s = self.counts, Counter(), delay_ms / 1000
        text = json.dumps(before).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


class _Client(asyncio.Protocol):
    """A client's connection. ``_waiting`` are bytes for the store that wait for its connection, or for the delay."""

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._head = b""
        self._body = 0
        self._is_chunked = False
        self._end = b""
        self._waiting: list[bytes] = []
        self._is_held = True
        self.store: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport: asyncio.Transport = transport
        self._opening = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: _Store(self), HOST, self._shared.store_port)
        self.store = transport
        self._pass_on()

    def data_received(self, data: bytes) -> None:
        while data:
            if self._body:
                part, data = data[: self._body], data[self._body :]
                self._body -= len(part)
                self._send(part)
            elif self._is_chunked:
                self._end = (self._end + data)[-16:]
                self._is_chunked = not self._end.endswith(b"\r\n\r\n") or b"\r\n0\r\n" not in self._end[-16:]
                self._send(data)
                data = b""
            else:
                self._head += data
                head, separator, data = self._head.partition(_END_OF_HEAD)
                if not separator:
                    return
                self._head = b""
                self._begin(head)

    def _begin(self, head: bytes) -> None:
        line, *rest = head.split(b"\r\n")
        method, path = line.split(b" ")[:2]
        if path.startswith(_CONTROL):
            self.transport.write(self._shared.begin(int(path.removeprefix(_CONTROL))))
            return
        self._shared.counts[_kind(method.decode(), path.decode("latin-1"))] += 1
        headers = {name.lower(): value.strip() for name, _, value in (text.partition(b":") for text in rest)}
        self._body = int(headers.get(b"content-length", 0))
        self._is_chunked, self._end = headers.get(b"transfer-encoding", b"").lower() == b"chunked", b"\r\n"
        self._is_held = self._shared.delay_s > 0
        self._send(head + _END_OF_HEAD)
        if self._is_held:
            asyncio.get_running_loop().call_later(self._shared.delay_s, self._release)

    def _release(self) -> None:
        self._is_held = False
        self._pass_on()

    def _send(self, data: bytes) -> None:
        self._waiting.append(data)
        self._pass_on()

    def _pass_on(self) -> None:
        if self.store is not None and not (self._is_held and self._waiting):
            for data in self._waiting:
                self.store.write(data)
            self._waiting.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self._opening.cancel()
        if self.store is not None:
            self.store.close()

    def pause_writing(self) -> None:
        if self.store is not None:
            self.store.pause_reading()

    def resume_writing(self) -> None:
        if self.store is not None:
            self.store.resume_reading()


class _Store(asyncio.Protocol):
    """The connection to the store that serves one client's connection."""

    def __init__(self, client: _Client) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.transport.close()

    def pause_writing(self) -> None:
        self._client.transport.pause_reading()

    def resume_writing(self) -> None:
        self._client.transport.resume_reading()


def _kind(method: str, path: str) -> str:
    query = path.partition("?")[2]
    if method == "GET" and "list-type=" in query:
        return "LIST"
    return "BULK" if method == "POST" and query.startswith("delete") else method


async def _serve(store_port: int) -> None:
    shared = _Shared(store_port)
    server = await asyncio.get_running_loop().create_server(lambda: _Client(shared), HOST, 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
