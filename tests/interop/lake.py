"""One catalog in a sqlite database that Iceberg Java and this package both use, and the operations of tests on its tables."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task, scan_table
from iceberg_ops.data.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.table.table import Table
from tests.data.files import batch_of

Rows = list[str]


class JavaError(AssertionError):
    """Iceberg Java or Spark refused a statement."""


class Java:
    """Iceberg Java in Spark, in a separate process."""

    def __init__(self, jars: Sequence[Path], folder: Path) -> None:
        self._folder = folder
        self._names = itertools.count()
        script = Path(__file__).with_name("java_session.py")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(script.parents[2])}
        environment |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}  # of a Glue on this machine
        self._log = (folder / "java.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(script), ",".join(map(str, jars)), str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment, cwd=folder,
        )  # fmt: skip

    def __call__(self, sql: str) -> None:
        self._ask({"sql": sql})

    def rows(self, sql: str) -> pa.Table:
        path = self._folder / f"answer-{next(self._names)}.arrow"
        self._ask({"sql": sql, "to": str(path)})
        return pa.ipc.open_file(path.read_bytes()).read_all()

    def generics(self, verb: str, table: str, *arguments: Any) -> list[str]:
        """Iceberg Java without Spark (see ``java_generics``): a read's rows as texts."""
        found: list[str] = self._ask({"generics": verb, "table": table, "arguments": list(arguments)}).get("rows", [])
        return sorted(found)

    def unreadable(self, locations: Sequence[str]) -> dict[str, str]:
        """The metadata files among these that Iceberg Java cannot load, each with its error."""
        found: dict[str, str] = self._ask({"metadata": list(locations)})["refused"]
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise JavaError(f"the Java side is gone: {(self._folder / 'java.log').read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        if error := answer.get("error"):
            raise JavaError(f"{command.get('sql', command)}: {error}")
        return answer


def plain(value: Any) -> Any:
    """A value as both sides show it: maps without order, UUIDs (bytes here, text in Spark) and NaN as text."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes) and len(value) == 16:
        return str(uuid.UUID(bytes=value))
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list) and value and all(isinstance(v, tuple) for v in value):
        return sorted(((plain(k), plain(v)) for k, v in value), key=repr)
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


def texts(found: pa.Table) -> Rows:
    """Rows as text, sorted: every difference of value, type or null shows."""
    return sorted(repr(plain(row)) for row in found.to_pylist())


def same(theirs: Rows, ours: Rows, where: str) -> None:
    only_theirs, only_ours = sorted(set(theirs) - set(ours)), sorted(set(ours) - set(theirs))
    assert theirs == ours, (
        f"{where}: {len(theirs)} rows in Java, {len(ours)} here; only Java: {only_theirs[:2]}, only here: {only_ours[:2]}"
    )


@dataclass
class Lake:
    java: Java
    catalog: SqlCatalog
    name: str
    _operations: Any = field(default_factory=itertools.count)

    @property
    def table(self) -> Table:
        return self.catalog.load_table(("ns", self.name))

    @property
    def sql_name(self) -> str:
        return f"{self.catalog.name}.ns.{self.name}"

    # Java's side

    def run_java(self, *statements: str) -> None:
        """Statements in which ``T`` between braces is the table: ``INSERT INTO {T} ...``; ``{N}`` is its name in CALL."""
        for statement in statements:
            self.java(statement.replace("{T}", self.sql_name).replace("{N}", f"ns.{self.name}"))

    def java_rows(self, version: int | str | None = None, columns: str = "*") -> Rows:
        at = "" if version is None else f" VERSION AS OF {version if isinstance(version, int) else repr(version)}"
        return texts(self.java.rows(f"SELECT {columns} FROM {self.sql_name}{at}"))

    # our side

    def our_rows(self, scan: Scan | None = None, columns: Sequence[str] | None = None) -> Rows:
        return texts(scan_table(self.table, scan, columns))

    def create(
        self,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED,
        order: SortOrder = UNSORTED,
        *,
        version: int = 2,
        **properties: str,
    ) -> None:
        named = {k.replace("__", "-").replace("_", "."): v for k, v in properties.items()}
        self.catalog.create_table(
            ("ns", self.name), schema, spec=spec, sort_order=order, properties={"format-version": str(version), **named}
        )

    def write(self, rows: Iterable[Sequence[Any]]) -> list[DataFile]:
        table = self.table
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=self._operation(), fanout=True)
        writer.write(batch_of(table.schema, list(rows)))
        return writer.close()

    def append(self, rows: Iterable[Sequence[Any]], branch: str = "main") -> int:
        added = tuple(self.write(rows))
        return self.commit(AppendFiles(added=added, branch=branch))

    def commit(self, operation: Any) -> int:
        """Commit; the snapshot made, 0 for none."""
        done = commit(self.catalog, self.table, operation)
        return done.snapshot.snapshot_id if done.snapshot else 0

    def evolve(self, change: Callable[[SchemaEvolution], SchemaEvolution]) -> None:
        self.commit(UpdateSchema(schema=change(SchemaEvolution.of_table(self.table.metadata)).apply()))

    def delete_positions(self, ids: set[int], granularity: str = "file") -> int:
        """Position deletes (v2) or deletion vectors (v3) for the rows with these ids; a vector takes over its predecessor."""
        table = self.table
        context = ReadContext.for_table(table.metadata, columns=["id", "_pos"])
        positions: dict[DataFile, list[int]] = {}
        replaced: list[DataFile] = []
        for task in plan(table, Scan()).tasks:
            there = self._positions(table, replace(task, deletes=()), context)
            live = self._positions(table, task, context)
            if not ids & {live[p] for p in live}:
                continue
            positions[task.data_file] = [p for p, id_ in there.items() if p not in live or id_ in ids]
            replaced += [d.data_file for d in task.deletes if d.is_deletion_vector]
        write = WriteContext.for_table(table.metadata)
        if table.metadata.format_version >= 3:
            deletes = write_deletion_vectors(table.io, write, positions, operation_id=self._operation())
        else:
            deletes = write_position_deletes(table.io, write, positions, granularity, operation_id=self._operation())
        return self._delta(table, deletes, replaced)

    def delete_equal(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], partition: Sequence[Any] = ()) -> int:
        """An equality delete file for those values of those columns."""
        table = self.table
        fields = [f for f in table.schema.fields if f.name in columns]
        keys = batch_of(Schema.of(*fields), list(rows))
        context = WriteContext.for_table(table.metadata)
        ids = [f.field_id for f in fields]
        deletes = write_equality_deletes(table.io, context, ids, [keys], partition=partition, operation_id=self._operation())
        return self._delta(table, deletes, [])

    def maintain(self, action: str, **options: Any) -> ActionReport:
        named = {k.replace("_", "-"): str(v) for k, v in options.items()}
        config = CatalogConfig(name=self.catalog.name, type="sql")
        job = JobSpec(job=action, table=self.sql_name, catalog=config, options=named)
        return run_job(job, catalog=self.catalog, runner=LocalRunner(workers=1))

    # both

    def agree(self, expected: int | None = None) -> Rows:
        """Both sides read the same rows now and at every snapshot; the rows now, ``expected`` many."""
        ours = self.our_rows()
        same(self.java_rows(), ours, "now")
        if expected is not None:
            assert len(ours) == expected, f"{len(ours)} rows, {expected} expected: {ours}"
        for snapshot in self.table.metadata.snapshots:
            id_ = snapshot.snapshot_id
            same(self.java_rows(id_), self.our_rows(Scan(snapshot_id=id_)), f"snapshot {id_}")
        return ours

    def _operation(self) -> str:
        return f"{self.name}-{next(self._operations)}"

    def _delta(self, table: Table, deletes: Sequence[DataFile], replaced: Sequence[DataFile]) -> int:
        return self.commit(
            RowDelta(
                added_deletes=tuple(deletes),
                removed_deletes=tuple(replaced),
                starting_snapshot_id=table.metadata.current_snapshot_id,
            )
        )

    @staticmethod
    def _positions(table: Table, task: Any, context: ReadContext) -> dict[int, int]:
        found: dict[int, int] = {}
        for batch in read_task(task, context, table.io):
            found |= dict(zip(batch.column("_pos").to_pylist(), batch.column("id").to_pylist(), strict=True))
        return found
