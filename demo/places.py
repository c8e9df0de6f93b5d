"""The folders of the demo: everything is under one folder, so that removing it removes the demo.

``Places`` is a value; separate functions create folders and find free ports.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
DAG_FOLDERS = {"iceberg-ops": PROJECT / "dags", "demo": PROJECT / "demo" / "dags"}
"""DAG bundle -> folder: the DAGs that users deploy, and those of the demo."""
POLICY = PROJECT / "demo" / "dags" / "policies" / "maintenance.yml"
PREFERRED_PORT = 8080


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

    def make(self) -> None:
        """Create every folder."""
        for folder in (self.airflow_home, self.warehouse, self.landing, self.jobs, self.logs, self.pids):
            folder.mkdir(parents=True, exist_ok=True)

    def api_port(self) -> int:
        """The api-server's port: chosen once (8080 when free, else any free one), recorded, and the same from then on."""
        if self.ports_file.is_file():
            recorded = int(json.loads(self.ports_file.read_text())["api-server"])
            return recorded
        port = free_port(PREFERRED_PORT)
        self.ports_file.parent.mkdir(parents=True, exist_ok=True)
        self.ports_file.write_text(json.dumps({"api-server": port}) + "\n")
        return port

    def choose_port_again(self) -> int:
        """Discard the recorded port if another program has taken it, and choose one that is free now."""
        if not self.ports_file.is_file() or not is_free(self.api_port()):
            self.ports_file.unlink(missing_ok=True)
        return self.api_port()


def is_free(port: int) -> bool:
    """True if nothing listens on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(preferred: int) -> int:
    """``preferred`` if it is free on loopback, else one that the system chooses."""
    if is_free(preferred):
        return preferred
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
