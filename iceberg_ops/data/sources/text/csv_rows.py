"""CSV records as typed columns: by the names in a file's first record, or by position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from iceberg_ops.config.whole_numbers import EXACT_MAX
from iceberg_ops.data.sources.text.csv_records import CsvCutter, CsvRecord, Fields
from iceberg_ops.data.sources.text.decoding import decoded
from iceberg_ops.data.sources.text.parsed import BadRecord, Parsed, nulls_where_bad
from iceberg_ops.data.sources.text.text_options import CsvOptions
from iceberg_ops.data.sources.text.text_values import WHOLE, TextForms, parse_texts, text_parser
from iceberg_ops.spec.types import BOOLEAN, DATE, DOUBLE, INT, LONG, STRING, TIMESTAMPTZ, DecimalType, IcebergType

_LARGE, _WHOLES = DecimalType(19, 0), DecimalType(38, 0)
"""The guesses for longs that no double can hold, until all values are known (``column_type``), and for longer integers."""
_GUESSED: tuple[IcebergType, ...] = (BOOLEAN, INT, LONG, _WHOLES, DOUBLE, DATE, TIMESTAMPTZ, STRING)


@dataclass(frozen=True, slots=True)
class CsvShape:
    """The columns to read, and their positions in a file: ``places`` are indexes of its fields (None: it does not have the column);
    each record must have ``width`` fields."""

    names: tuple[str, ...]
    types: tuple[IcebergType, ...]
    places: tuple[int | None, ...]
    width: int


def first_record(raw: bytes, options: CsvOptions) -> CsvRecord | BadRecord | None:
    """The first record of the text in ``raw``, a line or a file; None if there is none. No name of a header means NULL. Raises
    QuotesDoNotPairError."""
    text = decoded(raw, options.encoding)
    form = replace(options.form, null="") if options.header else options.form
    return text if isinstance(text, BadRecord) else next(CsvCutter(form).records(text), None)


def parse(texts: Iterable[bytes], shape: CsvShape, options: CsvOptions, *, skip: frozenset[int] = frozenset()) -> Parsed:
    """The rows of ``texts``: lines (a file's first one ``without_mark``), or with ``multi_line`` whole files. ``skip``: indexes of
    texts whose first record is a header.

    Raises QuotesDoNotPairError for text that cannot be cut into records."""
    records, bad, lines = list[Fields](), dict[int, BadRecord](), list[int]()
    originals: list[str] = []
    nothing: Fields = [None] * shape.width
    for index, text, fields in _records(texts, options, skip):
        if isinstance(fields, BadRecord):
            bad[len(records)], fields = fields, nothing
        elif len(fields) != shape.width:
            what = f"has {len(fields)} {'field' if len(fields) == 1 else 'fields'}, not {shape.width}"
            bad[len(records)], fields = BadRecord(what, text), nothing
        records.append(fields)
        originals.append(text)
        lines.append(index)
    given = list(zip(*records, strict=True)) if records else [()] * shape.width
    columns: list[pa.Array] = []
    for name, type_, place in zip(shape.names, shape.types, shape.places, strict=True):
        values, wrong = parse_texts([None] * len(records) if place is None else given[place], type_, options.forms)
        columns.append(values)
        for row, why in wrong.items():
            bad.setdefault(row, BadRecord(f"column {name!r}: {why}", originals[row]))
    return Parsed(nulls_where_bad(columns, bad, len(records)), bad, lines, originals.__getitem__)


def guessed_types(texts: Iterable[bytes], width: int, options: CsvOptions, *, skip: frozenset[int]) -> list[IcebergType | None]:
    """For each field the first of boolean, int, long, decimal(38, 0), double, date, timestamptz and string that fits all values;
    None if all are NULL. No guess rounds integers, or drops the time from a midnight. ``wider_guess`` combines the guesses of
    parts, and ``column_type`` gives the type for reading the column."""
    parsers = [(type_, text_parser(type_, options.forms)) for type_ in _GUESSED]
    types: list[IcebergType | None] = [None] * width
    for _, _, fields in _records(texts, options, skip):
        if isinstance(fields, BadRecord) or len(fields) != width:
            continue
        for i, text in enumerate(fields):
            if text is not None:
                types[i] = wider_guess(types[i], _guess(text, parsers, options.forms))
    return types


def wider_guess(a: IcebergType | None, b: IcebergType | None) -> IcebergType | None:
    """The guess that fits the values of both."""
    if a is None or b is None or a == b:
        return a or b
    numbers = (INT, LONG, _LARGE, _WHOLES, DOUBLE)
    if a in numbers and b in numbers and {a, b} not in ({_LARGE, DOUBLE}, {_WHOLES, DOUBLE}):
        return max(a, b, key=numbers.index)
    return TIMESTAMPTZ if {a, b} == {DATE, TIMESTAMPTZ} else STRING


def column_type(guess: IcebergType | None) -> IcebergType:
    """The type for reading a column with these values; a column without values is text."""
    return LONG if guess == _LARGE else guess or STRING


def _guess(text: str, parsers: Iterable[tuple[IcebergType, Callable[[str], Any]]], forms: TextForms) -> IcebergType:
    for type_, parse_one in parsers:
        if _may_be_guessed(text, type_, forms):
            try:
                value = parse_one(text)
            except ValueError:
                continue
            return _LARGE if type_ == LONG and abs(value) > EXACT_MAX else type_
    return STRING


def _may_be_guessed(text: str, type_: IcebergType, forms: TextForms) -> bool:
    if type_ in (_WHOLES, DOUBLE):
        return (WHOLE.fullmatch(text) is not None) is (type_ == _WHOLES)
    return type_ != DATE or forms.date is not None or not any(part in text for part in " T:")


def _records(texts: Iterable[bytes], options: CsvOptions, skip: frozenset[int]) -> Iterator[tuple[int, str, Fields | BadRecord]]:
    cutter = CsvCutter(options.form)
    for index, raw in enumerate(texts):
        text = decoded(raw, options.encoding, begins=options.multi_line)
        if isinstance(text, BadRecord):
            yield index, text.text, text
        elif options.multi_line:
            for n, record in enumerate(cutter.records(text)):
                if n or index not in skip:
                    yield index, record.text, record.fields
        elif index not in skip and (fields := cutter.fields(text)) is not None:
            yield index, text, fields
