"""The folders of the demo: everything is under one folder, so that removing it removes the demo.

``Places`` is a value; separate functions create folders and find free ports.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
DAG_FOLDERS = {"iceberg-ops": PROJECT / "dags", "demo": PROJECT / "demo" / "dags"}
"""DAG bundle -> folder: the DAGs that users deploy, and those of the demo."""
POLICY = PROJECT / "demo" / "dags" / "policies" / "maintenance.yml"
PREFERRED_PORTS = {"api-server": 8080}
"""By server; a server without one takes any free port."""


@dataclass(frozen=True, slots=True)
class Places:
    """The demo's folders and files under ``root``."""

    root: Path

    @classmethod
    def of(cls, root: Path | None = None) -> Places:
        """The places under ``root``; by default ``build/demo`` of this checkout."""
        return cls((root or PROJECT / "build" / "demo").resolve())

    @property
    def airflow_home(self) -> Path:
        return self.root / "airflow"

    @property
    def catalog_database(self) -> Path:
        return self.root / "catalog.db"

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse"

    @property
    def landing(self) -> Path:
        """The folder of source rows for the jobs."""
        return self.root / "landing"

    @property
    def jobs(self) -> Path:
        """Job specs and reports."""
        return self.root / "jobs"

    @property
    def logs(self) -> Path:
        """Output of the components, one file each. Airflow keeps task logs under ``airflow/logs``."""
        return self.root / "logs"

    def log_of(self, name: str) -> Path:
        """The output of one server or command."""
        return self.logs / f"{name}.log"

    @property
    def pids(self) -> Path:
        return self.root / "pids"

    @property
    def ports_file(self) -> Path:
        return self.root / "ports.json"

    @property
    def secrets_file(self) -> Path:
        return self.root / "secrets.json"

    @property
    def password_file(self) -> Path:
        return self.airflow_home / "passwords.json"

    @property
    def catalogs_file(self) -> Path:
        return self.root / "catalogs.yml"

    @property
    def secret_files(self) -> frozenset[Path]:
        """The files that may hold secrets; only the owner can read them."""
        return frozenset({self.secrets_file, self.password_file, self.catalogs_file})

    def make(self) -> None:
        """Create every folder."""
        for folder in (self.airflow_home, self.warehouse, self.landing, self.jobs, self.logs, self.pids):
            folder.mkdir(parents=True, exist_ok=True)

    def port(self, server: str) -> int:
        """A server's port: chosen once (the preferred one if it is free), recorded, and the same from then on."""
        recorded = self._ports()
        if server not in recorded:
            recorded[server] = free_port(PREFERRED_PORTS.get(server, 0), taken=recorded.values())
            self.ports_file.parent.mkdir(parents=True, exist_ok=True)
            self.ports_file.write_text(json.dumps(recorded) + "\n")
        return recorded[server]

    def api_port(self) -> int:
        """The port of Airflow's api-server."""
        return self.port("api-server")

    def choose_ports_again(self) -> None:
        """Discard recorded ports that another program has taken, so that ``port`` chooses others. Nothing of ours may run."""
        still_free = {server: port for server, port in self._ports().items() if is_free(port)}
        if self.ports_file.is_file():
            self.ports_file.write_text(json.dumps(still_free) + "\n")

    def _ports(self) -> dict[str, int]:
        return dict(json.loads(self.ports_file.read_text())) if self.ports_file.is_file() else {}


def is_free(port: int) -> bool:
    """True if nothing listens on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(preferred: int = 0, *, taken: Collection[int] = ()) -> int:
    """``preferred`` if it is free on loopback, else one that the system chooses and that is not among ``taken``."""
    if preferred and preferred not in taken and is_free(preferred):
        return preferred
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port
