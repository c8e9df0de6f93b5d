"""The world's tables and files: a schema of (id, data, region, kind) in some layout, and files as engines write them.

Everything is a real file, written by the package's writers; these do not check the content (``reading`` does)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter, split_by_partition
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY, Transform
from iceberg_ops.spec.types import LONG, STRING, IcebergType, NestedField
from iceberg_ops.table.table import Table
from tests.torture.reading import Place, is_unpartitioned, spec_of, values_at
from tests.torture.rows import KIND, KINDS, NUMBERS, REGIONS, Model, Row

if TYPE_CHECKING:
    from tests.torture.watched import Watched
    from tests.torture.world import World

SCHEMA = Schema.of(
    NestedField(1, "id", LONG, True), NestedField(2, "data", STRING), NestedField(3, "region", STRING), NestedField(4, KIND, STRING)
)
BUCKET, TRUNCATE = Transform("bucket", 2), Transform("truncate", 1)
PARTITIONS: dict[str, list[tuple[int, Transform, str]]] = {
    "none": [],
    "region": [(3, IDENTITY, "region")],
    "bucket": [(1, BUCKET, "id_bucket_2")],
    "kind": [(4, IDENTITY, KIND)],
    "truncate": [(4, TRUNCATE, "kind_trunc_1")],
    "region and bucket": [(3, IDENTITY, "region"), (1, BUCKET, "id_bucket_2")],
}
"""Layout -> (source, transform, name) of each partition field."""


def make_world_table(world: World, name: str) -> None:
    shape, storage = world.shape, world.storage
    fields = [PartitionField((source,), 1000 + i, t, n) for i, (source, t, n) in enumerate(PARTITIONS[shape.layout])]
    location = f"{world.catalogs[0]._warehouse}/ns/{name}"
    properties = {
        "format-version": str(shape.version),
        "commit.manifest.min-count-to-merge": "3",
        "commit.status-check.min-wait-ms": "0",
        "commit.retry.total-timeout-ms": "400000",
        "write.delete.granularity": shape.granularity,
    }
    if shape.spelled != "plain":
        properties["write.data.path"] = storage.spell(f"{storage.warehouse}/ns/{name}/data", shape.spelled)
    if shape.lodger and name == "u":
        properties["write.data.path"] = f"{location[:-1]}t/lent"
    if shape.avro:
        properties |= {"write.format.default": "avro", "write.delete.format.default": "avro"}
    if shape.rolled:
        properties["commit.manifest.target-size-bytes"] = "1"
    if shape.short_log:
        properties |= {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
    if world.has_late_uuid:
        properties |= {"write.metadata.previous-versions-max": "1"}
    table = world.catalogs[0].create_table(
        ("ns", name), SCHEMA, spec=PartitionSpec(0, tuple(fields)), location=location, properties=properties
    )
    if world.has_late_uuid:
        metadata = json.loads(storage.io.read(table.metadata_location))
        del metadata["table-uuid"]
        storage.io.write(table.metadata_location, json.dumps(metadata).encode(), overwrite=True)


# rows


def some_rows(world: World, table: Table, count: int | None = None, region: str | None = None) -> list[Row]:
    """New rows for ``table`` as its writer sees it, of one region or of several."""
    world.made += 1
    kind = table.schema.find(KIND)
    found = []
    for i in range(count or world.random.randint(1, 4)):
        text = world.random.choice(NUMBERS if kind is not None and kind.type == LONG else KINDS)
        found.append(Row(region or world.random.choice(REGIONS), world.made * 10 + i, 0, held(kind, text)))
    return found


def held(kind: NestedField | None, text: str | int | None) -> tuple[int, str | int] | None:
    """A value in the form of that column; None if there is no such column, or it has another type."""
    if kind is None or text is None or (kind.type == LONG) != isinstance(text, int):
        return None
    return kind.field_id, text


def batch_of(rows: Iterable[Row], *, kind: IcebergType | None) -> pa.RecordBatch:
    """``kind``: the type of that column; None: there is none."""
    columns = {
        "id": pa.array([r.id for r in rows], pa.int64()),
        "data": pa.array([str(r.version) for r in rows]),
        "region": pa.array([r.region for r in rows], pa.string()),
    }
    if kind is not None:
        columns[KIND] = pa.array([r.text for r in rows], pa.int64() if kind == LONG else pa.string())
    return pa.RecordBatch.from_pydict(columns)


def kind_type(table: Table) -> IcebergType | None:
    kind = table.schema.find(KIND)
    return None if kind is None else kind.type


def new_data(world: World, table: Table, rows: Sequence[Row], spec_id: int | None = None) -> tuple[DataFile, ...]:
    """A data file per partition, in the table's spec or an older one."""
    context = WriteContext.for_table(table.metadata, spec_id=spec_id)
    writer = PartitionedWriter(context, world.stepped, operation_id=world.name("rows"), task_id="00000", fanout=True)
    writer.write(batch_of(rows, kind=kind_type(table)))
    return tuple(writer.close())


def as_orc(world: World, files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """The same Parquet files as ORC, with field ids."""
    found = []
    for f in files:
        table = pq.read_table(io.BytesIO(world.stepped.read(f.file_path)))
        ids = [{b"iceberg.id": (field.metadata or {})[b"PARQUET:field_id"]} for field in table.schema]
        fields = [field.with_metadata(known) for field, known in zip(table.schema, ids, strict=True)]
        data, path = orc_of(table.cast(pa.schema(fields))), f.file_path.replace(".parquet", ".orc")
        world.stepped.write(path, data)
        size = len(data)
        found.append(replace(f, file_path=path, file_format=FileFormat.ORC, file_size_in_bytes=size, split_offsets=None))
    return tuple(found)


@dataclass(frozen=True)
class Keys:
    """Equality deletes, and the rows they apply to: those with their keys in files of their spec and partition, or in all files if
    the spec has no partition field."""

    files: tuple[DataFile, ...]
    field_ids: tuple[int, ...]
    keys: frozenset[tuple[Any, ...]]

    def replaced(self, table: Watched, new: Sequence[Row]) -> Model:
        """The rows of the new snapshot: those of its parent that the deletes do not apply to, and the new ones."""
        left = [p.row for p in table.before if not self._reach(table, p)]
        return (*left, *new)

    def _reach(self, table: Watched, place: Place) -> bool:
        where = {(f.spec_id, f.partition) for f in self.files}
        everywhere = any(is_unpartitioned(spec_of(table.metadata, spec_id)) for spec_id, _ in where)
        if not everywhere and (place.file.spec_id, place.file.partition) not in where:
            return False
        return values_at(table.world.files, table.metadata, place, self.field_ids) in self.keys


def new_keys(world: World, table: Table, rows: Sequence[Row], columns: Sequence[str], spec_id: int) -> Keys:
    """Equality deletes of the rows' keys, in one spec. Raises UnsupportedError for a v1 table."""
    fields = [f for name in columns if (f := table.schema.find(name)) is not None]
    ids = tuple(f.field_id for f in fields)
    context = WriteContext.for_table(table.metadata, spec_id=spec_id)
    batch, name = conform(batch_of(rows, kind=kind_type(table)), context.schema), world.name("keys")
    files: list[DataFile] = []
    for number, (partition, part) in enumerate(split_by_partition(batch, context)):
        files += write_equality_deletes(
            world.stepped, context, ids, [part], partition=partition, operation_id=name, task_id=f"{number:05d}"
        )
    return Keys(tuple(files), ids, frozenset(key_of(row, [f.name for f in fields]) for row in rows))


def parquet_of(rows: Sequence[Row], *, columns: Sequence[str] | None = None) -> bytes:
    """A file as others write it: without field ids."""
    sink = pa.BufferOutputStream()
    pq.write_table(plain_table(rows, columns), sink)
    return bytes(sink.getvalue())


def plain_table(rows: Sequence[Row], columns: Sequence[str] | None = None) -> pa.Table:
    table = pa.Table.from_batches([batch_of(rows, kind=None)])
    return table if columns is None else table.select(list(columns))


def orc_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pa.orc.write_table(table, sink)
    return bytes(sink.getvalue())


def key_of(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    """The row's values of those columns."""
    values = {"id": row.id, "region": row.region, KIND: row.text}
    return tuple(values[name] for name in columns)
