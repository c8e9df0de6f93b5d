"""Other readers of the tables that the demo's jobs wrote: pyiceberg, DuckDB and our own command line agree with the source, at
every snapshot.

The tables are created once; stages run in the order of the demo, and tests after a stage read its result.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from pyspark.sql import SparkSession

from demo.datasets import DATASETS
from demo.expected import expected_rows, ingested_flights
from demo.places import DAG_FOLDERS, Places
from demo.readers import READERS, fingerprint
from demo.settings import write_catalogs_file
from demo.stack import LocalStack, Stack
from demo.story import plant_orphan
from demo.table_states import snapshot_ids, states, table_folder
from iceberg_ops.config.report import ActionReport, TableState
from tests.demo.jobs import DAYS, Jobs

pytestmark = [pytest.mark.spark, pytest.mark.airflow, pytest.mark.oracle, pytest.mark.slow]
NAMES = sorted(DATASETS)


@pytest.fixture(scope="module")
def jobs(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    places = Places.of(tmp_path_factory.mktemp("demo"))
    places.make()
    # Airflow's logging is at INFO; py4j would still log when Python exits, into a stream that pytest has closed.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stack = LocalStack(places)
    write_catalogs_file(stack)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", stack.environment()["AIRFLOW_CONN_ICEBERG_DEFAULT"])
        # Of its own, because the DAGs' settings are made in it.
        made = Jobs(session.newSession(), stack, DagBag(str(DAG_FOLDERS["demo"])))
        made.ingest()
        yield made


@pytest.fixture(scope="module")
def corrected(jobs: Jobs) -> dict[str, ActionReport]:
    return jobs.correct()


@pytest.fixture(scope="module")
def maintained(jobs: Jobs, corrected: dict[str, ActionReport]) -> tuple[list[ActionReport], dict[str, TableState], Path, set[Path]]:
    before = states(jobs.stack)
    planted = plant_orphan(table_folder(jobs.stack, "flights"))
    files = files_of(jobs)
    return jobs.maintain(), before, planted, files


def test_the_daily_loads_bring_every_flight_in_small_files(jobs: Jobs) -> None:
    state = states(jobs.stack)["flights"]
    assert state.records == ingested_flights(DAYS)
    assert state.data_files == 3 * len(DAYS)


def test_a_day_run_twice_leaves_one_copy(jobs: Jobs) -> None:
    before = states(jobs.stack)["flights"]
    assert jobs.append_day(DAYS[0]).status == "already-committed"
    assert states(jobs.stack)["flights"] == before


def test_corrections_write_position_deletes_or_new_files_as_asked(jobs: Jobs, corrected: dict[str, ActionReport]) -> None:
    assert {name: report.status for name, report in corrected.items()} == dict.fromkeys(corrected, "committed")
    now = states(jobs.stack)
    assert now["flights"].delete_files > 0
    assert now["planes"].delete_files == now["weather"].delete_files == 0


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", NAMES)
def test_after_corrections_every_reader_gives_the_sources_answer(
    jobs: Jobs, corrected: dict[str, ActionReport], name: str, reader: str
) -> None:
    _equals_source(jobs.stack, name, reader)


@pytest.mark.parametrize("name", NAMES)
def test_readers_agree_at_every_snapshot(jobs: Jobs, corrected: dict[str, ActionReport], name: str) -> None:
    _agree_at_every_snapshot(jobs.stack, name)


def test_corrections_run_again_change_no_row(jobs: Jobs, corrected: dict[str, ActionReport]) -> None:
    columns = expected_rows("flights", DAYS).schema.names
    before = fingerprint(READERS["pyiceberg"](jobs.stack, "nyc.flights", None), columns)
    jobs.run_task(
        jobs.bag.dags["flights_corrections"].get_task("merge_flights"),
        source={"format": "parquet", "paths": [str(p) for p in (jobs.stack.places.landing / "corrections" / "batch").iterdir()]},
        run_key="merge again",
    )
    assert fingerprint(READERS["pyiceberg"](jobs.stack, "nyc.flights", None), columns) == before


def test_maintenance_leaves_few_files_and_no_deletes(
    jobs: Jobs, maintained: tuple[list[ActionReport], dict[str, TableState]]
) -> None:
    now, before = states(jobs.stack), maintained[1]
    assert {r.status for r in maintained[0]} <= {"committed", "nothing-to-do"}
    assert now["flights"].delete_files == 0
    assert now["flights"].data_files == len(DAYS)
    assert (before["weather"].data_files, now["weather"].data_files) == (36, 12)
    assert now["flights"].snapshots == 2


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", NAMES)
def test_after_maintenance_every_reader_gives_the_sources_answer(jobs: Jobs, maintained: object, name: str, reader: str) -> None:
    _equals_source(jobs.stack, name, reader)


@pytest.mark.parametrize("name", NAMES)
def test_readers_agree_at_every_retained_snapshot(jobs: Jobs, maintained: object, name: str) -> None:
    _agree_at_every_snapshot(jobs.stack, name)


def test_expired_files_are_gone_from_disk(
    jobs: Jobs, maintained: tuple[list[ActionReport], dict[str, TableState], Path, set[Path]]
) -> None:
    expired = {Path(f.removeprefix("file://")) for r in maintained[0] if r.action == "expire_snapshots" for f in r.files}
    assert expired
    assert expired & files_of(jobs) == set()
    assert any(f.suffix == ".parquet" for f in expired)


def test_only_the_planted_orphan_was_removed_as_one(
    jobs: Jobs, maintained: tuple[list[ActionReport], dict[str, TableState], Path, set[Path]]
) -> None:
    reports, _, planted, _ = maintained
    removed = [f.removeprefix("file://") for r in reports if r.action == "remove_orphan_files" for f in r.files]
    assert removed == [str(planted)]
    assert not planted.exists()


def files_of(jobs: Jobs) -> set[Path]:
    """Every file of the warehouse."""
    return {p for p in jobs.stack.places.warehouse.rglob("*") if p.is_file()}


def _equals_source(stack: Stack, name: str, reader: str) -> None:
    wanted = expected_rows(name, DAYS)
    columns = wanted.schema.names
    assert fingerprint(READERS[reader](stack, f"nyc.{name}", None), columns) == fingerprint(wanted, columns)


def _agree_at_every_snapshot(stack: Stack, name: str) -> None:
    columns = [c.name for c in DATASETS[name].columns]
    for snapshot_id in snapshot_ids(stack, name):
        answers = {r: fingerprint(read(stack, f"nyc.{name}", snapshot_id), columns) for r, read in READERS.items()}
        assert len(set(answers.values())) == 1, (snapshot_id, answers)
