"""The environment of Airflow's components, as plain variables.

One function returns all of it, so that a component, a command and a task have the same; what differs between stacks comes from the
stack. Every listener is on loopback: the api-server is bound to it, and the scheduler starts without its log server, which would
listen on all interfaces.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from demo.credentials import credentials, write_private
from demo.places import DAG_FOLDERS, POLICY, PROJECT, Places
from demo.stack import CATALOG, Stack

USER = "admin"
PARALLELISM = 4
SPARK_DRIVER_MEMORY = "1g"


def airflow_environment(stack: Stack, dag_folders: Mapping[str, Path] = DAG_FOLDERS) -> dict[str, str]:
    """Variables for every Airflow process, on top of the current environment. ``dag_folders``: DAG bundle -> folder."""
    places = stack.places
    port = places.api_port()
    hidden = credentials(places)
    return {
        **_inherited(),
        "AIRFLOW_HOME": str(places.airflow_home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(PARALLELISM),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(places.password_file),
        "AIRFLOW__CORE__FERNET_KEY": hidden["fernet-key"],
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__SECRET_KEY": hidden["api-secret-key"],
        "AIRFLOW__API_AUTH__JWT_SECRET": hidden["jwt-secret"],
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([_bundle(*named) for named in dag_folders.items()]),
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "ICEBERG_OPS_CATALOGS": str(places.catalogs_file),
        "ICEBERG_OPS_JOBS": str(places.jobs),
        "ICEBERG_OPS_LANDING": str(places.landing),
        "ICEBERG_OPS_POLICY": str(POLICY),
        "ICEBERG_OPS_DRIVER_MEMORY": SPARK_DRIVER_MEMORY,
        **stack.environment(),
    }


def write_catalogs_file(stack: Stack) -> None:
    """The same catalog for ``iceberg-ops`` on the command line."""
    entry = {"name": CATALOG, "type": "sql", "properties": stack.catalog_properties()}
    write_private(stack.places.catalogs_file, yaml.safe_dump({"catalogs": [entry]}, sort_keys=False))


def write_password(places: Places) -> str:
    """Create the admin's password before the api-server would print one to its log; later calls return the same one."""
    if places.password_file.is_file():
        return password(places)
    chosen = secrets.token_urlsafe(12)
    write_private(places.password_file, json.dumps({USER: chosen}) + "\n")
    return chosen


def password(places: Places) -> str:
    """The admin's password."""
    return str(json.loads(places.password_file.read_text())[USER])


def _bundle(name: str, folder: Path) -> dict[str, object]:
    return {"name": name, "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {"path": str(folder)}}


def _inherited() -> dict[str, str]:
    """The current environment, with this interpreter first on the path, and without another Airflow's settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "SPARK_", "PYSPARK_"))}
    here = str(Path(sys.executable).parent)
    return {
        **kept,
        "PATH": f"{here}{os.pathsep}{kept.get('PATH', os.defpath)}",
        "PYTHONPATH": str(PROJECT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "PYTHONUNBUFFERED": "1",
    }
