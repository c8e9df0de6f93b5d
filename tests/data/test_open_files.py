"""A fan-out writer keeps no more files open than the process limit allows, and an exhausted limit is a terminal error that explains
what to do."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from iceberg_ops.actions.workers.local_runner import attempt
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.actions.workers.stage_answers import answer_of_stage, attempt_stage
from iceberg_ops.data.writing import open_files
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import CatalogUnavailableError, MachineLimitError, RetryableError
from iceberg_ops.io import local
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.machine_limits import limit_error, typed_limits
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from tests.data.files import batch_of, new_io, read, write, write_context
from tests.data.test_fan_out import SCHEMA, SPEC
from tests.data.test_rewrite import SCHEMA as SORTED
from tests.data.test_rewrite import some_rows, work_of

PARTITIONS = 40
SORT = sort_order_to_dict(SortOrder(1, (SortField((1,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),)))


class CountedIO(MemoryFileIO):
    """Knows how many of its outputs are open, and how many were at most."""

    open = most = 0

    def open_output(self, location: str) -> BinaryIO:
        output = super().open_output(location)
        self.open += 1
        self.most = max(self.most, self.open)
        close = output.close

        def counted() -> None:
            self.open -= 0 if output.closed else 1
            close()

        output.close = counted  # type: ignore[method-assign]
        return cast(BinaryIO, output)


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize("most_open", [1, 3, PARTITIONS])
def test_no_more_files_are_open_than_the_writer_may_have(form: str, most_open: int) -> None:
    io = CountedIO(f"counted-{form}-{most_open}")
    properties = {"write.format.default": form}
    writer = PartitionedWriter(
        write_context(SCHEMA, spec=SPEC, properties=properties), io, operation_id="op", most_buffered_bytes=1, most_open=most_open
    )
    rows = [(i % PARTITIONS, f"row {i}") for i in range(4 * PARTITIONS)]
    for start in range(0, len(rows), PARTITIONS // 2):
        writer.write(batch_of(SCHEMA, rows[start : start + PARTITIONS // 2]))
    files = writer.close()
    assert io.most <= most_open + 1
    assert io.open == 0
    assert sorted(read(files, SCHEMA, io, spec=SPEC)) == sorted(rows)
    assert all(len({row[0] for row in read([f], SCHEMA, io, spec=SPEC)}) == 1 for f in files)
    assert len(files) == PARTITIONS if most_open == PARTITIONS else len(files) > PARTITIONS


def test_the_file_that_was_written_to_longest_ago_is_ended_first() -> None:
    writer = PartitionedWriter(write_context(SCHEMA, spec=SPEC), new_io(), operation_id="op", most_buffered_bytes=0, most_open=2)
    for partition in (1, 2, 1, 3):
        writer.write(batch_of(SCHEMA, [(partition, "x")]))
    assert {key for key, rolling in writer._writers.items() if rolling.is_open} == {(1,), (3,)}
    assert sorted(f.partition for f in writer.close()) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_many_partitions_of_few_rows_become_a_file_each_whatever_may_be_open(form: str) -> None:
    """Rows wait in memory until there are enough of them, so that the limit does not make a file of every batch."""
    io = CountedIO(f"few-{form}")
    context = write_context(SCHEMA, spec=SPEC, properties={"write.format.default": form})
    writer = PartitionedWriter(context, io, operation_id="op", most_open=2)
    for _ in range(5):
        writer.write(batch_of(SCHEMA, [(i, "x") for i in range(PARTITIONS)]))
    assert len(writer.close()) == PARTITIONS
    assert io.most == 1


@pytest.mark.parametrize(
    ("limit", "most"), [(1024, 256), (16, 8), (65536, 8192), (resource.RLIM_INFINITY, 8192)], ids=["usual", "low", "high", "none"]
)
def test_a_writer_takes_a_quarter_of_the_open_files_of_the_process(limit: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _: (limit, limit))
    assert open_files.most_open_files() == most


APPEND = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
import pyarrow as pa
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.io.local import LocalFileIO
from tests.data.files import write_context
from tests.data.test_fan_out import SCHEMA, SPEC
from dataclasses import replace
context = replace(write_context(SCHEMA, spec=SPEC, properties={"write.format.default": sys.argv[2]}), table_location=sys.argv[1])
options = {"most_open": 10**6} if sys.argv[3] == "unlimited" else {}
writer = PartitionedWriter(context, LocalFileIO(), operation_id="op", most_buffered_bytes=0, **options)
for _ in range(2):
    writer.write(pa.record_batch({"p": pa.array(range(300), pa.int64()), "s": ["x"] * 300}))
print(sum(f.record_count for f in writer.close()))
"""


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_process_with_few_open_files_writes_many_partitions(tmp_path: Path, form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", APPEND, str(tmp_path), form, "limited"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("600\n", 0), done.stderr


def test_running_out_of_open_files_is_terminal_and_says_which_limit_to_raise(tmp_path: Path) -> None:
    command = [sys.executable, "-c", APPEND, str(tmp_path), "parquet", "unlimited"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "MachineLimitError" in done.stderr
    assert "all of the 100 open files" in done.stderr
    assert "ulimit -n" in done.stderr


def test_the_local_store_tells_its_own_process_s_limit_from_one_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[int, type[BaseException]] = {errno.EMFILE: MachineLimitError, errno.ENFILE: CatalogUnavailableError}
    for number, kind in found.items():

        def fails(*_: object, number: int = number, **__: object) -> None:
            raise OSError(number, "too many")

        monkeypatch.setattr(local, "open", fails, raising=False)
        with pytest.raises(kind, match="/there/is/one"):
            LocalFileIO().read("/there/is/one")
        assert issubclass(kind, RetryableError) is (number == errno.ENFILE)


# Space for temporary files


def _no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_sort_that_can_not_spill_is_the_group_s_typed_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    io = new_io()
    files = [f for i in range(3) for f in write(write_context(SORTED), io, some_rows(300), operation_id=f"in{i}")]
    before = {info.location for info in io.list_prefix("memory://wh")}
    monkeypatch.setattr(tempfile, "mkdtemp", _no_space)
    failure = attempt(work_of(io, files, partition=(), sort_order=SORT, memory_limit_bytes=1_000))
    assert isinstance(failure, GroupFailure)
    assert (failure.code, "TMPDIR" in failure.message) == ("MACHINE_LIMIT", True)
    assert {info.location for info in io.list_prefix("memory://wh")} == before


def _stage(text: str) -> str:
    raise OSError(errno.ENOSPC, "No space left on device", text)


def test_a_stage_answers_with_the_typed_error() -> None:
    with pytest.raises(MachineLimitError, match="TMPDIR"):
        answer_of_stage(attempt_stage(_stage, "/tmp/x"))


def test_no_temporary_folder_at_all_is_the_same_error() -> None:
    with pytest.raises(MachineLimitError, match="TMPDIR"), typed_limits():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")


def test_other_errors_stay_what_they_are() -> None:
    assert limit_error(OSError(errno.EACCES, "no")) is None
    assert limit_error(FileNotFoundError(errno.ENOENT, "no such file", "/x")) is None
    with pytest.raises(PermissionError), typed_limits():
        raise PermissionError(errno.EACCES, "no")
