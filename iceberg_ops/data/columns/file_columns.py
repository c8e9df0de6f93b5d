"""Finds which column of a data file has which field id.

Columns are found only by field id (spec: "Column Projection"). Ids come from the file itself (``PARQUET:field_id`` or
``iceberg.id``). If a file has no ids at all, they come from the table's name mapping (spec: "Name Mapping Serialization"). If the
table has no mapping either (or one that contradicts its schema), they come from the names of the table's own columns, as in Java
for ORC and Avro. Java reads such Parquet files by position; a file whose names match no column at all is read by position here too,
so that migrated tables keep their rows.

Consecutive files mostly have the same columns: the last result for a schema is cached, and used if the next schema is equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa

from iceberg_ops.config.whole_numbers import INT_MAX, whole_number
from iceberg_ops.data.arrow.arrow_schema import FIELD_ID
from iceberg_ops.data.arrow.plain_types import is_list
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.name_mapping import MappedField, NameMapping, create_name_mapping
from iceberg_ops.spec.schema import Schema

ORC_ID = b"iceberg.id"


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file or a part of one. ``index`` is its position among its siblings; ``leaves`` are the numbers of its
    primitive leaves, counted over the whole file. ``children`` are struct fields, (element,) or (key, value)."""

    field_id: int | None
    name: str
    type: pa.DataType
    index: int
    leaves: tuple[int, ...]
    children: tuple[FileColumn, ...] = ()

    def child(self, field_id: int) -> FileColumn | None:
        return next((c for c in self.children if c.field_id == field_id), None)


_SEEN: dict[str, tuple[pa.Schema, tuple[FileColumn, ...]]] = {}
"""The last schema with ids, and its columns."""
_PRUNED: dict[str, tuple[tuple[FileColumn, ...], pa.Schema, frozenset[int], tuple[FileColumn, ...]]] = {}
"""The last call of ``pruned``: the columns, the schema, the leaves, the result."""


def find_column(columns: Sequence[FileColumn], field_id: int) -> FileColumn | None:
    """The column with that id among siblings. Raises CorruptTableError for several: it is unclear which one is meant."""
    matching = [c for c in columns if c.field_id == field_id]
    if len(matching) > 1:
        raise CorruptTableError(
            f"columns {matching[0].name!r} and {matching[1].name!r} are both the field with id {field_id}: only one of them may be"
        )
    return matching[0] if matching else None


def child_arrow_fields(type_: pa.DataType) -> list[pa.Field]:
    """Direct children of an Arrow type: struct fields, the element, or key and value."""
    if pa.types.is_struct(type_):
        return [type_.field(i) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if is_list(type_):
        return [type_.value_field]
    return []


@dataclass(frozen=True)
class ColumnIds:
    """How ids are found: the table's mapping, and its schema for tables without a mapping."""

    mapping: NameMapping | None = None
    schema: Schema | None = None
    trust_ids: bool = True
    """False: ids in the source may belong to another table, so names decide."""

    def columns(self, source: pa.Schema) -> tuple[FileColumn, ...]:
        """The file's columns with ids; ``source`` has plain types (``plain_types``). The same call on a schema pruned to some
        columns gives these the same ids, except if ids come from positions: resolve the whole file first, then use ``pruned``."""
        fields = list(source)
        if self.trust_ids:
            seen = _SEEN.get("columns")
            if seen is not None and source.equals(seen[0], check_metadata=True):
                return seen[1]
            if has_ids(source):
                _SEEN["columns"] = (source, numbered := _numbered(fields, (), children_mapped=False))
                return numbered
        mapping = self.mapping
        if mapping is not None and self.schema is not None and _contradicts(mapping.fields, None, self.schema):
            mapping = None
        if mapping is None and self.schema is not None:
            if not any(self.schema.find(f.name, case_sensitive=False) for f in fields):
                return _by_position(fields)
            mapping = create_name_mapping(self.schema)
        return _numbered(fields, mapping.fields if mapping else (), children_mapped=True)


def pruned(columns: Sequence[FileColumn], source: pa.Schema, leaves: AbstractSet[int]) -> tuple[FileColumn, ...]:
    """``columns`` as they appear in a batch of ``source``, which holds only those of these ``leaves``, in the file's order: the ids
    stay, the positions change. Names are ignored: a file may have several columns with one name and different ids."""
    seen = _PRUNED.get("last")
    if seen is not None and seen[0] is columns and source.equals(seen[1]) and seen[2] == leaves:
        return seen[3]
    kept = _pruned(columns, list(source), leaves)
    if isinstance(columns, tuple):  # a list may change
        _PRUNED["last"] = (columns, source, frozenset(leaves), kept)
    return kept


def _pruned(columns: Sequence[FileColumn], fields: Sequence[pa.Field], leaves: AbstractSet[int]) -> tuple[FileColumn, ...]:
    there = columns if len(fields) == len(columns) else [c for c in columns if not leaves.isdisjoint(c.leaves)]
    return tuple(
        FileColumn(c.field_id, f.name, f.type, place, c.leaves, _pruned(c.children, child_arrow_fields(f.type), leaves))
        for place, (c, f) in enumerate(zip(there, fields, strict=True))
    )


def _recorded_field_id(f: pa.Field) -> int | None:
    """The field id that the file records for a column; a negative one means that it has none. Raises CorruptTableError for an id
    that is not a number: without its id the column would be read as missing."""
    for key in (FIELD_ID, ORC_ID):
        text = (f.metadata or {}).get(key)
        if text is None:
            continue
        field_id = whole_number(text.decode("utf-8", "replace"), INT_MAX)
        if field_id is None:
            raise CorruptTableError(f"column {f.name!r} has the field id {text[:40]!r}: must be a 32-bit whole number")
        if field_id >= 0:
            return field_id
    return None


def _contradicts(fields: Sequence[MappedField], parent: int | None, schema: Schema) -> bool:
    """True if the mapping puts an id under another parent than the schema does. Fields never move to another parent, so such a
    mapping was made for other ids (Hive assigned ids of migrated nested columns twice) and would read one column as another."""
    for f in fields:
        if f.field_id is not None and schema.parents.get(f.field_id, parent) != parent:
            return True
        if f.field_id is not None and _contradicts(f.fields, f.field_id, schema):
            return True
    return False


def has_ids(source: pa.Schema) -> bool:
    """Whether a file's columns carry field ids."""
    return _any_ids(list(source))


def _any_ids(fields: Sequence[pa.Field]) -> bool:
    return any(_recorded_field_id(f) is not None or _any_ids(child_arrow_fields(f.type)) for f in fields)


def _mapped(names: Sequence[str], fields: Sequence[MappedField]) -> list[MappedField | None]:
    """The mapped field of each of these siblings. An exact name wins over one that differs in case (Hive lower-cases the names in
    its files), in any order. Lower-case matching only uses names that stand for one field: two fields whose names differ only
    in case are found by their exact names."""
    exact = {name: f for f in fields for name in f.names}
    owners: dict[str, set[int | None]] = {}
    for f in fields:
        for name in f.names:
            owners.setdefault(name.lower(), set()).add(f.field_id)
    lowered = {name.lower(): f for f in fields for name in f.names if len(owners[name.lower()]) == 1}
    taken = {id(exact[name]) for name in names if name in exact}

    def by_case(name: str) -> MappedField | None:
        f = lowered.get(name.lower())
        return None if f is None or id(f) in taken else f

    return [exact[name] if name in exact else by_case(name) for name in names]


def _numbered(fields: Sequence[pa.Field], mapping: Sequence[MappedField], *, children_mapped: bool) -> tuple[FileColumn, ...]:
    leaf = iter(range(1 << 31))
    entries = _mapped([f.name for f in fields], mapping)
    return tuple(_column(f, i, leaf, entry, children_mapped) for i, (f, entry) in enumerate(zip(fields, entries, strict=True)))


def _column(f: pa.Field, index: int, leaf: Iterator[int], entry: MappedField | None, mapped: bool) -> FileColumn:
    """``entry`` is the mapping's field of this column; ``mapped``: the mapping gives the id, not the file."""
    field_id = (entry.field_id if entry else None) if mapped else _recorded_field_id(f)
    inner = child_arrow_fields(f.type)
    entries = _mapped(_roles(f.type) or [c.name for c in inner], entry.fields if entry else ())
    children = tuple(_column(c, i, leaf, entry, mapped) for i, (c, entry) in enumerate(zip(inner, entries, strict=True)))
    leaves = tuple(n for c in children for n in c.leaves) if inner else (next(leaf),)
    return FileColumn(field_id, f.name, f.type, index, leaves, children)


def _roles(type_: pa.DataType) -> tuple[str, ...] | None:
    if pa.types.is_map(type_):
        return ("key", "value")
    if pa.types.is_struct(type_) or not child_arrow_fields(type_):
        return None
    return ("element",)


def _by_position(fields: Sequence[pa.Field]) -> tuple[FileColumn, ...]:
    plain = _numbered(fields, (), children_mapped=True)
    return tuple(FileColumn(c.index + 1, c.name, c.type, c.index, c.leaves, c.children) for c in plain)
