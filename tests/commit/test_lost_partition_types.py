"""A partition field whose source column is in no schema any more: Iceberg Java's expiry keeps only the schemas of the remaining
snapshots, and every spec in use. The files of such a partition can still be read; no writer may lose their partition."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import UUID as PythonUUID

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.arrow.arrow_values import array_of
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.serde.json.metadata_json import metadata_to_json
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import IDENTITY, Transform, bucket, truncate
from iceberg_ops.spec.types import DATE, INT, LONG, STRING, UUID, DecimalType, IcebergType, NestedField
from iceberg_ops.table.inspection import inspect
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, make_catalog

LEFT = [1, 3, 5, 100, 101]
CASES: list[tuple[IcebergType, Sequence[Any], Transform]] = [
    (INT, (1, 2), IDENTITY),
    (STRING, ("a", "b"), IDENTITY),
    (STRING, ("ax", "bx"), truncate(1)),
    (DATE, (1, 2), IDENTITY),
    (DecimalType(precision=9, scale=2), (Decimal("1.00"), Decimal("2.00")), IDENTITY),
    (UUID, (PythonUUID(int=1), PythonUUID(int=2)), IDENTITY),
]


@dataclass
class Lost:
    """Rows 0 to 5, by turns in two partitions of a spec that is not the table's any more; 0, 2 and 4 are deleted in theirs. Rows
    100 and 101 are in no partition."""

    catalog: MemoryCatalog
    writes: int = 0

    @classmethod
    def of(cls, type_: IcebergType, values: Sequence[Any], transform: Transform) -> Lost:
        schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "k", type_))
        lost = cls(make_catalog())
        spec = PartitionSpec(0, (PartitionField((2,), 1000, transform, "p"),))
        lost.catalog.create_table(IDENTIFIER, schema, spec=spec, properties={"format-version": "2"})
        for half in (range(3), range(3, 6)):
            lost.append(id=list(half), k=[values[i % 2] for i in half])
        lost.delete_in_its_partition([0, 2, 4], values[0])
        metadata = lost.table.metadata
        commit(lost.catalog, lost.table, UpdateSpec(spec=SpecEvolution.of_table(metadata).remove_field("p").apply()))
        evolution = SchemaEvolution.of_table(lost.table.metadata).drop_column("k")
        commit(lost.catalog, lost.table, UpdateSchema(schema=evolution.apply()))
        lost.append(id=[100])
        lost.append(id=[101])
        lost.expire_like_java()
        return lost

    @property
    def table(self) -> Table:
        return self.catalog.load_table(IDENTIFIER)

    def ids(self) -> list[int]:
        return sorted(scan_table(self.table, Scan(), ["id"]).column(0).to_pylist())

    def stored(self) -> set[str]:
        return {info.location for info in self.table.io.list_prefix(self.table.location)}

    def batch(self, columns: dict[str, list[Any]]) -> pa.RecordBatch:
        fields = self.table.schema.fields
        return pa.RecordBatch.from_arrays([array_of(f.type, columns[f.name]) for f in fields], names=[f.name for f in fields])

    def append(self, *, merge: bool = False, **columns: list[Any]) -> None:
        table, self.writes = self.table, self.writes + 1
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"append-{self.writes}")
        writer.write(self.batch(columns))
        commit(self.catalog, table, AppendFiles(added=tuple(writer.close()), merge=merge))

    def delete_in_its_partition(self, ids: list[int], value: Any) -> None:
        table = self.table
        rows = self.batch({"id": ids, "k": [value] * len(ids)})
        partition = next(t.data_file.partition for t in plan(table, Scan()).tasks if 0 in _ids_of(t.data_file))
        context = WriteContext.for_table(table.metadata)
        made = write_equality_deletes(table.io, context, [1], [rows], partition=partition, operation_id="deletes")
        start = table.metadata.current_snapshot_id
        commit(self.catalog, table, RowDelta(added_deletes=tuple(made), starting_snapshot_id=start))

    def run(self, job: str, **options: str) -> ActionReport:
        config = CatalogConfig(name=self.catalog.name, type="memory")
        named = {name.replace("_", "-"): value for name, value in options.items()}
        spec = JobSpec(job=job, table=f"{self.catalog.name}.{'.'.join(IDENTIFIER)}", catalog=config, options=named)
        return run_job(spec, catalog=self.catalog)

    def expire_like_java(self) -> None:
        """``expireSnapshots().cleanExpiredMetadata(true)`` down to one snapshot."""
        table = self.table
        now = table.metadata
        left = replace(
            now,
            schemas=(now.schema,),
            snapshots=tuple(s for s in now.snapshots if s.snapshot_id == now.current_snapshot_id),
            snapshot_log=tuple(e for e in now.snapshot_log if e.snapshot_id == now.current_snapshot_id),
        )
        location = f"{now.location}/metadata/expired.metadata.json"
        table.io.write(location, metadata_to_json(left))
        self.catalog.drop_table(IDENTIFIER)
        self.catalog.register_table(IDENTIFIER, location)


def _ids_of(file: Any) -> range:
    """The ids in a file, by its bounds."""
    low, high = (int.from_bytes(bounds[1], "little") for bounds in (file.lower_bounds, file.upper_bounds))
    return range(low, high + 1)


@pytest.mark.parametrize(("type_", "values", "transform"), CASES, ids=str)
def test_no_row_comes_back(type_: IcebergType, values: Sequence[Any], transform: Transform) -> None:
    """Whatever changes a part of such a manifest would lose the partitions of the others: it is refused, and nothing is changed."""
    lost = Lost.of(type_, values, transform)
    assert lost.ids() == LEFT
    before, stored = lost.table.metadata_location, lost.stored()
    for mode in ("merge-on-read", "copy-on-write"):
        with pytest.raises(UnsupportedError, match=r"field 'p' of partition spec 0 .* no schema of the table has"):
            DeleteRows(where="id = 1", mode=mode).run(lost.catalog, lost.table)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="no schema of the table has"):
        lost.run("convert_equality_deletes")
    assert (lost.table.metadata_location, lost.stored(), lost.ids()) == (before, stored, LEFT)


def test_appends_leave_such_manifests_as_they_are() -> None:
    lost = Lost.of(INT, (1, 2), IDENTITY)
    of_spec_0 = {m.manifest_path for m in manifests_of(lost.table, lost.table.metadata.current_snapshot) if not m.partition_spec_id}
    lost.append(merge=True, id=[102])
    after = {m.manifest_path for m in manifests_of(lost.table, lost.table.metadata.current_snapshot)}
    assert of_spec_0 < after
    assert lost.ids() == [*LEFT, 102]


@pytest.mark.parametrize(("type_", "values", "transform"), CASES, ids=str)
def test_such_manifests_are_shown_and_not_rewritten(type_: IcebergType, values: Sequence[Any], transform: Transform) -> None:
    lost = Lost.of(type_, values, transform)
    shown = inspect(lost.table, "partitions", lost.table.metadata.current_snapshot)
    assert len({json.dumps(row["partition"]) for row in shown}) == 3
    assert lost.run("rewrite_manifests", spec_id="0").status == "nothing-to-do"
    assert lost.ids() == LEFT


def test_a_rewrite_of_all_files_leaves_the_lost_spec() -> None:
    lost = Lost.of(STRING, ("a", "b"), IDENTITY)
    assert lost.run("rewrite_data_files", rewrite_all="true").status == "committed"
    assert {t.data_file.spec_id for t in plan(lost.table, Scan()).tasks} == {lost.table.metadata.default_spec_id}
    assert lost.ids() == LEFT
    DeleteRows(where="id = 1").run(lost.catalog, lost.table)
    assert lost.ids() == LEFT[1:]


def test_partition_values_without_a_type_are_refused_where_they_are_asked_for() -> None:
    lost = Lost.of(INT, (1, 2), IDENTITY)
    with pytest.raises(UnsupportedError, match=r"'p' .* no schema of the table has"):
        scan_table(lost.table, Scan(), ["id", "_partition"])
    with pytest.raises(UnsupportedError, match=r"'p' .* no schema of the table has"):
        lost.run("compute_partition_stats")


def test_values_of_a_transform_that_has_a_type_of_its_own_are_kept() -> None:
    lost = Lost.of(LONG, (1, 2), bucket(8))
    DeleteRows(where="id = 1").run(lost.catalog, lost.table)
    assert lost.ids() == LEFT[1:]
    assert len(scan_table(lost.table, Scan(), ["id", "_partition"])) == len(LEFT) - 1
