"""Partition values from Hive-style folders, ``day=2024-01-02/region=eu/part-0.parquet``, and which files below a folder are data.

Every ``name=value`` folder between the root and a file counts, and no other folders are allowed there: a file at another depth
belongs to another table. Names are compared ignoring case, values are URL-decoded; Hive's name for a null is a null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.config.whole_numbers import whole_number
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.expressions.literal_casts import cast
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.io.locations import location_identity
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DATE, DOUBLE, FLOAT, LONG, STRING, DecimalType, PrimitiveType

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
Folders = tuple[tuple[str, str | None], ...]


_DATE = re.compile(r"[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}")
_FRACTION = re.compile(r"(?:\.([0-9]*?)0*(?![0-9])|$)")
_INFINITY = re.compile("inf", re.IGNORECASE)
_TIMES = frozenset({"time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_METADATA_ENDINGS = (".avro", ".metadata.json", ".metadata.json.gz", ".text")


def data_files(root: str, listing: Iterable[FileInfo], but: str | None = None) -> list[tuple[FileInfo, Folders]]:
    """Data files below ``root``, each with its folders' names and values, by location; none below ``but`` (a table's
    own metadata), and no metadata that a dead import of ``root`` left.

    Raises DataError for a half-written folder, for a folder that is not ``name=value``, and for a name that is not UTF-8.
    """
    files = []
    excluded = None if but is None else location_identity(but).rstrip("/") + "/"
    for info in listing:
        if excluded is not None and location_identity(info.location).startswith(excluded):
            continue
        parts = _below(root, info.location)
        if "_temporary" in parts:
            raise DataError(f"{root} is half written: it holds {'/'.join(parts)}; its writer is at work, or died")
        if parts[0] == "metadata" and (_is_note(parts) or (len(parts) == 2 and parts[1].endswith(_METADATA_ENDINGS))):
            continue
        if parts[-1][:1] in ("_", ".") or any(p[:1] in ("_", ".") and "=" not in p for p in parts[:-1]):
            continue
        if not is_unicode(info.location):
            raise DataError(f"{root}: the name of the file {'/'.join(parts)!a} in it is not UTF-8: rename it")
        files.append((info, _folders(info.location, parts[:-1])))
    return sorted(files, key=lambda f: f[0].location)


def _is_note(parts: Sequence[str]) -> bool:
    return len(parts) == 4 and parts[1] == "iceberg-ops" and parts[-1].endswith(".json")


def _below(root: str, location: str) -> list[str]:
    base, at = location_identity(root).rstrip("/") + "/", location_identity(location)
    if not at.startswith(base):
        raise DataError(f"file {location} lies outside {root}")
    return at.removeprefix(base).split("/")


def _folders(location: str, parts: Sequence[str]) -> Folders:
    if wrong := next((p for p in parts if "=" not in p), None):
        raise DataError(f"file {location}: folder {wrong!r} is not name=value: it is not part of a partitioned folder")
    folders: list[tuple[str, str | None]] = []
    for part in parts:
        raw, _, text = part.partition("=")
        try:
            name, value = unquote(raw, errors="strict"), unquote(text, errors="strict")
        except UnicodeDecodeError as e:
            raise DataError(f"file {location}: folder {part!r} is not UTF-8 where it is percent-encoded: {e}") from None
        if not name:
            raise DataError(f"file {location}: folder {part!r} has no name before the equals sign")
        if not value:
            raise DataError(f"file {location}: folder {part!r} has no value: the folder of nulls is called {name}={HIVE_NULL}")
        if any(name.lower() == known.lower() for known, _ in folders):
            raise DataError(f"file {location}: folder {part!r} names partition {name!r} a second time")
        folders.append((name, None if text == HIVE_NULL else value))
    return tuple(folders)


def partition_tuple(location: str, folders: Folders, schema: Schema, spec: PartitionSpec) -> tuple[Any, ...]:
    """The partition tuple of a file. Raises DataError for folders that do not fit the spec, or a value that does not fit the
    column."""
    given = {name.lower(): value for name, value in folders}
    names = {f.name.lower() for f in spec.fields if not f.transform.is_void}
    if set(given) != names or len(given) != len(folders):
        raise DataError(
            f"file {location} lies in folders {', '.join(n for n, _ in folders) or 'none'}; the table is partitioned by "
            f"{', '.join(f.name for f in spec.fields) or 'nothing'}"
        )
    values: list[Any] = []
    for f in spec.fields:
        if f.transform.is_void:
            values.append(None)  # its column may have been dropped
            continue
        text = given.get(f.name.lower())
        column = schema.field(f.source_id)
        if text is None:
            if column.required:
                raise DataError(f"file {location}: partition {f.name!r} is null, and column {column.name!r} is required")
            values.append(None)
            continue
        assert isinstance(column.type, PrimitiveType)
        try:
            values.append(_value(text, column.type))
        except ValueError as e:
            raise DataError(f"file {location}: partition {f.name} = {text!r} is not a valid {column.type}: {e}") from None
    return tuple(values)


def _value(text: str, type_: PrimitiveType) -> Any:
    """The exact value of a folder's name: a cast in SQL would round decimals and cut times. Raises ValueError."""
    literal = cast(Literal(text, STRING), type_)
    if literal.type != type_:
        raise ValueError("it has more digits of a second")
    if isinstance(type_, DecimalType) and Decimal(text.strip()) != literal.value:
        raise ValueError(f"it has more than {type_.scale} digits after the point")
    if type_ == DATE and not _DATE.fullmatch(text.strip()):
        raise ValueError("it is not written as year-month-day")
    fraction = _FRACTION.search(text) if type_.name in _TIMES else None
    if fraction is not None and len(fraction[1] or "") > (9 if type_.name.endswith("_ns") else 6):
        raise ValueError("it has more digits of a second")
    if type_ in (FLOAT, DOUBLE) and math.isinf(literal.value) and not _INFINITY.search(text):
        raise ValueError("it is too large")
    return literal.value


def check_spec(schema: Schema, spec: PartitionSpec) -> None:
    """Raise UnsupportedError for a spec whose values folder names cannot hold."""
    for f in spec.fields:
        if f.transform.is_void:
            continue
        if not f.transform.is_identity:
            raise UnsupportedError(
                f"not supported: importing files into partition field {f.name!r} ({f.transform}), "
                "because folders say identity values only"
            )
        if schema.field(f.source_id).type.is_nested:
            raise UnsupportedError(f"not supported: importing files into nested partition field {f.name!r}")


def column_types(folders: Iterable[Folders]) -> Mapping[str, PrimitiveType]:
    """Types for partition columns that no table defines, by the first spelling of their names: long or date if every value is one,
    else string."""
    values: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for pairs in folders:
        for name, value in pairs:
            spelling = names.setdefault(name.lower(), name)
            values.setdefault(spelling, []).extend([] if value is None else [value])
    return {name: _guess_type(texts) for name, texts in values.items()}


def _guess_type(values: Sequence[str]) -> PrimitiveType:
    if values:
        if all(_is_long(v) for v in values):
            return LONG
        if all(len(v) == 10 and _is_date(v) for v in values):
            return DATE
    return STRING


def _is_long(text: str) -> bool:
    """A text counts as a number only in its canonical form (007 is a name), and only if it fits a long."""
    number = whole_number(text)
    return number is not None and str(number) == text


def _is_date(text: str) -> bool:
    try:
        cast(Literal(text, STRING), DATE)
    except ValueError:
        return False
    return True
