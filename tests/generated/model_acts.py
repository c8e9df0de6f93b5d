"""Other writers, maintenance, refs and definitions beside the statements of ``model_table``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSortOrder, UpdateSpec, UpgradeFormatVersion
from iceberg_ops.commit.operations.refs import RollBack, SetRef
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.arrow.arrow_schema import stored_schema
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, bucket, truncate
from iceberg_ops.spec.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MISSING,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    UNKNOWN,
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from tests.data.files import batch_of
from tests.generated import model
from tests.generated.model import Single, row_of
from tests.generated.model_table import Line, ModelTable

NAMES = ("c0", "c1", "f0", "f1", "a.b", "x y", "ünï", "select", "q`q", "C9", "n-1", "_pos", "1x")
TRANSFORMS = (IDENTITY, IDENTITY, IDENTITY, bucket(3), truncate(2), YEAR, MONTH, DAY, HOUR, VOID)


class Acts(ModelTable):
    """All acts on one table."""

    # Other writers

    def write(self) -> str:
        rows, table = self.new_rows(), self.table
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"w{self.number()}")
        writer.write(self.batch(rows))
        self.commit(AppendFiles(branch=self.branch, added=tuple(writer.close())))
        self.has(rows)
        return "write"

    def write_as_others(self) -> str | None:
        """A file with ids and without metrics, in small row groups and any encoding."""
        table = self.table
        if not self.is_foreign_place():
            return None
        rows = self.new_rows()
        made = pa.Table.from_batches([self.batch(rows)]).cast(stored_schema(table.schema))
        sink = pa.BufferOutputStream()
        pages = {"use_dictionary": self.draw.often(0.5), "data_page_version": self.draw.choice(["1.0", "2.0"])}
        pq.write_table(made, sink, row_group_size=self.draw.randint(1, 3), **pages)
        self.commit(AppendFiles(branch=self.branch, added=(self.put(sink.getvalue().to_pybytes(), len(rows)),)))
        self.has(rows)
        return "write as others"

    def is_foreign_place(self) -> bool:
        """No partition value and no form of ``unknown`` is to be made up here."""
        table = self.table
        return table.metadata.spec.is_unpartitioned and not any(model.is_in_no_source(f.type) for f in table.schema.fields)

    def put(self, data: bytes, count: int, **more: Any) -> DataFile:
        table = self.table
        path = f"{table.location}/data/other-{self.number()}.parquet"
        table.io.write(path, data)
        spec = table.metadata.spec
        about = {"spec_id": spec.spec_id, "partition": (None,) * len(spec.fields), **more}
        return DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=count, file_size_in_bytes=len(data), **about)

    def add_files(self) -> str | None:
        """Files without ids, which may lack a column."""
        if not self.is_foreign_place() or self.branch != "main":
            return None
        rows = self.new_rows()
        made = self.plain_rows(rows)
        found = [f for f in self.spare_columns(lambda f: f.initial_default) if f.name in made.schema.names]
        if found and self.draw.often(0.3):
            f = self.draw.choice(found)
            made = made.drop_columns([f.name])
            for values in rows.values():
                del values[f.field_id]
        folder = self.place.folder / f"import-{self.number()}"
        folder.mkdir()
        pq.write_table(made, folder / "x.parquet", row_group_size=self.draw.choice([1, 3, 100]))
        self.job("add_files", options={"source-path": str(folder)})
        self.has(rows)
        return "add_files"

    def delete_keys(self) -> str | None:
        """By equality of one or two columns, as streaming engines do: everywhere, or in one partition."""
        table = self.table
        if self.version < 2 or not self.rows:
            return None
        schema, columns = table.schema, model.singles(table.schema)
        places = {i: (spec_id, model.comparable(partition), partition) for i, spec_id, partition in self.partitions()}
        parted = [place for place in places.values() if not table.metadata.specs_by_id[place[0]].is_unpartitioned]
        spec_id, key, partition = self.draw.choice(parted or list(places.values()))
        is_global = table.metadata.specs_by_id[spec_id].is_unpartitioned
        columns = self.draw.sample(columns, min(len(columns), self.draw.choice([1, 1, 2])))
        picked = [row_of(schema, self.rows[i]) for i in self.some(2)]
        ids, context = tuple(s.field.field_id for s in columns), WriteContext.for_table(table.metadata, spec_id=spec_id)
        rows, operation_id = [batch_of(schema, picked)], f"e{self.number()}"
        files = write_equality_deletes(table.io, context, ids, rows, partition=partition, operation_id=operation_id)
        self.commit(RowDelta(branch=self.branch, added_deletes=tuple(files), starting_snapshot_id=self.head))
        keys = [_key(row, columns) for row in picked]
        reached = [i for i, place in places.items() if is_global or place[:2] == (spec_id, key)]
        for i in [i for i in reached if _key(row_of(schema, self.rows[i]), columns) in keys]:
            del self.rows[i]
        return "delete keys" if is_global else "delete keys of a partition"

    def delete_places(self) -> str | None:
        """Position deletes of one partition, unsorted and with one position twice, in small row groups."""
        if self.version != 2 or not self.rows:
            return None
        table = self.table
        files = {t.file_path: t.data_file for t in plan(table, Scan.of_branch(self.branch)).tasks}
        places = scan_table(table, Scan.of_branch(self.branch), ["id", "_file", "_pos"]).sort_by("id").to_pylist()
        first = files[self.draw.choice(places)["_file"]]
        mine = {p for p, f in files.items() if (f.spec_id, repr(f.partition)) == (first.spec_id, repr(first.partition))}
        gone = [r for r in places if r["_file"] in mine and self.draw.often(0.3)]
        if not gone:
            return None
        self.draw.shuffle(gone)
        columns = [("file_path", pa.string(), DELETE_FILE_PATH_ID), ("pos", pa.int64(), DELETE_FILE_POS_ID)]
        stored = pa.schema([pa.field(n, t, False, {"PARQUET:field_id": str(i)}) for n, t, i in columns])
        sink = pa.BufferOutputStream()
        named = [{"file_path": r["_file"], "pos": r["_pos"]} for r in [*gone, gone[0]]]
        pq.write_table(pa.Table.from_pylist(named, stored), sink, row_group_size=2)
        about = {"content": FileContent.POSITION_DELETES, "spec_id": first.spec_id, "partition": first.partition}
        file = self.put(sink.getvalue().to_pybytes(), len(named), **about)
        self.commit(RowDelta(branch=self.branch, added_deletes=(file,), starting_snapshot_id=self.head))
        for r in gone:
            del self.rows[r["id"]]
        return "delete places"

    # Maintenance, refs, definition

    def rewrite(self) -> str:
        options = {"rewrite-all": "true"} if self.draw.often(0.7) else {"min-input-files": "2"}
        names = [s.name for s in model.singles(self.table.schema) if "``" not in s.name]
        keys = self.draw.sample(names, min(2, len(names)))
        by = self.draw.choice(["binpack", "binpack", "sort", "zorder", "hilbert"])
        if by == "sort":
            ends = self.draw.choice(["", " ASC NULLS LAST", " DESC", " DESC NULLS FIRST"])
            options |= {"strategy": "sort", "sort-order": ", ".join(f"{key}{ends}" for key in keys)}
        elif by != "binpack":
            options |= {"strategy": "sort", "sort-order": f"{by}({', '.join(keys)})"}
        others = {
            "target-file-size-bytes": ["1500", "3000"],
            "use-starting-sequence-number": ["false"],
            "remove-dangling-deletes": ["true"],
            "output-spec-id": list(map(str, self.table.metadata.specs_by_id)),
        }
        options |= {name: self.draw.choice(values) for name, values in others.items() if self.draw.often(0.2)}
        self.job("rewrite_data_files", options=options, where=self.condition().text if self.draw.often(0.2) else None)
        return f"rewrite {by}"

    def maintain(self) -> str:
        name = self.draw.choice(["rewrite_position_delete_files", "convert_equality_deletes", "rewrite_manifests"])
        self.job(name, options={"rewrite-all": "true"} if name == "rewrite_position_delete_files" else {})
        return name

    def expire(self) -> str:
        ages = {
            "older-than": "2099-01-01T00:00:00Z",
            "retain-last": "1",
            "clean-expired-metadata": self.draw.choice(["true", "false"]),
        }
        self.place.run("expire_snapshots", options=ages)
        return "expire_snapshots"

    def tag(self) -> str | None:
        if (head := self.head) is None:
            return None
        name = f"tag{self.number()}"
        self.commit(SetRef(ref=name, snapshot_id=head, type="tag"))
        self.tags[name] = head
        return "tag"

    def switch(self) -> str | None:
        """To another branch, which may be a new one."""
        if (head := self.head) is None:
            return None
        if len(self.lines) < 3:
            name = f"b{self.number()}"
            self.commit(SetRef(ref=name, snapshot_id=head))
            line = self.lines[self.branch]
            self.lines[name] = Line(dict(line.rows), dict(line.lineage))
        self.branch = self.draw.choice([name for name in self.lines if name != self.branch])
        return "branch"

    def roll_back(self) -> str | None:
        found = self.earlier()
        if not found:
            return None
        snapshot_id = self.draw.choice(found)
        self.commit(RollBack(branch=self.branch, snapshot_id=snapshot_id))
        self.lines[self.branch] = Line(dict(self.held[snapshot_id]))
        return "roll back"

    def upgrade(self) -> str | None:
        if self.version == 3:
            return None
        self.version += 1
        self.commit(UpgradeFormatVersion(format_version=self.version))
        return "upgrade"

    def partition(self) -> str:
        evolution, fields = SpecEvolution.of_table(self.table.metadata), self.table.metadata.spec.fields
        if fields and self.draw.often(0.5):
            evolution.remove_field(self.draw.choice(fields).name)
        else:
            column = self.draw.choice(model.singles(self.table.schema))
            evolution.add_field(self.name_of(column.field), self.draw.choice(TRANSFORMS), f"p{self.number()}")
        self.commit(UpdateSpec(spec=evolution.apply()))
        return "partition"

    def name_of(self, f: NestedField) -> str:
        return self.table.schema.name_of(f.field_id)

    def sort(self) -> str:
        column, number = self.draw.choice(model.singles(self.table.schema)), len(self.table.metadata.sort_orders) + 1
        ends = self.draw.choice(list(SortDirection)), self.draw.choice(list(NullOrder))
        key = SortField((column.field.field_id,), self.draw.choice([IDENTITY, IDENTITY, bucket(3)]), *ends)
        self.commit(UpdateSortOrder(sort_order=SortOrder(number, (key,))))
        return "sort"

    # Columns

    def evolve(self, change: Callable[[SchemaEvolution], object]) -> None:
        evolution = SchemaEvolution.of_table(self.table.metadata)
        change(evolution)
        self.commit(UpdateSchema(schema=evolution.apply()))

    def paths(self, wanted: Callable[[NestedField], bool], *, inside: tuple[type[IcebergType], ...] = (StructType,)) -> list[str]:
        """Names of columns and of fields of structs, but for the id."""
        schema = self.table.schema
        parents = {i: None if p is None else schema.fields_by_id[p].type for i, p in schema.parents.items()}
        return [
            schema.name_of(i)
            for i, f in schema.fields_by_id.items()
            if i > 1 and (parents[i] is None or isinstance(parents[i], inside)) and wanted(f)
        ]

    def new_name(self) -> str:
        return self.draw.choice([f"n{self.number()}", self.draw.choice(NAMES)])

    def add(self) -> str:
        type_ = self.type()
        has_default = self.version >= 3 and type_.is_primitive and type_ != UNKNOWN and self.draw.often(0.8)
        default = model.plain_value(self.draw, type_) if has_default else MISSING
        parents = self.paths(lambda f: isinstance(f.type, StructType), inside=(StructType, ListType, MapType))
        parent, name = self.draw.choice([None, None, *parents]), self.new_name()
        required = has_default and self.draw.often(0.3)
        self.evolve(lambda e: e.add_column(name, type_, parent=parent, default=default, required=required))
        return "add with default" if has_default else "add inside" if parent else "add"

    def drop(self) -> str | None:
        names = self.paths(lambda f: True)
        if len(names) < 2:
            return None
        name = self.draw.choice(names)
        self.evolve(lambda e: e.drop_column(name))
        return "drop"

    def rename(self) -> str | None:
        names, new = self.paths(lambda f: True), self.new_name()
        if not names:
            return None
        name = self.draw.choice(names)
        self.evolve(lambda e: e.rename_column(name, new))
        return "rename"

    def move(self) -> str | None:
        names = self.paths(lambda f: True)
        if not names:
            return None
        name = self.draw.choice(names)
        self.evolve(lambda e: e.move_first(name))
        return "move"

    def change_default(self) -> str | None:
        names = self.paths(lambda f: f.type.is_primitive and f.type != UNKNOWN) if self.version >= 3 else []
        if not names:
            return None
        name = self.draw.choice(names)
        found = self.table.schema.find(name)
        assert found is not None
        default = model.plain_value(self.draw, found.type)
        self.evolve(lambda e: e.update_default(name, default))
        return "change default"

    def promote(self) -> str | None:
        names = self.paths(lambda f: bool(self.wider(f.type)), inside=(StructType, ListType, MapType))
        if not names:
            return None
        name = self.draw.choice(names)
        found = self.table.schema.find(name)
        assert found is not None
        type_ = self.draw.choice(self.wider(found.type))
        self.evolve(lambda e: e.update_type(name, type_))
        return f"promote {getattr(found.type, 'name', '')}"

    def wider(self, type_: IcebergType) -> list[IcebergType]:
        if isinstance(type_, DecimalType):
            return [DecimalType(precision=type_.precision + 5, scale=type_.scale)] if type_.precision < 30 else []
        found: dict[IcebergType, list[IcebergType]] = {INT: [LONG], FLOAT: [DOUBLE]}
        if self.version >= 3:
            found |= {DATE: [TIMESTAMP, *([TIMESTAMP_NS] if TIMESTAMP_NS in self.later else [])], UNKNOWN: [INT, STRING, DOUBLE]}
        return found.get(type_, [])


def _key(row: Any, columns: list[Single]) -> list[Any]:
    return [model.comparable(s.of(row)) for s in columns]
