"""JSON records as typed columns.

A text is an object, which is a record, or an array of objects, each of which is a record. Fields are found by name, ignoring case,
at every level. A record with two spellings of one field, both with a value, is a bad one, and so is one with a field that is not
among the columns to read, unless its value is empty. A missing field is NULL. A bad record in an array does not affect the others:
it has its own text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from iceberg_ops.config.whole_numbers import INT_MAX, LONG_MAX
from iceberg_ops.data.arrow.arrow_values import array_of
from iceberg_ops.data.sources.text.decoding import decoded
from iceberg_ops.data.sources.text.json_shape import ObservedValues, json_records, maps_in
from iceberg_ops.data.sources.text.json_values import Number, read_json
from iceberg_ops.data.sources.text.parsed import BadRecord, NotAValueError, Parsed, nulls_where_bad, shown
from iceberg_ops.data.sources.text.text_options import JsonOptions
from iceberg_ops.data.sources.text.text_values import (
    TextForms,
    parse_decimal,
    parse_floating,
    parse_integer,
    parse_texts,
    text_parser,
    ticks_from_nanos,
)
from iceberg_ops.spec.types import DecimalType, FixedType, IcebergType, ListType, MapType, StructType

_Converter = Callable[[Any], Any]
_SPECIAL = re.compile("[+-]?(?:NaN|Infinity|INF)")
_AS_TEXTS: dict[str, frozenset[type]] = {
    **dict.fromkeys(("int", "long", "float", "double"), frozenset({Number})),
    **dict.fromkeys(
        ("date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "string", "uuid"), frozenset({str})
    ),
    "decimal": frozenset({str, Number}),
}
"""Columns with these types, if all values have one form, are read as texts: whole columns at once."""
_NO_RECORD = "is neither an object nor an array of objects"
_BLANKS = " \t\r\n"


def parse(texts: Iterable[bytes], columns: StructType, options: JsonOptions) -> Parsed:
    """The rows of ``texts``, lines or whole files."""
    places = {f.name.lower(): i for i, f in enumerate(columns.fields)}
    rows, bad, lines, originals = list[list[Any]](), dict[int, BadRecord](), list[int](), list[str | dict[str, Any]]()
    nothing: list[Any] = [None] * len(places)
    for index, text, records in _read(texts, options):
        if isinstance(records, BadRecord):
            bad[len(rows)], records = records, [{}]
        for record in records:
            original = text if len(records) == 1 else record
            try:
                rows.append(_placed(record, places))
            except NotAValueError as e:
                bad[len(rows)] = BadRecord(str(e), _as_text(original))
                rows.append(nothing)
            lines.append(index)
            originals.append(original)
    arrays = []
    for f, values in zip(columns.fields, zip(*rows, strict=True) if rows else [()] * len(places), strict=True):
        array, wrong = _column(f.type, values, options.forms)
        arrays.append(array)
        for row, why in wrong.items():
            bad.setdefault(row, BadRecord(f"column {f.name!r}: {why}", _as_text(originals[row])))
    return Parsed(nulls_where_bad(arrays, bad, len(rows)), bad, lines, lambda row: _as_text(originals[row]))


def _column(type_: IcebergType, values: Sequence[Any], forms: TextForms) -> tuple[pa.Array, dict[int, str]]:
    """The values of a column in Arrow's form, and by row why a value is not of the type."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds and kinds <= _AS_TEXTS.get(_kind(type_), frozenset()):
        return parse_texts(values, type_, forms)
    convert, values_read, wrong = _converter(type_, forms), list[Any](), dict[int, str]()
    for row, value in enumerate(values):
        try:
            values_read.append(convert(value))
        except NotAValueError as e:
            values_read.append(None)
            wrong[row] = str(e)
    return array_of(type_, values_read), wrong


def _kind(type_: IcebergType) -> str:
    return "decimal" if isinstance(type_, DecimalType) else str(type_)


def occurring(texts: Iterable[bytes], table: StructType, options: JsonOptions, bad: Callable[[BadRecord], None]) -> ObservedValues:
    """The fields of all readable records; ``bad`` is called with each of the others. ``table``: the known columns,
    as ``source_fields`` takes them."""
    occurrences, maps = ObservedValues(), maps_in(table)
    for _, _, records in _read(texts, options):
        if isinstance(records, BadRecord):
            bad(records)
        else:
            for record in records:
                occurrences.add(record, maps)
    return occurrences


def _read(texts: Iterable[bytes], options: JsonOptions) -> Iterator[tuple[int, str, list[dict[str, Any]] | BadRecord]]:
    for index, raw in enumerate(texts):
        text = decoded(raw, options.encoding)
        if isinstance(text, BadRecord):
            yield index, text.text, text
            continue
        if not text.strip(_BLANKS):
            continue
        try:
            records = json_records(read_json(text))
            yield index, text, BadRecord(_NO_RECORD, text) if records is None else records
        except NotAValueError as e:
            yield index, text, BadRecord(str(e), text)


def _converter(type_: IcebergType, forms: TextForms) -> _Converter:
    """Converts a result of ``read_json`` to the canonical value; raises NotAValueError. NULL passes."""
    inner = _not_null(type_, forms)
    return lambda value: None if value is None else inner(value)


def _not_null(type_: IcebergType, forms: TextForms) -> _Converter:
    if isinstance(type_, StructType):
        return _struct(type_, forms)
    if isinstance(type_, ListType):
        return _list(type_, forms)
    if isinstance(type_, MapType):
        return _map(type_, forms)
    convert = _scalar(type_, forms)

    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except ValueError:
            raise NotAValueError(f"{shown(_as_text(value))} is not a valid {type_}") from None

    return checked


def _struct(type_: StructType, forms: TextForms) -> _Converter:
    places = {f.name.lower(): i for i, f in enumerate(type_.fields)}
    converters = [_converter(f.type, forms) for f in type_.fields]

    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, dict):
            raise NotAValueError(f"{shown(_as_text(value))} is not an object")
        row = _placed(value, places)
        for i, inner in enumerate(row):
            try:
                row[i] = converters[i](inner)
            except NotAValueError as e:
                raise NotAValueError(f"field {type_.fields[i].name!r}: {e}") from None
        return tuple(row)

    return convert


def _placed(record: dict[str, Any], places: Mapping[str, int]) -> list[Any]:
    """The values of an object's fields at their positions (by name in lower case); NULL for a missing one. Raises
    NotAValueError."""
    row: list[Any] = [None] * len(places)
    for name, value in record.items():
        place = places.get(name.lower())
        if place is None:
            if not _is_empty(value):
                raise NotAValueError(f"field {name!r} is not a column of the table")
        elif value is not None:
            if row[place] is not None:
                raise NotAValueError(f"field {name!r} occurs in two spellings")
            row[place] = value
    return row


def _list(type_: ListType, forms: TextForms) -> _Converter:
    element = _converter(type_.element.type, forms)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise NotAValueError(f"{shown(_as_text(value))} is not an array")
        return [element(item) for item in value]

    return convert


def _map(type_: MapType, forms: TextForms) -> _Converter:
    key, item = text_parser(type_.key.type, forms), _converter(type_.value.type, forms)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise NotAValueError(f"{shown(_as_text(value))} is not an object")
        pairs = []
        for name, inner in value.items():
            try:
                converted_key = key(name)
            except ValueError:
                raise NotAValueError(f"key {shown(name)} is not a valid {type_.key.type}") from None
            pairs.append((converted_key, item(inner)))
        if len({repr(k) for k, _ in pairs}) != len(pairs):
            raise NotAValueError("two names are one key")
        return pairs

    return convert


def _scalar(type_: IcebergType, forms: TextForms) -> _Converter:
    name = str(type_)
    if isinstance(type_, DecimalType):
        return lambda value: parse_decimal(_of_text(value), type_)
    if name in ("int", "long"):
        most = INT_MAX if name == "int" else LONG_MAX
        return lambda value: parse_integer(_of_number(value), most)
    if name in ("float", "double"):
        return lambda value: _floating(value, single=name == "float")
    if name == "boolean":
        return _boolean
    if name == "string":
        return _as_text
    if name == "binary" or isinstance(type_, FixedType):
        return lambda value: _binary(value, type_)
    parse = text_parser(type_, forms)
    if name in ("timestamptz", "timestamptz_ns"):
        per_second = 1_000_000 if name == "timestamptz" else 1_000_000_000
        return lambda value: (
            ticks_from_nanos(parse_integer(value, LONG_MAX) * 1_000_000_000, per_second=per_second)
            if isinstance(value, Number)
            else parse(_of_string(value))
        )
    return lambda value: parse(_of_string(value))


def _of_string(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
        raise NotAValueError
    return value


def _of_number(value: Any) -> str:
    if not isinstance(value, Number):
        raise NotAValueError
    return value


def _of_text(value: Any) -> str:
    """A number, or its text."""
    if not isinstance(value, str):
        raise NotAValueError
    return value


def _floating(value: Any, *, single: bool) -> float:
    text = _of_text(value)
    if _SPECIAL.fullmatch(text):
        return float(text.replace("INF", "Infinity"))
    return parse_floating(_of_number(value), single=single)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NotAValueError
    return value


def _binary(value: Any, type_: IcebergType) -> bytes:
    try:
        data = base64.b64decode(_of_string(value), validate=True)
    except binascii.Error:
        raise NotAValueError from None
    if isinstance(type_, FixedType) and len(data) != type_.length:
        raise NotAValueError
    return data


def _as_text(value: Any) -> str:
    """A value as text: a text is unchanged, any other value becomes its JSON text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_inner_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_inner_text, value)) + "]"
    return json.dumps(value)


def _inner_text(value: Any) -> str:
    is_plain = isinstance(value, str) and not isinstance(value, Number)
    return json.dumps(value, ensure_ascii=False) if is_plain else _as_text(value)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_is_empty, value.values() if isinstance(value, dict) else value))
    return value is None
