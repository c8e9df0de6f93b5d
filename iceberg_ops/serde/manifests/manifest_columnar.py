"""Manifests as columns: the fast path of planning.

A manifest is decoded into arrays at once (``avro_columns``, ten times as fast as the record decoder), so that a planner can decide
on whole columns (status, partition values, one field's bounds) and create Python objects only for the remaining files. Statistics
are only located until they are used. ``EntryColumns.entries`` equals the result of ``manifest_avro.read_manifest``; that module
is the reference. For manifests that this path does not support (few records, an unusual schema, paths without a common beginning,
damaged bytes) ``read_columns`` returns None, and the reference reads the file or reports what is wrong with it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import repeat
from typing import TYPE_CHECKING, Any

from iceberg_ops.errors import CorruptTableError, IcebergOpsError
from iceberg_ops.serde.avro.avro_container import Container, read_container
from iceberg_ops.serde.avro.partition_avro import Convert
from iceberg_ops.serde.avro.slotted_objects import made_from_columns
from iceberg_ops.serde.manifests.manifest_avro import DecodingPlan, decoding_plan, entries_in, file_format, opened_manifest
from iceberg_ops.serde.manifests.manifest_encoding import EncodedFile
from iceberg_ops.serde.manifests.manifest_splicing import EncodedFiles, cut_bodies, encoded_tail, schema_layout, split_tails
from iceberg_ops.serde.manifests.open_bytes import OpenBytes
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.types import StructType

if TYPE_CHECKING:
    from iceberg_ops.serde.avro.avro_columns import Column, ColumnReader
    from iceberg_ops.serde.avro.avro_record_starts import Records
    from iceberg_ops.serde.avro.packed_maps import PackedMaps

FEWEST_RECORDS = 32
"""Below this the record decoder is as fast: columns cost about a millisecond per file."""

RECORDS_WORTH_NUMPY = 2000
"""For this many records the record decoder takes about as long as numpy's import."""

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
_PARTITION, _FEW = "f102", 20
_OPEN = OpenBytes()
_BYTES_PER_ROW = 500
"""The approximate memory of one entry in columns: twenty numbers, and its path."""


def read_either(data: bytes, manifest: ManifestFile, partition_type: StructType) -> EntryColumns | list[ManifestEntry]:
    """The manifest as columns, or its entries if only the record decoder can read it. Raises the errors of ``read_manifest``."""
    container = opened_manifest(data, manifest)
    columns = _columns_in(container, data, manifest, partition_type)
    return entries_in(container, manifest, partition_type) if columns is None else columns


def read_columns(data: bytes, manifest: ManifestFile, partition_type: StructType) -> EntryColumns | None:
    """The same; None for entries. Raises the errors of ``read_manifest`` for a container that cannot be opened."""
    return _columns_in(opened_manifest(data, manifest), data, manifest, partition_type)


def _columns_in(container: Container, data: bytes, manifest: ManifestFile, partition_type: StructType) -> EntryColumns | None:
    if not _is_worth_columns(container.record_count) or any(count > len(raw) for count, raw in container.blocks):
        return None
    plan = decoding_plan(container, partition_type, manifest.manifest_path)
    decoded = _decode(container, plan)
    try:
        return None if decoded is None else EntryColumns(decoded, plan, manifest, data)
    except (IcebergOpsError, ValueError, TypeError, KeyError, OverflowError):
        return None


_read_without_numpy = [0]


def _is_worth_columns(records: int) -> bool:
    """Whether columns are faster than the record decoder. If numpy is not loaded yet, its import must pay off too: a command
    on a small table finishes without it."""
    if records < FEWEST_RECORDS or "numpy" in sys.modules:
        return records >= FEWEST_RECORDS
    _read_without_numpy[0] += records
    return _read_without_numpy[0] > RECORDS_WORTH_NUMPY


class LazyMap(Mapping[int, Any]):
    """One entry's statistic, converted to a dict when it is first used. Equal to that dict."""

    __slots__ = ("_place", "_source")

    def __init__(self, source: EntryColumns, key: str, row: int) -> None:
        self._source: EntryColumns | dict[int, Any] = source
        self._place = (key, row)

    def _map(self) -> dict[int, Any]:
        source = self._source
        if isinstance(source, dict):
            return source
        self._source = decoded = {k: v for k, v in source.array(*self._place) if v is not None}
        return decoded

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

    ``status``, ``content``, ``record_count`` and ``file_size_in_bytes`` are numpy arrays; ``packed`` has the statistics that were
    read for many files, by DataFile field.
    """

    def __init__(self, records: Records, plan: DecodingPlan, manifest: ManifestFile, data: bytes) -> None:
        from iceberg_ops.serde.avro.avro_column_values import column_values

        self.manifest = manifest
        self._plan = plan
        self._rows = len(records.starts)
        self._columns = records.columns
        self._walk: ColumnReader | None = records.walk
        self._data = data
        self._decoding = threading.Lock()
        self._assigned_row_ids: list[int | None] | None = None
        self._cuts: dict[str, EncodedFiles | None] = {}
        self._looked_at: dict[str, int] = {}
        self.packed: dict[str, PackedMaps] = {}
        self._values = {
            k: column_values(records.walk, c)
            for k, c in records.columns.items()
            if k[0] == "f" and k != "f101" and c.lengths is not None
        }
        self.status = self._whole("f0")
        self.content = self._whole("f134", default=0)
        self.record_count = self._whole("f103")
        self.file_size_in_bytes = self._whole("f104")
        self._paths: list[str] = self._values["f100"]
        self._formats = self._file_formats(records.walk)
        self._check()
        if None in self._numbers("f3", None):
            raise ValueError("entry without a data sequence number")

    def __len__(self) -> int:
        return self._rows

    @property
    def live(self) -> Any:
        """Boolean numpy array: which rows are not DELETED."""
        return self.status != int(EntryStatus.DELETED)

    @property
    def nbytes(self) -> int:
        """The approximate memory of the columns while the statistics are packed."""
        return self._rows * _BYTES_PER_ROW + len(self._data)

    def pack(self) -> None:
        """Release the decompressed bytes until a statistic is used again; those of the last few manifests stay."""
        if self._walk is not None:
            _OPEN.add(self, self._walk.end)

    def drop(self) -> None:
        self._walk = None

    def partition_codes(self) -> Any:
        """One integer per row (numpy): rows with the same number are in the same partition."""
        keys = [f"{_PARTITION}.{key}" for key, _ in self._plan.partition]
        from iceberg_ops.serde.avro.avro_column_values import row_codes

        return row_codes([(self._columns[k], self._values.get(k)) for k in keys if k in self._columns], self._rows)

    def bounds(self, field_id: int, *, upper: bool) -> tuple[ColumnReader, Column]:
        """A column's lower or upper bounds (binary single values), and the buffer that they are slices of."""
        return self._statistic("upper_bounds" if upper else "lower_bounds", field_id)

    def counts(self, name: str, field_id: int) -> Any:
        """``value_counts``, ``null_value_counts``, ``nan_value_counts`` or ``column_sizes`` of a column as a numpy array, -1 if
        unknown."""
        import numpy

        _, column = self._statistic(name, field_id)
        values = column.values if column.values is not None else numpy.zeros(self._rows, numpy.int64)
        return numpy.where(column.known(self._rows), values, -1)

    def entries(self, rows: Iterable[int] | None = None) -> list[ManifestEntry]:
        """The entries of these rows (None: all) as Python objects, in the given order."""
        chosen = None if rows is None else list(rows)
        status = self._pick(self.status, chosen)
        snapshot_ids, sequence_numbers, file_sequence_numbers = self.numbers(chosen)
        columns: dict[str, Iterable[Any]] = {
            "status": [_STATUSES[s] for s in status],
            "snapshot_id": snapshot_ids,
            "sequence_number": sequence_numbers,
            "file_sequence_number": file_sequence_numbers,
            "data_file": self.data_files(chosen),
        }
        return made_from_columns(ManifestEntry, len(status), columns)

    def numbers(self, rows: list[int] | None = None) -> tuple[list[int | None], list[int | None], list[int | None]]:
        """Snapshot ids, data sequence numbers and file sequence numbers of these rows (None: all)."""
        ids = [self.manifest.added_snapshot_id if s is None else s for s in self._list("f1", rows)]
        return ids, *self.sequence_numbers(rows)

    def sequence_numbers(self, rows: list[int] | None = None) -> tuple[list[int | None], list[int | None]]:
        """Data sequence numbers and file sequence numbers of these rows (None: all)."""
        return self._numbers("f3", rows), self._numbers("f4", rows)

    def _numbers(self, key: str, rows: list[int] | None) -> list[int | None]:
        """Sequence numbers, inherited if they are omitted (SEQ-02, SEQ-04)."""
        import numpy

        column, inherited = self._columns.get(key), self.manifest.sequence_number
        if column is None or column.values is None:
            written, known = numpy.zeros(self._rows, numpy.int64), numpy.zeros(self._rows, bool)
        else:
            written, known = column.values, column.known(self._rows)
        numbers: list[int | None] = list(self._pick(numpy.where(known, written, inherited), rows))
        unknown = ~known & (self.status != int(EntryStatus.ADDED)) if inherited else numpy.zeros(1, bool)
        if unknown.any():
            numbers = [None if u else n for n, u in zip(numbers, self._pick(unknown, rows), strict=True)]
        return numbers

    def first_row_ids(self, rows: list[int]) -> list[int | None]:
        """The first row ids of these rows, None if there is none."""
        return [None] * len(rows) if not self._numbers_rows else [self._row_ids()[row] for row in rows]

    def paths(self) -> list[str]:
        """All locations, as recorded."""
        return self._paths

    def data_files(self, rows: list[int] | None) -> list[LazyDataFile]:
        """The data files of these rows (None: all)."""
        count = self._rows if rows is None else len(rows)
        columns: dict[str, Iterable[Any]] = {
            "content": self._contents(rows),
            "file_path": self._list("f100", rows),
            "file_format": self._formats if rows is None or isinstance(self._formats, repeat) else [self._formats[r] for r in rows],
            "spec_id": repeat(self.manifest.partition_spec_id),
            "partition": self._partitions(rows, count),
            "record_count": self._pick(self.record_count, rows),
            "file_size_in_bytes": self._pick(self.file_size_in_bytes, rows),
            "source": repeat(self),
            "row": range(self._rows) if rows is None else rows,
        }
        return made_from_columns(LazyDataFile, count, columns)

    def _contents(self, rows: list[int] | None) -> Iterable[FileContent]:
        first, last = int(self.content.min()), int(self.content.max())
        return repeat(_CONTENTS[first]) if first == last else [_CONTENTS[c] for c in self._pick(self.content, rows)]

    def partitions(self, rows: list[int]) -> list[tuple[Any, ...]]:
        """The partition tuples of these rows, as canonical values."""
        return list(self._partitions(rows, len(rows)))

    def field(self, name: str, row: int) -> Any:
        """One field of one entry's data file, for a LazyDataFile on first use."""
        if name == "first_row_id":
            return self.first_row_ids([row])[0]
        key = _MAPS.get(name) or _PLAIN[name]
        column = self._columns.get(key)
        if column is None or (column.present is not None and not column.present[row]):
            return None
        if name in _MAPS:
            return self._map(name, row)
        return tuple(self.array(key, row)) if name in _TUPLES else self._list(key, [row])[0]

    def _map(self, name: str, row: int) -> Mapping[int, Any] | None:
        """One row's statistic. After a few calls all rows are decoded together, because the caller probably reads all."""
        from iceberg_ops.serde.avro.packed_maps import PackedMaps

        self._looked_at[name] = looked_at = self._looked_at.get(name, 0) + 1
        if looked_at <= _FEW:
            return LazyMap(self, _MAPS[name], row)
        self.packed[name] = maps = PackedMaps(self._opened(), self._columns[_MAPS[name]], self._rows)
        return maps.of(row)

    def array(self, key: str, row: int) -> list[Any]:
        """The items of one row's array. Raises CorruptTableError."""
        from iceberg_ops.serde.avro.avro_columns import value_at

        column = self._columns[key]
        assert column.starts is not None
        try:
            values: list[Any] = value_at(column.node, self._opened().raw, int(column.starts[row]))[0]
        except CorruptTableError as e:
            raise CorruptTableError(f"{self.manifest.manifest_path}: {e}") from None
        return values

    def encoded_files(self, schema_text: str, partition_type: StructType) -> EncodedFiles | None:
        """The bytes of all data files, if this manifest has the layout of that Avro schema; else None."""
        with self._decoding:
            if schema_text not in self._cuts:
                self._cuts[schema_text] = self.cut_files(schema_text, partition_type)
            return self._cuts[schema_text]

    def cut_files(self, schema_text: str, partition_type: StructType) -> EncodedFiles | None:
        """The same, computed again and not cached: for a single use."""
        name = self.manifest.manifest_path
        target_plan = decoding_plan(Container(schema_text, {}, ()), partition_type, name)
        if schema_layout(target_plan.node) != schema_layout(self._plan.node):
            return None
        version = 3 if "f142" in self._columns else 2 if "f3" in self._columns else 1
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

    def _opened(self) -> ColumnReader:
        """The decompressed bytes."""
        from iceberg_ops.serde.avro.avro_columns import ColumnReader

        walk = self._walk
        if walk is None:
            container = read_container(self._data, self.manifest.manifest_path)
            self._walk = walk = ColumnReader(raw for count, raw in container.blocks if count)
        return walk

    def _statistic(self, name: str, field_id: int) -> tuple[ColumnReader, Column]:
        from iceberg_ops.serde.avro.avro_column_values import values_of_key

        walk, column = self._opened(), self._columns.get(_MAPS[name])
        return walk, values_of_key(walk, column, field_id, self._rows)

    def _whole(self, key: str, default: int | None = None) -> Any:
        import numpy

        column = self._columns.get(key)
        if default is not None and (column is None or column.values is None):
            return numpy.full(self._rows, default, dtype=numpy.int64)
        if column is None or column.values is None or (default is None and column.present is not None):
            raise ValueError(f"no column {key}, or null in it")
        return column.values if column.present is None else numpy.where(column.present, column.values, default or 0)

    def _file_formats(self, walk: ColumnReader) -> repeat[FileFormat] | list[FileFormat]:
        column = self._columns["f101"]
        if column.present is not None or column.lengths is None or column.starts is None:
            raise ValueError("null in file format")
        first = walk.slices(column, [0])[0]
        shift = (64 - 8 * column.lengths).astype("u8")
        words = walk.words_at(column.starts) << shift
        if 0 < len(first) <= 8 and (shift == shift[0]).all() and (words == words[0]).all():
            return repeat(file_format(first.decode(), self.manifest.manifest_path))
        known: dict[bytes, FileFormat] = {}
        texts = walk.slices(column)
        for text in set(texts):
            known[text] = file_format(text.decode(), self.manifest.manifest_path)
        return [known[text] for text in texts]

    def _check(self) -> None:
        if not ((self.status >= 0) & (self.status <= 2)).all() or not ((self.content >= 0) & (self.content <= 2)).all():
            raise ValueError("status or content out of range")
        if (self.record_count < 0).any():
            raise ValueError("record count below 0")

    def _list(self, key: str, rows: list[int] | None) -> list[Any]:
        column = self._columns.get(key)
        if column is None or column.node == "null":
            return [None] * (self._rows if rows is None else len(rows))
        if column.values is None:
            values = self._values.get(key) or [None] * self._rows
            return values if rows is None else [values[r] for r in rows]
        picked: list[Any] = self._pick(column.values, rows)
        if column.node == "boolean":
            picked = list(map(bool, picked))
        if column.present is None:
            return picked
        return [v if known else None for v, known in zip(picked, self._pick(column.present, rows), strict=True)]

    def _pick(self, values: Any, rows: list[int] | None) -> list[int]:
        picked: list[int] = (values if rows is None else values[rows]).tolist()
        return picked

    def _partitions(self, rows: list[int] | None, count: int) -> Iterable[tuple[Any, ...]]:
        if not self._plan.partition:
            return repeat((), count)
        values = (_converted(self._list(f"{_PARTITION}.{key}", rows), convert) for key, convert in self._plan.partition)
        return zip(*values, strict=True)

    def _row_ids(self) -> list[int | None]:
        """LINEAGE-12: numbering needs all earlier rows, whichever rows are requested."""
        if self._assigned_row_ids is None:
            row_ids: list[int | None] = []
            first = self.manifest.first_row_id or 0
            written, deleted_rows = self._list("f142", None), (~self.live).tolist()
            for number, deleted, count in zip(written, deleted_rows, self.record_count.tolist(), strict=True):
                if number is None and not deleted:
                    number, first = first, first + count
                row_ids.append(number)
            self._assigned_row_ids = row_ids
        return self._assigned_row_ids


class LazyDataFile(EncodedFile):
    """A DataFile from a manifest's columns: path, partition and sizes are set, the rest is decoded on first use.

    Equal to the corresponding DataFile; ``dataclasses.replace``, copying and pickling give one that holds all its values.
    """

    __slots__ = ("row", "source")

    def __getattr__(self, name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(name)
        packed = self.source.packed.get(name)
        if packed is not None:
            # Not cached: a view costs less than the garbage collections caused by a hundred thousand more live objects.
            return packed.of(self.row)
        value = self.source.field(name, self.row)
        _SET[name](self, value)
        return value

    @property
    def columns(self) -> EntryColumns | None:
        """The source of the rest; None for a copy, which holds all values itself."""
        return getattr(self, "source", None)

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
_SET = {name: getattr(DataFile, name).__set__ for name in _LATER}


def _settled(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _whole_file(values: tuple[Any, ...]) -> DataFile:
    return DataFile(**dict(zip(_FIELDS, values, strict=True)))


def _converted(values: Iterable[Any], convert: Convert | None) -> Iterable[Any]:
    return values if convert is None else [None if v is None else convert(v) for v in values]


def _decode(container: Container, plan: DecodingPlan) -> Records | None:
    """All entries, with the data file's fields inlined; None if they must be read one by one."""
    try:
        from iceberg_ops.serde.avro.avro_columns import NotDecodable, is_taken
        from iceberg_ops.serde.avro.avro_record_starts import read_records
    except ImportError:
        return None
    if not isinstance(plan.node, dict) or not is_taken(plan.node):
        return None
    flat: list[dict[str, Any]] = []
    for f in plan.node["fields"]:
        inner = f["type"] if f["name"] == "f2" else None
        flat += inner["fields"] if isinstance(inner, dict) else [f]
    try:
        return read_records(container.blocks, flat, "f100")
    except NotDecodable:
        return None
