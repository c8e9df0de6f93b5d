"""A catalog that is used before and after a fork: each process gets the answers to its own questions."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tests.servers.postgresql import PostgreSQL

PROGRAM = """
    import os, sys
    from iceberg_ops.catalog.load import load_catalog
    from iceberg_ops.config.job_spec import CatalogConfig

    catalog = load_catalog(CatalogConfig(name="c", type={kind!r}, properties={properties!r}))
    {prepare}
    catalog.namespace_properties(("parent1",))  # leaves a connection behind
    child = os.fork()
    me = "parent" if child else "child"
    wrong = sum(catalog.namespace_properties((me + str(n % 5),)) != {{"who": me + str(n % 5)}} for n in range(150))
    if not child:
        os._exit(min(wrong, 100))
    print("wrong answers:", wrong, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
SERVER = """
    import json, threading, time
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            time.sleep(0.002)
            name = self.path.rpartition("/")[2]
            body = json.dumps({"namespace": [name], "properties": {"who": name}, "defaults": {}, "overrides": {}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_rest() -> None:
    program = PROGRAM.format(kind="rest", properties={"uri": "here"}, prepare="").replace("'here'", "server_address")
    address = 'server_address = f"http://127.0.0.1:{server.server_port}"\n'
    assert run(textwrap.dedent(SERVER) + address + textwrap.dedent(program)) == "wrong answers: 0 0"


def test_sql(postgresql_server: PostgreSQL) -> None:
    names = "[catalog.create_namespace((p + str(n),), {'who': p + str(n)}) for p in ('parent', 'child') for n in range(5)]"
    program = PROGRAM.format(kind="sql", properties={"uri": postgresql_server.database()}, prepare=names)
    assert run(textwrap.dedent(program)) == "wrong answers: 0 0"
