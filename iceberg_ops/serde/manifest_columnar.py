"""Manifests as columns: the fast path of planning.

A manifest is decoded into Arrow arrays in one go (polars' Avro reader, about ten times the record decoder's rate), so that a
planner can decide on whole columns (status, partition values, one field's bounds) and make Python objects for the survivors only.
Statistics stay in Arrow until someone asks for them. ``EntryColumns.entries`` equals what ``manifest_avro.read_manifest`` gives;
that module is the reference, and whatever this path does not take (no polars, few records, an odd schema, damaged bytes) is left
to it: ``read_columns`` gives None then, and the reference reads the file or says what is wrong with it.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, TypeVar

from iceberg_ops.errors import CorruptTableError, IcebergOpsError
from iceberg_ops.serde.avro_container import Container, read_container, write_container
from iceberg_ops.serde.avro_schema import plain
from iceberg_ops.serde.manifest_avro import DecodingPlan, decoding_plan, file_format, read_manifest, refuse_encrypted
from iceberg_ops.serde.manifest_encoding import EncodedFile
from iceberg_ops.serde.manifest_splicing import EncodedFiles, cut_bodies, encoded_tail, layout_of, split_tails
from iceberg_ops.serde.partition_avro import Convert
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.types import StructType

T = TypeVar("T")

FEWEST_RECORDS = 32
"""Below this the record decoder is as fast: polars costs about a millisecond per file."""

_STATUSES = tuple(EntryStatus)
_CONTENTS = tuple(FileContent)
_MAPS = {
    "column_sizes": "f108",
    "value_counts": "f109",
    "null_value_counts": "f110",
    "nan_value_counts": "f137",
    "lower_bounds": "f125",
    "upper_bounds": "f128",
}
_BOUNDS = frozenset({"lower_bounds", "upper_bounds"})
_STATISTICS = frozenset(_MAPS.values())
_TUPLES = frozenset({"split_offsets", "equality_ids"})
_PLAIN = {
    "split_offsets": "f132",
    "equality_ids": "f135",
    "key_metadata": "f131",
    "sort_order_id": "f140",
    "referenced_data_file": "f143",
    "content_offset": "f144",
    "content_size_in_bytes": "f145",
}
_STATISTICS_PER_PACKED_BYTE = 12
"""Decoded statistics take about so many bytes for each byte of the compressed manifest."""
_DECODABLE = frozenset({"record", "array", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed"})


def read_entries(data: bytes, manifest: ManifestFile, partition_type: StructType) -> Sequence[ManifestEntry]:
    """All entries, by the fast path where it takes the file. Equal to ``read_manifest`` in result and errors."""
    columns = read_columns(data, manifest, partition_type)
    return read_manifest(data, manifest, partition_type) if columns is None else columns.entries()


def read_columns(data: bytes, manifest: ManifestFile, partition_type: StructType) -> EntryColumns | None:
    """The manifest's entries as columns; None where the record decoder has to read it. Raises as ``read_manifest`` does for a
    container that can not be opened."""
    refuse_encrypted(data, manifest.manifest_path)
    container = read_container(data, manifest.manifest_path)
    if container.record_count < FEWEST_RECORDS or any(count > len(raw) for count, raw in container.blocks):
        return None
    plan = decoding_plan(container, partition_type, manifest.manifest_path)
    frame = _decode(container, plan, None)
    if frame is None or frame.height != container.record_count:
        return None
    try:
        return EntryColumns(frame, plan, manifest, data)
    except (IcebergOpsError, ValueError, TypeError, KeyError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class _MapColumn:
    """One statistic of all entries: flat keys and values, cut by ``offsets``; ``present`` tells null from empty."""

    offsets: Any
    keys: Any
    values: Any
    present: Any

    def of_field(self, field_id: int, rows: int) -> Any:
        """Arrow array with this field's value per entry, null where an entry has none."""
        import numpy
        import pyarrow

        at = numpy.flatnonzero(self.keys.to_numpy(zero_copy_only=False) == field_id)
        indices = numpy.full(rows, -1, dtype=numpy.int64)
        indices[numpy.searchsorted(self.offsets, at, side="right") - 1] = at
        return self.values.take(pyarrow.array(indices, mask=indices < 0))


class LazyMap(Mapping[int, Any]):
    """One entry's statistic, made into a dict when it is first looked at. Equal to the dict it stands for."""

    __slots__ = ("_row", "_source")

    def __init__(self, source: _MapColumn, row: int) -> None:
        self._source: _MapColumn | dict[int, Any] = source
        self._row = row

    def _map(self) -> dict[int, Any]:
        source = self._source
        if isinstance(source, dict):
            return source
        start, stop = int(source.offsets[self._row]), int(source.offsets[self._row + 1])
        keys = source.keys.slice(start, stop - start).to_pylist()
        values = source.values.slice(start, stop - start).to_pylist()
        self._source = found = {k: v for k, v in zip(keys, values, strict=True) if v is not None}
        return found

    def __getitem__(self, key: int) -> Any:
        return self._map()[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._map())

    def __len__(self) -> int:
        return len(self._map())

    def __repr__(self) -> str:
        return repr(self._map())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._map(),)


class EntryColumns:
    """A manifest's entries as columns, inheritance resolved. Rows are numbered in file order.

    ``status``, ``content``, ``record_count`` and ``file_size_in_bytes`` are numpy arrays; ``file_path``, ``partition(i)``,
    ``bounds(...)`` and ``counts(...)`` Arrow arrays with nulls.
    """

    def __init__(self, frame: Any, plan: DecodingPlan, manifest: ManifestFile, data: bytes) -> None:
        self.manifest = manifest
        self._plan = plan
        self._rows = frame.height
        self._frame = frame
        self._data = data
        self._decoding = threading.Lock()
        self._decoded_maps: dict[str, _MapColumn | None] = {}
        self._assigned_row_ids: list[int | None] | None = None
        self._cuts: dict[str, EncodedFiles | None] = {}
        self.status = self._whole("f0")
        self.content = self._whole("f134", default=0)
        self.record_count = self._whole("f103")
        self.file_size_in_bytes = self._whole("f104")
        self._check()
        _sequence_numbers(self._list("f3", None), self.status.tolist(), manifest, required=True)

    def __len__(self) -> int:
        return int(self._rows)

    @property
    def live(self) -> Any:
        """Boolean numpy array: which rows are not DELETED."""
        return self.status != int(EntryStatus.DELETED)

    @property
    def file_path(self) -> Any:
        return self._frame["f100"].to_arrow()

    @property
    def nbytes(self) -> int:
        """Bytes the columns take in memory, about, statistics included."""
        return int(self._frame.estimated_size()) + _STATISTICS_PER_PACKED_BYTE * len(self._data)

    def partition(self, index: int) -> Any:
        """A partition field's values by its place in the spec, as Avro holds them (dates and times whole numbers, decimals and
        uuids bytes); None where the file does not have the field."""
        key = self._plan.partition[index][0]
        return None if key is None or "f102" not in self._frame.columns else self._frame["f102"].struct.field(key).to_arrow()

    def bounds(self, field_id: int, *, upper: bool) -> Any:
        """A column's lower or upper bounds (binary single values), null where unknown."""
        return self._statistic("upper_bounds" if upper else "lower_bounds", field_id)

    def counts(self, name: str, field_id: int) -> Any:
        """``value_counts``, ``null_value_counts``, ``nan_value_counts`` or ``column_sizes`` of a column, null where unknown."""
        return self._statistic(name, field_id)

    def entries(self, rows: Iterable[int] | None = None) -> list[ManifestEntry]:
        """The entries of these rows (None: all) as Python objects, in the order asked for."""
        return self._made(None if rows is None else list(rows))

    def partitions(self, rows: list[int]) -> list[tuple[Any, ...]]:
        """The partition tuples of these rows, as canonical values."""
        return list(self._partitions(rows, len(rows)))

    def field(self, name: str, row: int) -> Any:
        """One field of one entry's data file: what LazyDataFile asks for when it is looked at."""
        if name in _MAPS:
            column = self._map_column(name)
            return LazyMap(column, row) if column is not None and column.present[row] else None
        if name == "first_row_id":
            return self.first_row_ids([row])[0]
        key = _PLAIN[name]
        value = self._frame[key][row] if key in self._frame.columns else None
        return value if value is None or name not in _TUPLES else tuple(value.to_list())

    def numbers(self, rows: list[int] | None = None) -> tuple[list[int | None], list[int | None], list[int | None]]:
        """Snapshot ids, data sequence numbers and file sequence numbers of these rows (None: all)."""
        manifest, status = self.manifest, self._pick(self.status, rows)
        ids = [manifest.added_snapshot_id if s is None else s for s in self._list("f1", rows)]
        data = _sequence_numbers(self._list("f3", rows), status, manifest, required=True)
        return ids, data, _sequence_numbers(self._list("f4", rows), status, manifest, required=False)

    def first_row_ids(self, rows: list[int]) -> list[int | None]:
        return [None] * len(rows) if not self._numbers_rows else [self._row_ids()[row] for row in rows]

    def paths(self) -> list[str]:
        """All locations, as recorded."""
        return self._list("f100", None)

    def encoded_files(self, schema_text: str, partition_type: StructType) -> EncodedFiles | None:
        """The bytes of all data files, where this manifest is written as one of that Avro schema would be; else None."""
        with self._decoding:
            if schema_text not in self._cuts:
                self._cuts[schema_text] = self.cut_files(schema_text, partition_type)
            return self._cuts[schema_text]

    def cut_files(self, schema_text: str, partition_type: StructType) -> EncodedFiles | None:
        """The same, cut anew and not kept: for who asks once."""
        name = self.manifest.manifest_path
        wanted = decoding_plan(Container(schema_text, {}, ()), partition_type, name)
        if layout_of(wanted.node) != layout_of(self._plan.node):
            return None
        version = 3 if "f142" in self._frame.columns else 2 if "f3" in self._frame.columns else 1
        numbers = (self._list(key, None) for key in ("f1", "f3", "f4"))
        heads = list(zip(self.status.tolist(), *numbers, self.content.tolist(), strict=True))
        container = read_container(self._data, name)
        bodies = cut_bodies(container, heads, self._list("f100", None), version=version)
        if bodies is None or version < 3:
            return None if bodies is None else EncodedFiles(bodies, None)
        behind = zip(self._list("f143", None), self._list("f144", None), self._list("f145", None), strict=True)
        return split_tails(bodies, self._list("f142", None), [encoded_tail(*values) for values in behind])

    @property
    def _numbers_rows(self) -> bool:
        return self.manifest.first_row_id is not None and self.manifest.content is ManifestContent.DATA

    def _map_column(self, name: str) -> _MapColumn | None:
        """Statistics, decoded when first asked for, bounds together and counts together: most plans look at few or at none."""
        with self._decoding:
            if name not in self._decoded_maps:
                together = _BOUNDS if name in _BOUNDS else _MAPS.keys() - _BOUNDS
                container = read_container(self._data, self.manifest.manifest_path)
                frame = _decode(container, self._plan, frozenset(_MAPS[n] for n in together))
                if frame is None or (frame.width and frame.height != self._rows):
                    raise CorruptTableError(f"{self.manifest.manifest_path}: statistics can not be decoded")
                for n in together:
                    self._decoded_maps[n] = _map_column(frame[_MAPS[n]]) if _MAPS[n] in frame.columns else None
            return self._decoded_maps[name]

    def _statistic(self, name: str, field_id: int) -> Any:
        import pyarrow

        column = self._map_column(name)
        if column is None:
            return pyarrow.nulls(self._rows, pyarrow.binary() if name.endswith("bounds") else pyarrow.int64())
        return column.of_field(field_id, self._rows)

    def _whole(self, key: str, default: int | None = None) -> Any:
        import numpy

        if key not in self._frame.columns:
            if default is None:
                raise ValueError(f"no column {key}")
            return numpy.zeros(self._rows, dtype=numpy.int64)
        column = self._frame[key] if default is None else self._frame[key].fill_null(default)
        if column.null_count():
            raise ValueError(f"null in column {key}")
        return column.to_numpy()

    def _check(self) -> None:
        if not ((self.status >= 0) & (self.status <= 2)).all() or not ((self.content >= 0) & (self.content <= 2)).all():
            raise ValueError("status or content out of range")
        if (self.record_count < 0).any() or self._frame["f100"].null_count() or self._frame["f101"].null_count():
            raise ValueError("record count, path or format missing")
        for text in self._frame["f101"].unique().to_list():
            file_format(text, self.manifest.manifest_path)

    def _list(self, key: str, rows: list[int] | None) -> list[Any]:
        if key not in self._frame.columns:
            return [None] * (self._rows if rows is None else len(rows))
        column = self._frame[key] if rows is None else self._frame[key].gather(rows)
        found: list[Any] = column.to_list()
        return found

    def _made(self, rows: list[int] | None = None) -> list[ManifestEntry]:
        manifest, status = self.manifest, self._pick(self.status, rows)
        snapshot_ids, sequence_numbers, file_sequence_numbers = self.numbers(rows)
        formats = {text: file_format(text, manifest.manifest_path) for text in self._frame["f101"].unique().to_list()}
        columns: dict[str, Iterable[Any]] = {
            "content": [_CONTENTS[c] for c in self._pick(self.content, rows)],
            "file_path": self._list("f100", rows),
            "file_format": [formats[text] for text in self._list("f101", rows)],
            "spec_id": repeat(manifest.partition_spec_id),
            "partition": self._partitions(rows, len(status)),
            "record_count": self._pick(self.record_count, rows),
            "file_size_in_bytes": self._pick(self.file_size_in_bytes, rows),
            "source": repeat(self),
            "row": range(self._rows) if rows is None else rows,
        }
        entries: dict[str, Iterable[Any]] = {
            "status": [_STATUSES[s] for s in status],
            "snapshot_id": snapshot_ids,
            "sequence_number": sequence_numbers,
            "file_sequence_number": file_sequence_numbers,
            "data_file": made_from_columns(LazyDataFile, len(status), columns),
        }
        return made_from_columns(ManifestEntry, len(status), entries)

    def _pick(self, values: Any, rows: list[int] | None) -> list[int]:
        found: list[int] = (values if rows is None else values[rows]).tolist()
        return found

    def _partitions(self, rows: list[int] | None, count: int) -> Iterable[tuple[Any, ...]]:
        fields = self._plan.partition
        if not fields:
            return repeat((), count)
        if "f102" not in self._frame.columns:
            return repeat((None,) * len(fields), count)
        tuples = self._frame["f102"] if rows is None else self._frame["f102"].gather(rows)

        def values(key: str | None, convert: Convert | None) -> Iterable[Any]:
            return repeat(None, count) if key is None else _converted(tuples.struct.field(key).to_list(), convert)

        return zip(*(values(key, convert) for key, convert in fields), strict=True)

    def _row_ids(self) -> list[int | None]:
        """LINEAGE-12: numbering needs every row before, whichever are asked for."""
        if self._assigned_row_ids is None:
            found: list[int | None] = []
            first = self.manifest.first_row_id or 0
            written, deleted_rows = self._list("f142", None), (~self.live).tolist()
            for number, deleted, count in zip(written, deleted_rows, self.record_count.tolist(), strict=True):
                if number is None and not deleted:
                    number, first = first, first + count
                found.append(number)
            self._assigned_row_ids = found
        return self._assigned_row_ids


class LazyDataFile(EncodedFile):
    """A DataFile of a manifest's columns: path, partition and sizes are there, the rest is fetched when it is first looked at.

    Equal to the DataFile it stands for; ``dataclasses.replace``, copying and pickling give one that holds all its values.
    """

    __slots__ = ("row", "source")

    def __getattr__(self, name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(name)
        value = self.source.field(name, self.row)
        getattr(DataFile, name).__set__(self, value)
        return value

    @property
    def columns(self) -> EntryColumns | None:
        """Where the rest is fetched from; None for a copy, which holds everything itself."""
        found: EntryColumns | None = getattr(self, "source", None)
        return found

    def encoded_with(self, schema_text: str, partition_type: StructType) -> tuple[EncodedFiles | None, int]:
        columns = self.columns
        return (None, 0) if columns is None else (columns.encoded_files(schema_text, partition_type), self.row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataFile):
            return NotImplemented
        return self is other or all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = DataFile.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _whole_file, (tuple(_settled(getattr(self, name)) for name in _FIELDS),)


_FIELDS = tuple(f.name for f in fields(DataFile))
_LATER = frozenset({*_MAPS, *_PLAIN, "first_row_id"})


def _settled(value: Any) -> Any:
    return dict(value) if isinstance(value, LazyMap) else value


def _whole_file(values: tuple[Any, ...]) -> DataFile:
    return DataFile(**dict(zip(_FIELDS, values, strict=True)))


def made_from_columns(kind: type[T], rows: int, columns: Mapping[str, Iterable[Any]]) -> list[T]:
    """Objects of a slotted class from columns. Slots are set directly and a column at a time, which keeps the loop out of Python: a
    frozen dataclass's own ``__init__`` takes ten times as long."""
    made = list(map(kind.__new__, repeat(kind, rows)))
    for name, values in columns.items():
        deque(map(getattr(kind, name).__set__, made, values), maxlen=0)
    return made


def _sequence_numbers(
    written: Iterable[int | None], status: Iterable[int], manifest: ManifestFile, *, required: bool
) -> list[int | None]:
    """Inheritance (SEQ-02, SEQ-04). Raises ValueError where an entry must have a number and has none."""
    inherited, added = manifest.sequence_number, int(EntryStatus.ADDED)
    found = [inherited if n is None and (s == added or inherited == 0) else n for n, s in zip(written, status, strict=True)]
    if required and None in found:
        raise ValueError("entry without a data sequence number")
    return found


def _converted(values: Iterable[Any], convert: Convert | None) -> Iterable[Any]:
    return values if convert is None else [None if v is None else convert(v) for v in values]


def _map_column(series: Any) -> _MapColumn:
    array = series.rechunk().to_arrow()
    pairs = array.values
    return _MapColumn(array.offsets.to_numpy(), pairs.field(0), pairs.field(1), array.is_valid().to_numpy(zero_copy_only=False))


def _flat(record: Any) -> Any:
    """The entry's record with the data file's fields in the place of the data file: the bytes are the same, and polars can then
    leave statistics out. ``record`` is a copy of its own (of ``_thinned``)."""
    if not isinstance(record, dict) or record["type"] != "record":
        return record
    flat: list[dict[str, Any]] = []
    for f in record["fields"]:
        inner = f["type"] if f["name"] == "f2" else None
        flat += inner["fields"] if isinstance(inner, dict) else [f]
    for n, f in enumerate(flat):
        f["name"] = f["name"] if f["name"].startswith("f") else f"x{n}"
    return {**record, "fields": flat}


def _is_decodable(node: Any) -> bool:
    """Whether polars takes the schema: records, arrays and primitives, each with null or alone (no enum or map)."""
    if isinstance(node, list):
        branches = [n for n in node if n != "null"]
        return len(node) == 2 and len(branches) == 1 and _is_decodable(branches[0])
    if isinstance(node, str):
        return node in _DECODABLE
    if node["type"] == "record":
        return bool(node["fields"]) and all(_is_decodable(f["type"]) for f in node["fields"])
    return node["type"] in _DECODABLE and ("items" not in node or _is_decodable(node["items"]))


def _thinned(node: Any) -> Any:
    """The schema without record fields that take no bytes: polars does not take the partition of an unpartitioned table."""
    if not isinstance(node, dict) or node["type"] != "record":
        return node
    fields = [{**f, "type": _thinned(f["type"])} for f in node["fields"]]
    return {**node, "fields": [f for f in fields if f["type"] != "null" and not _is_empty_record(f["type"])]}


def _is_empty_record(node: Any) -> bool:
    return isinstance(node, dict) and node["type"] == "record" and not node["fields"]


def _decode(container: Container, plan: DecodingPlan, statistics: frozenset[str] | None) -> Any:
    """A polars frame of these of the entries' statistics (None: of everything else); None where polars does not take the file."""
    try:
        import polars
    except ImportError:
        return None
    node = _flat(_thinned(plan.node))
    if not _is_decodable(node):
        return None
    names = [f["name"] for f in node["fields"]]
    wanted = [n for n in names if (n not in _STATISTICS if statistics is None else n in statistics)]
    if not wanted:
        return polars.DataFrame()
    data = write_container(plain(node), {}, container.blocks, codec="null")
    try:
        return polars.read_avro(io.BytesIO(data), columns=wanted)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError):
        return None
