"""What tasks wrote that nobody answers for does not stay; what the operation had staged before does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from iceberg_ops.io.local import LocalFileIO
from spark_jobs.runners.staged_leftovers import without_leftovers
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def operation() -> str:
    """The id in the names of its files; failed attempts of other operations do not count."""
    return str(uuid.uuid4())


def written(folder: Path, operation: str, *names: str) -> list[str]:
    for name in names:
        (folder / f"{name}-{operation}.parquet").write_bytes(b"x")
    return [str(folder / f"{name}-{operation}.parquet") for name in names]


def names(folder: Path, operation: str) -> list[str]:
    return sorted(p.name.removesuffix(f"-{operation}.parquet") for p in folder.iterdir())


def attempts(session: SparkSession, folder: str, operation: str, fails: Callable[[int], bool]) -> list[str]:
    """One task after another writes a file; those that ``fails`` says die then, which the driver only hears of as a failed job."""

    def write(number: int) -> str:
        path = Path(folder) / f"task{number}-{operation}.parquet"
        path.write_bytes(b"x")
        if fails(number):
            raise OSError("the disk is gone")
        return str(path)

    return session.sparkContext.parallelize(range(2), 2).map(write).collect()


def test_files_of_a_job_that_failed_are_deleted_and_what_was_there_before_stays(place: Place, folder: Path, operation: str) -> None:
    before = written(folder, operation, "before")
    (folder / "others.parquet").write_bytes(b"x")
    with pytest.raises(Exception, match="the disk is gone"):
        without_leftovers(
            place.session,
            LocalFileIO(),
            [str(folder)],
            operation,
            lambda: attempts(place.session, str(folder), operation, lambda number: number == 1),
            lambda files: files,
            before=before,
        )
    assert names(folder, operation) == ["before", "others.parquet"]


ANSWERED = ["before", "task0", "task1"]


@pytest.mark.parametrize(("speculates", "left"), [("false", ["before", "lost", "task0", "task1"]), ("true", ANSWERED)])
def test_a_job_is_looked_after_where_spark_may_have_run_twins(
    place: Place, folder: Path, operation: str, monkeypatch: pytest.MonkeyPatch, speculates: str, left: list[str]
) -> None:
    before = written(folder, operation, "before")
    written(folder, operation, "lost")
    conf = place.session.sparkContext.getConf().set("spark.speculation", speculates)
    monkeypatch.setattr(place.session.sparkContext, "getConf", lambda: conf)
    answer = without_leftovers(
        place.session,
        LocalFileIO(),
        [str(folder)],
        operation,
        lambda: attempts(place.session, str(folder), operation, lambda number: False),
        lambda files: files,
        before=before,
    )
    assert len(answer) == 2
    assert names(folder, operation) == left
