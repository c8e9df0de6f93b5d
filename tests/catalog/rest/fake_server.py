"""A REST catalog server in this process, over a memory catalog: the whole protocol that the package speaks, and faults on request.

server = FakeServer()
server.spoil(lost_answer, "POST", "/tables/t")
catalog = server.catalog()
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CommitFailedError,
    IcebergOpsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from iceberg_ops.serde.json.metadata_json import metadata_to_dict
from iceberg_ops.serde.json.partition_json import spec_from_dict
from iceberg_ops.serde.json.schema_json import schema_from_dict
from iceberg_ops.serde.json.sort_json import sort_order_from_dict
from iceberg_ops.serde.json.update_json import requirement_from_dict, update_from_dict
from iceberg_ops.spec.requirements import AssertCreate
from iceberg_ops.table.table import Table
from tests.builders import make_catalog

URI = "http://catalog.test/api"
Serve = Callable[[httpx.Request], httpx.Response]
Fault = Callable[[httpx.Request, Serve], httpx.Response]
_KINDS: tuple[tuple[type[IcebergOpsError], int, str], ...] = (
    (NoSuchTableError, 404, "NoSuchTableException"),
    (NoSuchNamespaceError, 404, "NoSuchNamespaceException"),
    (AlreadyExistsError, 409, "AlreadyExistsException"),
    (CommitFailedError, 409, "CommitFailedException"),
    (BadInputError, 400, "BadRequestException"),
)


def error(status: int, kind: str = "SomeException", message: str = "no", **headers: str) -> httpx.Response:
    """An error in the form of the specification."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, json={"error": {"message": message, "type": kind, "code": status}})


def answers(response: Callable[[], httpx.Response]) -> Fault:
    """The request does not reach the server: something before it answers."""
    return lambda request, serve: response()


def instead(response: Callable[[], httpx.Response]) -> Fault:
    """The server does what it is asked, and the client gets another answer."""

    def fault(request: httpx.Request, serve: Serve) -> httpx.Response:
        serve(request)
        return response()

    return fault


def lost_answer(request: httpx.Request, serve: Serve) -> httpx.Response:
    """The server does what it is asked, and the connection ends."""
    serve(request)
    raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)


def lost_request(request: httpx.Request, serve: Serve) -> httpx.Response:
    """The connection ends before the server has the request; the client cannot tell it from a lost answer."""
    raise httpx.ReadError("connection reset", request=request)


def no_connection(request: httpx.Request, serve: Serve) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


def first(act: Callable[[], object]) -> Fault:
    """Somebody else comes first."""

    def fault(request: httpx.Request, serve: Serve) -> httpx.Response:
        act()
        return serve(request)

    return fault


@dataclass
class FakeServer:
    """``config`` is the answer of ``GET /v1/config``; ``table_config`` and ``credentials`` go with every loaded table."""

    inner: MemoryCatalog = field(default_factory=make_catalog)
    config: dict[str, Any] = field(default_factory=lambda: {"defaults": {}, "overrides": {}})
    table_config: dict[str, str] = field(default_factory=dict)
    credentials: list[dict[str, Any]] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)
    faults: list[tuple[str, str, Fault]] = field(default_factory=list)
    staged: dict[tuple[str, ...], Table] = field(default_factory=dict)

    def catalog(self, properties: Mapping[str, str] | None = None, **options: Any) -> RestCatalog:
        """A client; its files are those of the server's catalog."""
        options = {"io": self.inner.io, "sleep": lambda _: None, "environment": {}, **options}

        def handle(request: httpx.Request) -> httpx.Response:
            return self.handle(request)  # as it is by then: tests put others in front

        return RestCatalog(
            "rest",
            {"uri": URI, **(properties or {})},
            transport=httpx.MockTransport(handle),
            **options,
        )

    def spoil(self, fault: Fault, method: str = "", path: str = "", times: int = 1) -> None:
        """The next ``times`` requests of the method whose path holds ``path``."""
        self.faults += [(method, path, fault)] * times

    def asked(self, method: str, path: str = "") -> list[httpx.Request]:
        """Requests that came."""
        return [r for r in self.requests if r.method == method and path in _path(r)]

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        for i, (method, path, fault) in enumerate(self.faults):
            if method in ("", request.method) and path in _path(request):
                del self.faults[i]
                return fault(request, self.serve)
        return self.serve(request)

    def serve(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._served(request)
        except IcebergOpsError as e:
            for known, status, kind in _KINDS:
                if isinstance(e, known):
                    return error(status, kind, str(e))
            raise

    def _served(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or b"null")
        path = _path(request)
        prefix = f"/{p}" if (p := {**self.config.get("defaults", {}), **self.config.get("overrides", {})}.get("prefix")) else ""
        if path == "/api/v1/config":
            return httpx.Response(200, json=self.config)
        assert path.startswith(f"/api/v1{prefix}/"), path
        rest = path.removeprefix(f"/api/v1{prefix}/")
        if rest == "tables/rename":
            self.inner.rename_table(_identifier(body["source"]), _identifier(body["destination"]))
            return httpx.Response(204)
        parts = re.fullmatch(r"namespaces(?:/([^/]+)(?:/(tables|register)(?:/([^/]+))?)?)?", rest)
        assert parts is not None, rest
        namespace = tuple(unquote(level) for level in parts[1].split("%1F")) if parts[1] else ()
        if parts[2] == "register":
            return self._table(self.inner.register_table((*namespace, body["name"]), body["metadata-location"]))
        if parts[2] is None:
            return self._namespaces(request, namespace, body)
        if parts[3] is None:
            return self._tables(request, namespace, body)
        return self._one_table(request, (*namespace, unquote(parts[3])), body)

    def _namespaces(self, request: httpx.Request, namespace: tuple[str, ...], body: Any) -> httpx.Response:
        match request.method, namespace:
            case "GET", ():
                parent = request.url.params.get("parent", "")
                found = self.inner.list_namespaces(tuple(parent.split("\x1f")) if parent else ())
                return httpx.Response(200, json={"namespaces": found})
            case "POST", ():
                self.inner.create_namespace(tuple(body["namespace"]), body["properties"])
                return httpx.Response(200, json={"namespace": body["namespace"], "properties": body["properties"]})
            case "DELETE", _:
                self.inner.drop_namespace(namespace)
                return httpx.Response(204)
        properties = dict(self.inner.namespace_properties(namespace))
        return httpx.Response(200, json={"namespace": namespace, "properties": properties})

    def _tables(self, request: httpx.Request, namespace: tuple[str, ...], body: Any) -> httpx.Response:
        if request.method == "GET":
            found = [{"namespace": i[:-1], "name": i[-1]} for i in self.inner.list_tables(namespace)]
            return httpx.Response(200, json={"identifiers": found})
        make = self.inner.stage_table if body["stage-create"] else self.inner.create_table
        table = make(
            (*namespace, body["name"]),
            schema_from_dict(body["schema"]),
            spec=spec_from_dict(body["partition-spec"]),
            sort_order=sort_order_from_dict(body["write-order"]),
            location=body.get("location"),
            properties=body["properties"],
        )
        if body["stage-create"]:
            self.staged[*namespace, body["name"]] = table
        return self._table(table)

    def _one_table(self, request: httpx.Request, identifier: tuple[str, ...], body: Any) -> httpx.Response:
        match request.method:
            case "DELETE":
                self.inner.drop_table(identifier)
                return httpx.Response(204)
            case "HEAD":
                return httpx.Response(204 if self.inner.table_exists(identifier) else 404)
            case "POST":
                requirements = [requirement_from_dict(r) for r in body["requirements"]]
                updates = [update_from_dict(u) for u in body["updates"]]
                if AssertCreate() in requirements:
                    return self._table(self.inner.commit_table(self.staged[identifier], requirements, updates[10:]))
                return self._table(self.inner.commit_table(self.inner.load_table(identifier), requirements, updates))
        table = self.inner.load_table(identifier)
        if request.headers.get("If-None-Match") == _etag(table):
            return httpx.Response(304)
        return self._table(table)

    def _table(self, table: Table) -> httpx.Response:
        document: dict[str, Any] = {"metadata": metadata_to_dict(table.metadata), "config": self.table_config}
        document |= {"metadata-location": table.metadata_location or None}
        if self.credentials:
            document["storage-credentials"] = self.credentials
        return httpx.Response(200, json=document, headers={"ETag": _etag(table)})


def _path(request: httpx.Request) -> str:
    """As it was sent."""
    return request.url.raw_path.decode().partition("?")[0]


def _identifier(body: Any) -> tuple[str, ...]:
    return (*body["namespace"], body["name"])


def _etag(table: Table) -> str:
    return f'W/"{hashlib.sha256(table.metadata_location.encode()).hexdigest()[:16]}"'
