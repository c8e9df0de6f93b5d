"""The environment of the components: loopback only, secrets kept, the same for all, and no settings of another Airflow."""

from __future__ import annotations

import json
import socket
import stat
import sys
from pathlib import Path

import pytest

from demo import settings
from demo.cluster_stack import ClusterStack
from demo.places import Places, free_port, is_free
from demo.printing import size
from demo.stack import LocalStack, Stack

STACKS = (LocalStack, ClusterStack)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places.of(tmp_path / "demo")
    found.make()
    return found


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest, places: Places) -> Stack:
    kind: type[LocalStack] | type[ClusterStack] = request.param
    return kind(places)


def test_every_address_is_on_loopback(stack: Stack) -> None:
    environment = settings.airflow_environment(stack)
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1"
    urls = [v for v in environment.values() if v.startswith("http")]
    assert all(v.startswith("http://127.0.0.1:") for v in urls if "AIRFLOW" in v or "execution" in v)
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_everything_lies_under_the_demos_folder(stack: Stack) -> None:
    environment = settings.airflow_environment(stack)
    for key in ("AIRFLOW_HOME", "ICEBERG_OPS_CATALOGS", "ICEBERG_OPS_JOBS", "ICEBERG_OPS_LANDING"):
        assert environment[key].startswith(str(stack.places.root)), key


def test_secrets_stay_the_same_and_are_the_owners_alone(stack: Stack) -> None:
    first, second = settings.airflow_environment(stack), settings.airflow_environment(stack)
    for key in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API__SECRET_KEY"):
        assert first[key] == second[key]
    settings.write_password(stack.places)
    settings.write_catalogs_file(stack)
    for path in stack.places.secret_files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_another_airflows_settings_are_not_inherited(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW_CONN_PROD", "postgres://prod")
    monkeypatch.setenv("SPARK_HOME", "/opt/other")
    environment = settings.airflow_environment(stack)
    assert environment["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert "AIRFLOW_CONN_PROD" not in environment
    assert "SPARK_HOME" not in environment


def test_tasks_use_this_interpreter(stack: Stack) -> None:
    environment = settings.airflow_environment(stack)
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))


def test_few_tasks_run_at_once(stack: Stack) -> None:
    assert int(settings.airflow_environment(stack)["AIRFLOW__CORE__PARALLELISM"]) <= 4


def test_the_password_is_made_once(places: Places) -> None:
    chosen = settings.write_password(places)
    assert settings.write_password(places) == chosen == settings.password(places)
    assert json.loads(places.password_file.read_text()) == {"admin": chosen}


def test_a_port_is_chosen_once_and_recorded(places: Places) -> None:
    assert places.api_port() == places.api_port()
    assert places.ports_file.is_file()


def test_a_port_in_use_is_not_chosen(places: Places) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        assert free_port(port) != port
        places.ports_file.write_text(json.dumps({"api-server": port, "s3": port}))
        places.choose_ports_again()
        assert port not in (places.api_port(), places.port("s3"))


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 1024**2, "3.0 MiB")])
def test_bytes_in_words(count: int, text: str) -> None:
    assert size(count) == text
