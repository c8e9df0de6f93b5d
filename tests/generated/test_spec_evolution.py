"""Tables whose partitioning and columns change between writes: every write still works, and ``_partition`` and partition statistics
agree with the manifests, each value under its field (PART-03, PART-04, PART-12, STAT-05)."""

from __future__ import annotations

import io as bytes_io
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec, UpgradeFormatVersion
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, RowChange, Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import SchemaError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import IDENTITY, bucket, truncate
from iceberg_ops.spec.types import LONG, STRING, NestedField
from iceberg_ops.table.table import Table
from tests.generated.drawing import Draw, for_each_seed, missing

KIND, CASES = "evolving partitions", 30
START = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "region", STRING), NestedField(3, "kind", STRING))
ADDABLE = ("region", "kind", "Region", "extra")
TRANSFORMS = (IDENTITY, bucket(2), truncate(2))


class Lake:
    """One table that is evolved, written and looked at."""

    def __init__(self, draw: Draw, folder: Path) -> None:
        self.draw, self.folder = draw, folder
        self.catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=str(folder))
        self.catalog.create_namespace(("db",))
        self.version = draw.choice([1, 1, 2, 3])
        spec = PartitionSpec(0, (PartitionField((2,), 1000, draw.choice(TRANSFORMS), "p"),) if draw.often(0.5) else ())
        self.catalog.create_table(("db", "t"), START, spec=spec, properties={"format-version": str(self.version)})
        self.next_id = 0
        draw.note(f"v{self.version}")

    @property
    def table(self) -> Table:
        return self.catalog.load_table(("db", "t"))

    def run(self, job: str, **parts: Any) -> None:
        config = CatalogConfig(name="test", type="filesystem", properties={})
        run_job(JobSpec(job=job, table="test.db.t", catalog=config, lane="local", **parts), catalog=self.catalog)

    def append(self) -> None:
        schema, rows = self.table.schema, self.draw.randint(1, 5)
        columns: dict[str, Any] = {}
        for f in schema.fields:
            if f.name == "id":
                columns[f.name] = pa.array(range(self.next_id, self.next_id + rows), pa.int64())
            else:
                columns[f.name] = pa.array([self.draw.choice([None, "eu", "us", "asia"]) for _ in range(rows)], pa.string())
        self.next_id += rows
        path = self.folder / f"in-{self.next_id}.parquet"
        schema_ = pa.schema([pa.field(n, c.type, nullable=n != "id") for n, c in columns.items()])
        pq.write_table(pa.table(list(columns.values()), schema_), path)
        self.run("append", source=Source(format="parquet", paths=[str(path)]))

    def change_spec(self) -> None:
        table = self.table
        evolution = SpecEvolution.of_table(table.metadata)
        live = [f for f in table.metadata.spec.fields if not f.transform.is_void]
        what = self.draw.choice(["add partition", "add partition", "drop partition", "rename partition"])
        try:
            if what == "add partition":
                column = self.draw.choice(table.schema.fields).name
                evolution.add_field(column, self.draw.choice(TRANSFORMS), self.draw.choice([None, None, f"p_{column}"]))
            elif live:
                f = self.draw.choice(live)
                evolution = (
                    evolution.remove_field(f.name) if what == "drop partition" else evolution.rename_field(f.name, f"{f.name}_r")
                )
            spec = evolution.apply()
        except SchemaError:
            return
        self.draw.note(what)
        commit(self.catalog, table, UpdateSpec(spec=spec))

    def change_schema(self) -> None:
        table = self.table
        evolution = SchemaEvolution.of_table(table.metadata)
        what = self.draw.choice(["drop column", "add column"])
        names = [f.name for f in table.schema.fields if f.name != "id"]
        used = {f.source_id for f in table.metadata.spec.fields if not f.transform.is_void}
        droppable = [n for n in names if table.schema.ids_by_name[n] not in used]
        gone = self.draw.choice(droppable) if droppable and what != "add column" else None
        if gone is not None:
            evolution.drop_column(gone)
        if what == "add column":
            name = self.draw.choice(ADDABLE)
            if name.lower() in {n.lower() for n in names if n != gone}:
                return
            evolution.add_column(name, STRING)
        self.draw.note(what)
        commit(self.catalog, table, UpdateSchema(schema=evolution.apply()))

    def replace_column(self) -> None:
        """Stop partitioning by a column, replace it by another one of its name, perhaps partition by that."""
        table = self.table
        live = [f for f in table.metadata.spec.fields if not f.transform.is_void]
        sources = {table.schema.name_of(f.source_id) for f in live} - {"id"}
        if not sources:
            return
        column = self.draw.choice(sorted(sources))
        evolution = SpecEvolution.of_table(table.metadata)
        for f in live:
            if table.schema.name_of(f.source_id) == column:
                evolution.remove_field(f.name)
        commit(self.catalog, table, UpdateSpec(spec=evolution.apply()))
        self.append()
        table = self.table
        again = SchemaEvolution.of_table(table.metadata).drop_column(column).add_column(column, STRING)
        commit(self.catalog, table, UpdateSchema(schema=again.apply()))
        self.append()
        if self.draw.often(0.7):
            table = self.table
            gone = next(f.transform for f in live if f.source_id not in table.schema.fields_by_id)
            transform = gone if self.draw.often(0.7) else self.draw.choice(TRANSFORMS)
            spec = SpecEvolution.of_table(table.metadata).add_field(column, transform).apply()
            commit(self.catalog, table, UpdateSpec(spec=spec))
        self.draw.note("drop and add column")

    def step(self) -> None:
        steps = ["append", "append", "append", "spec", "spec", "schema", "replace", "delete", "update", "rewrite", "upgrade"]
        what = self.draw.choice(steps)
        if what == "append":
            self.append()
        elif what == "spec":
            self.change_spec()
        elif what == "schema":
            self.change_schema()
        elif what == "replace":
            self.replace_column()
        elif what == "delete":
            self.run("delete", where=f"id = {self.draw.randint(0, 30)}", change=RowChange(mode="copy-on-write"))
        elif what == "update" and "kind" in self.table.schema.ids_by_name:
            self.run("update", where="id < 5", change=RowChange(mode="copy-on-write", set={"kind": "'new'"}))
        elif what == "rewrite":
            self.run("rewrite_data_files", options={"min-input-files": "2"})
        elif what == "upgrade" and self.version < 3 and self.draw.often(0.3):
            self.version += 1
            commit(self.catalog, self.table, UpgradeFormatVersion(format_version=self.version))
        self.draw.note(what)


def expected(table: Table, file: DataFile) -> Counter[tuple[int, str]]:
    """(field id, value) of each partition value of a file that is not null."""
    fields = table.metadata.specs_by_id[file.spec_id].fields
    return Counter((f.field_id, repr(v)) for f, v in zip(fields, file.partition, strict=True) if v is not None)


def given(type_: pa.StructType, value: dict[str, Any]) -> Counter[tuple[int, str]]:
    ids = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in type_}
    assert len(ids) == type_.num_fields, "names of _partition are not distinct"
    return Counter((ids[name], repr(v)) for name, v in value.items() if v is not None)


def check_table(table: Table) -> None:
    files = {task.file_path: task.data_file for task in plan(table, Scan()).tasks}
    shown = scan_table(table, Scan(), columns=["id", "_file", "_partition"])
    type_ = shown.schema.field("_partition").type
    for row in shown.to_pylist():
        assert given(type_, row["_partition"] or {}) == expected(table, files[row["_file"]]), f"_partition of {row}"
    used = {f.field_id for s in table.metadata.partition_specs for f in s.fields}
    assert {int(f.metadata[b"PARQUET:field_id"]) for f in type_} == used


def check_statistics(table: Table) -> None:
    (file,) = table.metadata.partition_statistics[-1:]
    found = pq.read_table(bytes_io.BytesIO(table.io.read(file.statistics_path)))
    type_ = found.schema.field("partition").type
    rows = Counter()
    for row in found.to_pylist():
        rows[row["spec_id"], frozenset(given(type_, row["partition"]).items())] += row["data_record_count"]
    wanted: Counter[Any] = Counter()
    for task in plan(table, Scan()).tasks:
        f = task.data_file
        wanted[f.spec_id, frozenset(expected(table, f).items())] += f.record_count
    assert rows == wanted


def check(draw: Draw, folder: Path) -> None:
    lake = Lake(draw, folder / str(draw.seed))
    lake.append()
    for _ in range(draw.randint(4, 14)):
        lake.step()
    lake.append()
    table = lake.table
    check_table(table)
    if any(s.fields for s in table.metadata.partition_specs):
        lake.run("compute_partition_stats")
        check_statistics(lake.table)
    voids = [f for f in table.metadata.spec.fields if f.transform.is_void]
    if any(f.source_id not in table.schema.fields_by_id for f in voids):
        draw.note("void of a dropped column")
    names = [f.name for s in table.metadata.partition_specs for f in s.fields]
    ids = {f.field_id for s in table.metadata.partition_specs for f in s.fields}
    draw.note(*(["one name of several fields"] if len(set(names)) < len(ids) else []))


def test_whatever_the_partitioning_was_writes_go_on_and_values_stand_under_their_fields(tmp_path: Path) -> None:
    for_each_seed(KIND, CASES, lambda draw: check(draw, tmp_path))
    wanted = {"v1", "v2", "v3", "drop and add column", "void of a dropped column", "drop partition", "rename partition"}
    assert missing(KIND, wanted | {"one name of several fields"}) == set()
