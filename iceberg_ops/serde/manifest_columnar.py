"""Manifests as columns: the fast path of planning.

A manifest is decoded into Arrow arrays in one go (polars' Avro reader, about ten times the record decoder's rate), so that a
planner can decide on whole columns (status, partition values, one field's bounds) and make Python objects for the survivors only.
Statistics stay in Arrow until someone asks for them. ``EntryColumns.entries`` equals what ``manifest_avro.read_manifest`` gives;
that module is the reference, and whatever this path does not take (no polars, few records, an odd schema, damaged bytes) is left
to it: ``read_columns`` gives None then, and the reference reads the file or says what is wrong with it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.serde.avro_container import Container, read_container, write_container
from iceberg_ops.serde.avro_schema import plain
from iceberg_ops.serde.manifest_avro import DecodingPlan, decoding_plan, file_format, read_manifest, refuse_encrypted
from iceberg_ops.serde.partition_avro import Convert
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.types import StructType

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
_PLAIN = {
    "key_metadata": "f131",
    "sort_order_id": "f140",
    "referenced_data_file": "f143",
    "content_offset": "f144",
    "content_size_in_bytes": "f145",
}
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
    node = _thinned(plan.node)
    if not _is_decodable(node):
        return None
    frame = _decode(container, node)
    if frame is None or frame.height != container.record_count:
        return None
    try:
        return EntryColumns(frame, plan, manifest)
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

    def __init__(self, frame: Any, plan: DecodingPlan, manifest: ManifestFile) -> None:
        self.manifest = manifest
        self._plan = plan
        self._rows = frame.height
        self._files = frame["f2"].struct.unnest()
        self._frame = frame
        self.status = self._whole(frame, "f0")
        self.content = self._whole(self._files, "f134", default=0)
        self.record_count = self._whole(self._files, "f103")
        self.file_size_in_bytes = self._whole(self._files, "f104")
        self._check()
        self._maps = {name: _map_column(self._files[key]) for name, key in _MAPS.items() if key in self._files.columns}

    def __len__(self) -> int:
        return int(self._rows)

    @property
    def live(self) -> Any:
        """Boolean numpy array: which rows are not DELETED."""
        return self.status != int(EntryStatus.DELETED)

    @property
    def file_path(self) -> Any:
        return self._files["f100"].to_arrow()

    @property
    def nbytes(self) -> int:
        """Bytes the columns take in memory, about."""
        return int(self._frame.estimated_size())

    def partition(self, index: int) -> Any:
        """A partition field's values by its place in the spec, as Avro holds them (dates and times whole numbers, decimals and
        uuids bytes); None where the file does not have the field."""
        key = self._plan.partition[index][0]
        return None if key is None or "f102" not in self._files.columns else self._files["f102"].struct.field(key).to_arrow()

    def bounds(self, field_id: int, *, upper: bool) -> Any:
        """A column's lower or upper bounds (binary single values), null where unknown."""
        return self._statistic("upper_bounds" if upper else "lower_bounds", field_id)

    def counts(self, name: str, field_id: int) -> Any:
        """``value_counts``, ``null_value_counts``, ``nan_value_counts`` or ``column_sizes`` of a column, null where unknown."""
        return self._statistic(name, field_id)

    def entries(self, rows: Iterable[int] | None = None) -> list[ManifestEntry]:
        """The entries of these rows (None: all) as Python objects, in the order asked for."""
        made = self._made() if rows is None else self._made(list(rows))
        return list(made)

    def partitions(self, rows: list[int]) -> list[tuple[Any, ...]]:
        """The partition tuples of these rows, as canonical values."""
        return list(self._partitions(rows, len(rows)))

    def _statistic(self, name: str, field_id: int) -> Any:
        import pyarrow

        column = self._maps.get(name)
        if column is None:
            return pyarrow.nulls(self._rows, pyarrow.binary() if name.endswith("bounds") else pyarrow.int64())
        return column.of_field(field_id, self._rows)

    def _whole(self, frame: Any, key: str, default: int | None = None) -> Any:
        import numpy

        if key not in frame.columns:
            if default is None:
                raise ValueError(f"no column {key}")
            return numpy.zeros(self._rows, dtype=numpy.int64)
        column = frame[key] if default is None else frame[key].fill_null(default)
        if column.null_count():
            raise ValueError(f"null in column {key}")
        return column.to_numpy()

    def _check(self) -> None:
        if not ((self.status >= 0) & (self.status <= 2)).all() or not ((self.content >= 0) & (self.content <= 2)).all():
            raise ValueError("status or content out of range")
        if (self.record_count < 0).any() or self._files["f100"].null_count() or self._files["f101"].null_count():
            raise ValueError("record count, path or format missing")

    def _list(self, frame: Any, key: str, rows: list[int] | None) -> Iterable[Any]:
        if key not in frame.columns:
            return repeat(None, self._rows if rows is None else len(rows))
        column = frame[key] if rows is None else frame[key].gather(rows)
        found: list[Any] = column.to_list()
        return found

    def _made(self, rows: list[int] | None = None) -> Iterator[ManifestEntry]:
        files, frame, manifest = self._files, self._frame, self.manifest
        status = [_STATUSES[s] for s in self._pick(self.status, rows)]
        sequence = list(self._numbers(self._list(frame, "f3", rows), status, required=True))
        file_sequence = self._numbers(self._list(frame, "f4", rows), status, required=False)
        snapshot_ids = (manifest.added_snapshot_id if s is None else s for s in self._list(frame, "f1", rows))
        formats = {text: file_format(text, manifest.manifest_path) for text in files["f101"].unique().to_list()}
        numbers = range(self._rows) if rows is None else rows
        maps = {name: self._lazy(name, numbers) for name in _MAPS}
        columns: dict[str, Iterable[Any]] = {
            "content": [_CONTENTS[c] for c in self._pick(self.content, rows)],
            "file_path": self._list(files, "f100", rows),
            "file_format": [formats[text] for text in self._list(files, "f101", rows)],
            "spec_id": repeat(manifest.partition_spec_id),
            "partition": self._partitions(rows, len(status)),
            "record_count": self._pick(self.record_count, rows),
            "file_size_in_bytes": self._pick(self.file_size_in_bytes, rows),
            **maps,
            "split_offsets": _tuples(self._list(files, "f132", rows)),
            "equality_ids": _tuples(self._list(files, "f135", rows)),
            "first_row_id": self._row_ids(rows),
            **{name: self._list(files, key, rows) for name, key in _PLAIN.items()},
        }
        made = _files(columns)
        for s, snapshot_id, number, file_number, f in zip(status, snapshot_ids, sequence, file_sequence, made, strict=False):
            yield ManifestEntry(s, snapshot_id, number, file_number, f)

    def _pick(self, values: Any, rows: list[int] | None) -> list[int]:
        found: list[int] = (values if rows is None else values[rows]).tolist()
        return found

    def _numbers(self, written: Iterable[int | None], status: list[EntryStatus], *, required: bool) -> Iterator[int | None]:
        inherited = self.manifest.sequence_number
        for s, number in zip(status, written, strict=True):
            if number is None and (s is EntryStatus.ADDED or inherited == 0):
                number = inherited
            if number is None and required:
                raise ValueError("entry without a data sequence number")
            yield number

    def _lazy(self, name: str, numbers: Iterable[int]) -> Iterable[Any]:
        column = self._maps.get(name)
        if column is None:
            return repeat(None)
        present = column.present
        if present.all():
            return map(LazyMap, repeat(column), numbers)
        return [LazyMap(column, row) if present[row] else None for row in numbers]

    def _partitions(self, rows: list[int] | None, count: int) -> Iterable[tuple[Any, ...]]:
        fields = self._plan.partition
        if not fields:
            return repeat((), count)
        if "f102" not in self._files.columns:
            return repeat((None,) * len(fields), count)
        tuples = self._files["f102"].struct.unnest()
        return zip(*(_converted(self._list(tuples, key or "", rows), convert) for key, convert in fields), strict=True)

    def _row_ids(self, rows: list[int] | None) -> Iterable[int | None]:
        """LINEAGE-12: numbering needs every row before, whichever are asked for."""
        first = self.manifest.first_row_id if self.manifest.content is ManifestContent.DATA else None
        if first is None:
            return repeat(None)
        found: list[int | None] = []
        written = self._list(self._files, "f142", None)
        for number, deleted, count in zip(written, (~self.live).tolist(), self.record_count.tolist(), strict=True):
            if number is None and not deleted:
                number, first = first, first + count
            found.append(number)
        return found if rows is None else [found[row] for row in rows]


def _files(columns: Mapping[str, Iterable[Any]]) -> Iterator[DataFile]:
    """Data files from columns. Slots are set directly: a frozen dataclass's own ``__init__`` takes three times as long."""
    setters = [getattr(DataFile, name).__set__ for name in columns]
    new = DataFile.__new__
    for values in zip(*columns.values(), strict=False):
        f = new(DataFile)
        for set_slot, value in zip(setters, values, strict=True):
            set_slot(f, value)
        yield f


def _converted(values: Iterable[Any], convert: Convert | None) -> Iterable[Any]:
    return values if convert is None else [None if v is None else convert(v) for v in values]


def _tuples(values: Iterable[Any]) -> Iterable[tuple[int, ...] | None]:
    return (None if v is None else tuple(v) for v in values)


def _map_column(series: Any) -> _MapColumn:
    array = series.rechunk().to_arrow()
    pairs = array.values
    return _MapColumn(array.offsets.to_numpy(), pairs.field(0), pairs.field(1), array.is_valid().to_numpy(zero_copy_only=False))


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


def _decode(container: Container, node: Any) -> Any:
    """A polars frame of the records, or None."""
    try:
        import polars
    except ImportError:
        return None
    data = write_container(plain(node), {}, container.blocks, codec="null")
    try:
        return polars.read_avro(io.BytesIO(data))
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError):
        return None
