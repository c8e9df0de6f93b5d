"""AWS Glue for tests: moto, with the check and the pages in front that moto lacks.

AWS refuses an ``UpdateTable`` whose ``VersionId`` is not the table's own; moto accepts any. So updates pass one at a time, and one
of another version is answered as AWS answers it, before moto sees it. AWS lists at most 100 tables at once; moto lists all.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers.process import LOOPBACK

_STALE = {"__type": "ConcurrentModificationException", "Message": "Update table failed due to concurrent modifications."}
_UPDATE, _LIST = "AWSGlue.UpdateTable", "AWSGlue.GetTables"
_PAGE = 100


@contextmanager
def checked_glue(moto_port: int) -> Iterator[str]:
    """The endpoint of the Glue in a moto."""
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # as in ``tests.servers.proxy``

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if (call := self.headers["X-Amz-Target"]) != _UPDATE:
                status, found = _asked(moto_port, dict(self.headers), body)
                self._answer(status, _page(json.loads(body), found) if (call, status) == (_LIST, 200) else found)
                return
            with one_at_a_time:
                wanted = json.loads(body)
                table = json.dumps({"DatabaseName": wanted["DatabaseName"], "Name": wanted["TableInput"]["Name"]}).encode()
                status, found = _asked(moto_port, {**self.headers, "X-Amz-Target": "AWSGlue.GetTable"}, table)
                if status == 200 and json.loads(found)["Table"]["VersionId"] != wanted["VersionId"]:
                    answer = 400, json.dumps(_STALE).encode()
                else:
                    answer = _asked(moto_port, dict(self.headers), body)
            self._answer(*answer)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="glue", daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _page(asked: dict[str, Any], answer: bytes) -> bytes:
    """The tables that were asked for of all that moto lists."""
    tables, start = json.loads(answer)["TableList"], int(asked.get("NextToken", 0))
    end = start + min(_PAGE, asked.get("MaxResults", _PAGE))
    return json.dumps({"TableList": tables[start:end], **({"NextToken": str(end)} if end < len(tables) else {})}).encode()


def _asked(port: int, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    client = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
    try:
        sent = {name: value for name, value in headers.items() if name.lower() not in ("content-length", "connection")}
        client.request("POST", "/", body, sent)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()
