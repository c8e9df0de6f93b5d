"""The rows that a reader of a snapshot sees, derived from the bytes in storage and the Iceberg spec, without the package's readers.

Metadata is plain JSON, fastavro reads manifests, pyarrow reads data and deletes. This module computes inherited sequence numbers
and row ids, and matches deletes itself: a vector or a position delete by path, partition and sequence number (equal or later), an
equality delete by spec, partition and sequence number (later), or everywhere if its spec has no partition field. So a fault of the
package's planner or caches cannot be repeated in the check. Files never change, so each is read once; the world checks that none is
written a second time."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tests.torture.rows import KIND, Row

Read = Callable[[str], bytes]
Identity = Callable[[str], str]
Metadata = Mapping[str, Any]
DELETED, ADDED = 2, 1
DATA, POSITIONS, EQUALITY = 0, 1, 2
ID, TEXT, REGION = 1, 2, 3
ROW_ID = 2147483540
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live entry, inheritance resolved. ``partition`` is its tuple in the order of its spec's fields."""

    content: int
    path: str
    spec_id: int
    partition: tuple[Any, ...]
    sequence_number: int
    first_row_id: int | None
    equality_ids: tuple[int, ...]
    referenced: str | None
    offset: int | None
    size: int | None
    records: int

    @property
    def is_vector(self) -> bool:
        return self.content == POSITIONS and self.offset is not None


class Place(NamedTuple):
    """A visible row and where it lies."""

    row: Row
    row_id: int | None
    file: LiveFile
    position: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A snapshot's manifests and live files. No ``manifest_list``: the table's metadata names the manifests."""

    manifest_list: str | None
    manifests: tuple[str, ...]
    live: tuple[LiveFile, ...]

    @property
    def files(self) -> frozenset[str]:
        """Everything that a reader of the snapshot needs, but for the metadata file."""
        lists = () if self.manifest_list is None else (self.manifest_list,)
        return frozenset((*lists, *self.manifests, *(f.path for f in self.live)))


@dataclass
class Files:
    """Files of one store, each read once. ``identity`` is equal for two spellings of one location."""

    read: Read
    identity: Identity
    _columns: dict[str, dict[int | str, list[Any]]] = field(default_factory=dict)
    _positions: dict[tuple[str, int | None], dict[str, frozenset[int]]] = field(default_factory=dict)
    _avro: dict[str, tuple[Mapping[str, Any], list[dict[str, Any]]]] = field(default_factory=dict)
    _layouts: dict[str, Layout] = field(default_factory=dict)
    _places: dict[tuple[str, int | None], list[Place]] = field(default_factory=dict)

    def _bytes(self, path: str) -> bytes:
        try:
            return self.read(path)
        except FileNotFoundError as e:
            raise AssertionError(f"{path} is gone, and a reader needs it") from e

    def forget(self) -> None:
        for known in self._known():
            known.clear()

    def copy(self) -> Files:
        return Files(self.read, self.identity, *(dict(known) for known in self._known()))

    def _known(self) -> tuple[dict[Any, Any], ...]:
        return self._columns, self._positions, self._avro, self._layouts, self._places

    def layout_of(self, metadata: Metadata, snapshot: Mapping[str, Any]) -> Layout:
        """A snapshot's files. Fails where a manifest is missing."""
        key = list_of(snapshot)
        if key not in self._layouts:
            self._layouts[key] = layout(self, metadata, snapshot)
        return self._layouts[key]

    def places(self, metadata: Metadata, snapshot: Mapping[str, Any] | None, kind: int | None) -> list[Place]:
        """A snapshot's rows, read with the column ``kind`` of that field id; none of no snapshot."""
        if snapshot is None:
            return []
        key = (list_of(snapshot), kind)
        if key not in self._places:
            self._places[key] = places(self, metadata, self.layout_of(metadata, snapshot), kind)
        return self._places[key]

    def columns(self, path: str) -> dict[int | str, list[Any]]:
        """Columns of a Parquet, ORC or Avro file by field id; by name where the file has no ids."""
        if path not in self._columns:
            self._columns[path] = _columns_in(self._bytes(path))
        return self._columns[path]

    def positions(self, f: LiveFile) -> dict[str, frozenset[int]]:
        """Deleted positions by identity of the data file's path."""
        key = (f.path, f.offset)
        if key not in self._positions:
            found: dict[str, set[int]] = {}
            if f.is_vector:
                assert f.referenced is not None, f"the vector in {f.path} names no data file"
                found[self.identity(f.referenced)] = set(_vector(self._bytes(f.path)[f.offset : (f.offset or 0) + (f.size or 0)]))
            else:
                paths, positions = self.columns(f.path).values()
                for path, position in zip(paths, positions, strict=True):
                    found.setdefault(self.identity(path), set()).add(position)
            self._positions[key] = {path: frozenset(rows) for path, rows in found.items()}
        return self._positions[key]

    def avro(self, path: str) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
        if path not in self._avro:
            reader = fastavro.reader(io.BytesIO(self._bytes(path)))
            self._avro[path] = (reader.writer_schema, list(reader))  # type: ignore[assignment, arg-type]
        return self._avro[path]

    def avro_metadata(self, path: str) -> Mapping[str, str]:
        """The key-value pairs in the head of an Avro file."""
        return fastavro.reader(io.BytesIO(self._bytes(path))).metadata


def _columns_in(data: bytes) -> dict[int | str, list[Any]]:
    if data.startswith(b"Obj"):
        reader = fastavro.reader(io.BytesIO(data))
        schema: Any = reader.writer_schema
        rows: list[Any] = list(reader)
        return {f.get("field-id", f["name"]): [row[f["name"]] for row in rows] for f in schema["fields"]}
    if data.startswith(b"ORC"):
        table, name = pa.orc.ORCFile(pa.BufferReader(data)).read(), b"iceberg.id"
    else:
        table, name = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False), b"PARQUET:field_id"
    found: dict[int | str, list[Any]] = {}
    for f, column in zip(table.schema, table.columns, strict=True):
        known = (f.metadata or {}).get(name)
        found[f.name if known is None else int(known)] = column.to_pylist()
    return found


def _vector(blob: bytes) -> BitMap64:
    (length,) = struct.unpack_from(">I", blob)
    assert length == len(blob) - 8, "a deletion vector of another length than it says"
    assert blob[4:8] == _VECTOR_MAGIC
    return BitMap64.deserialize(blob[8:-4])


# a snapshot's files


def list_of(snapshot: Mapping[str, Any]) -> str:
    """What distinguishes its list of manifests from that of others."""
    return str(snapshot.get("manifest-list") or f"manifests of {snapshot['snapshot-id']}")


def manifests_in(files: Files, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of its manifest list; where metadata itself names its manifests, what these say of themselves."""
    if "manifest-list" in snapshot:
        return files.avro(snapshot["manifest-list"])[1]
    found = []
    for path in snapshot["manifests"]:
        spec_id = int(files.avro_metadata(path)["partition-spec-id"])
        found.append({"manifest_path": path, "partition_spec_id": spec_id, "added_snapshot_id": snapshot["snapshot-id"]})
    return found


def layout(files: Files, metadata: Metadata, snapshot: Mapping[str, Any]) -> Layout:
    """Manifests and live files of a snapshot. Fails where one of them is missing."""
    listed = manifests_in(files, snapshot)
    live = [f for manifest in listed for f in _live(files, metadata, manifest)]
    return Layout(snapshot.get("manifest-list"), tuple(m["manifest_path"] for m in listed), tuple(live))


def _live(files: Files, metadata: Metadata, manifest: Mapping[str, Any]) -> Iterator[LiveFile]:
    schema, entries = files.avro(manifest["manifest_path"])
    spec_id = manifest["partition_spec_id"]
    spec = spec_of(metadata, spec_id)
    names = _partition_names(json.dumps(schema))
    own_number = manifest.get("sequence_number") or 0
    next_row_id = manifest.get("first_row_id")
    for entry in entries:
        f = entry["data_file"]
        content = f.get("content") or DATA
        number = entry.get("sequence_number")
        if number is None:
            assert entry["status"] == ADDED or own_number == 0, f"{f['file_path']} has no sequence number of its own"
            number = own_number
        first_row_id = f.get("first_row_id")
        if entry["status"] != DELETED and content == DATA and first_row_id is None and next_row_id is not None:
            first_row_id, next_row_id = next_row_id, next_row_id + f["record_count"]
        if entry["status"] == DELETED:
            continue
        values = f.get("partition") or {}
        partition = tuple(values.get(names.get(p["field-id"], "")) for p in spec["fields"])
        yield LiveFile(
            content=content,
            path=f["file_path"],
            spec_id=spec_id,
            partition=partition,
            sequence_number=number,
            first_row_id=first_row_id,
            equality_ids=tuple(f.get("equality_ids") or ()),
            referenced=f.get("referenced_data_file"),
            offset=f.get("content_offset"),
            size=f.get("content_size_in_bytes"),
            records=f["record_count"],
        )


@lru_cache(maxsize=256)
def _partition_names(schema: str) -> dict[int, str]:
    """Partition field id -> its name in the manifest's Avro schema."""
    entry = json.loads(schema)
    (data_file,) = (f["type"] for f in entry["fields"] if f["name"] == "data_file")
    (partition,) = (f["type"] for f in data_file["fields"] if f["name"] == "partition")
    return {f["field-id"]: f["name"] for f in partition["fields"]}


def spec_of(metadata: Metadata, spec_id: int) -> Mapping[str, Any]:
    (found,) = (s for s in metadata["partition-specs"] if s["spec-id"] == spec_id)
    return found  # type: ignore[no-any-return]


def is_unpartitioned(spec: Mapping[str, Any]) -> bool:
    return all(f["transform"] == "void" for f in spec["fields"])


# its rows


def kind_id(metadata: Metadata) -> int | None:
    """Field id of the current schema's column ``kind``, which is dropped and added again."""
    (schema,) = (s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    return next((f["id"] for f in schema["fields"] if f["name"] == KIND), None)


def fits(metadata: Metadata, schema_id: int | None, row: Row) -> bool:
    """Whether the row's ``kind`` has the type that this schema has for it, or it has none of that column."""
    if row.kind is None:
        return True
    (schema,) = (s for s in metadata["schemas"] if s["schema-id"] == schema_id)
    types = [f["type"] for f in schema["fields"] if f["id"] == row.kind[0]]
    return all((t == "long") == isinstance(row.text, int) for t in types)


def places(files: Files, metadata: Metadata, found: Layout, kind: int | None) -> list[Place]:
    """Every visible row, read with the column ``kind`` of that field id."""
    deletes = _Deletes(files, metadata, found.live)
    rows: list[Place] = []
    for f in found.live:
        if f.content == DATA:
            rows += _rows_of(files, metadata, f, kind, deletes.of(f))
    return rows


def _rows_of(files: Files, metadata: Metadata, f: LiveFile, kind: int | None, gone: frozenset[int]) -> Iterator[Place]:
    column = _Columns(files, metadata, f)
    ids, versions, regions, kinds = column(ID), column(TEXT), column(REGION), column(kind)
    stored = files.columns(f.path).get(ROW_ID)
    assert len(ids) == f.records, f"{f.path} holds {len(ids)} rows, recorded are {f.records}"
    for position in range(len(ids)):
        if position not in gone:
            row_id = None if stored is None else stored[position]
            if row_id is None and f.first_row_id is not None:
                row_id = f.first_row_id + position
            text = kinds[position]
            yield Place(
                Row(regions[position], ids[position], int(versions[position]), None if text is None else (kind or 0, text)),
                row_id,
                f,
                position,
            )


def values_at(files: Files, metadata: Metadata, place: Place, field_ids: tuple[int, ...]) -> tuple[Any, ...]:
    """The row's values in those columns of an equality delete, which may have been dropped."""
    column = _Columns(files, metadata, place.file)
    return tuple(column(field_id)[place.position] for field_id in field_ids)


class _Columns:
    """Columns of a data or delete file by field id: what is in the file, else the identity partition's value, else null."""

    def __init__(self, files: Files, metadata: Metadata, f: LiveFile) -> None:
        self._found, self._file = files.columns(f.path), f
        self._metadata = metadata
        self._spec = spec_of(metadata, f.spec_id)
        self._has_ids = any(isinstance(name, int) for name in self._found)

    def __call__(self, field_id: int | None) -> list[Any]:
        if field_id is not None:
            if field_id in self._found:
                return self._found[field_id]
            if not self._has_ids and (name := self._mapped_name(field_id)) in self._found:
                return self._found[name]
            for f, value in zip(self._spec["fields"], self._file.partition, strict=True):
                if f.get("source-id") == field_id and f["transform"] == "identity":
                    return [value] * self._file.records
        return [None] * self._file.records

    def _mapped_name(self, field_id: int) -> str:
        mapping = json.loads(self._metadata["properties"].get("schema.name-mapping.default", "[]"))
        known = next((m["names"] for m in mapping if m.get("field-id") == field_id), ())
        return next((name for name in known if name in self._found), "")


class _Deletes:
    """Which positions of a data file the live deletes of one snapshot remove."""

    def __init__(self, files: Files, metadata: Metadata, live: tuple[LiveFile, ...]) -> None:
        self._files, self._metadata = files, metadata
        self._positions = [f for f in live if f.content == POSITIONS]
        self._equality = [f for f in live if f.content == EQUALITY]

    def of(self, f: LiveFile) -> frozenset[int]:
        path = self._files.identity(f.path)
        applying = [
            d
            for d in self._positions
            if d.sequence_number >= f.sequence_number
            and (d.spec_id, d.partition) == (f.spec_id, f.partition)
            and path in self._files.positions(d)
        ]
        vectors = [d for d in applying if d.is_vector]
        assert len({(d.path, d.offset) for d in vectors}) < 2, f"{f.path} has two deletion vectors"
        gone = [self._files.positions(d)[path] for d in vectors[:1] or applying]
        gone += [self._by_key(f, d) for d in self._equality if self._reaches(d, f)]
        return frozenset().union(*gone)

    def _reaches(self, d: LiveFile, f: LiveFile) -> bool:
        if d.sequence_number <= f.sequence_number:
            return False
        return (d.spec_id, d.partition) == (f.spec_id, f.partition) or is_unpartitioned(spec_of(self._metadata, d.spec_id))

    def _by_key(self, f: LiveFile, d: LiveFile) -> frozenset[int]:
        keys = set(zip(*map(_Columns(self._files, self._metadata, d), d.equality_ids), strict=True))
        rows = zip(*map(_Columns(self._files, self._metadata, f), d.equality_ids), strict=True)
        return frozenset(i for i, row in enumerate(rows) if row in keys)
