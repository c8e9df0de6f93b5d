"""Lines of one file, or a whole file, in order: the input of the parsers.

If single bytes end lines, the code that reads the file cuts them (``cut_by_bytes``); else the whole text is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar

import pyarrow as pa

from iceberg_ops.data.sources.text import csv_rows
from iceberg_ops.data.sources.text.csv_records import Fields, QuotesDoNotPairError
from iceberg_ops.data.sources.text.decoding import is_packed, split_lines
from iceberg_ops.data.sources.text.parsed import BadRecord, NotAValueError
from iceberg_ops.data.sources.text.text_options import CsvOptions, TextOptions
from iceberg_ops.errors import DataError

_SHOWN = 200
O = TypeVar("O", bound=TextOptions)  # noqa: E741 - options


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines of ``file`` (with ``multi_line`` the whole file), in order. ``begins``: the first one is at the beginning of the file.
    ``line``: its number, from 1; None if it is not known. ``folders``: for each column whose values are in folder names,
    its text for each line."""

    file: str
    texts: list[bytes]
    begins: bool
    folders: list[pa.Array] = field(default_factory=list)
    line: int | None = None


def cut_by_bytes(options: TextOptions) -> bool:
    """Whether code that looks for single bytes, without knowledge of quotes and encodings, can cut the lines."""
    return not options.multi_line and "\n".encode(options.encoding) == b"\n"


def cut_text(file: str, raw: bytes, options: TextOptions) -> list[bytes]:
    """The texts of a whole file that cannot be cut by bytes: its lines, as UTF-8, or with ``multi_line`` the file. Raises
    DataError."""
    if options.multi_line:
        return [raw]
    try:
        return split_lines(raw, options.encoding)
    except NotAValueError as e:
        raise DataError(f"source {file}: {e}") from None


def of_chunks(options: O) -> O:
    """The options for the texts of chunks: lines of ``cut_text`` are UTF-8."""
    return options if cut_by_bytes(options) or options.multi_line else replace(options, encoding="utf-8")


def first_fields(chunk: Chunk, options: CsvOptions) -> tuple[int, Fields] | None:
    """The index of the text with the first readable record, and the record's fields. Raises DataError for a header that
    cannot be read."""
    chunk_options = of_chunks(options)
    for i, raw in enumerate(chunk.texts):
        with unpaired_named(chunk.file, options):
            record = csv_rows.first_record(raw, chunk_options)
        if isinstance(record, BadRecord):
            if not options.header:
                continue
            refuse(chunk.file, record)
        if record is not None:
            return i, record.fields
    return None


def without_headers(
    chunks: Iterator[Chunk], options: CsvOptions, refused: Callable[[Chunk], bool] = lambda chunk: False
) -> Iterator[tuple[Chunk, frozenset[int]]]:
    """Each chunk with the index of the text that holds the header, if it does; earlier texts have no records. Chunks that are
    ``refused`` are left out."""
    awaited: str | None = None
    for chunk in chunks:
        if options.header and refused(chunk):
            continue
        if options.header and chunk.begins:
            awaited = chunk.file
        if awaited != chunk.file:
            yield chunk, frozenset()
        elif (head := first_fields(chunk, options)) is not None:
            awaited = None
            yield chunk, frozenset({head[0]})


def refuse(file: str, record: BadRecord, line: int | None = None) -> NoReturn:
    """Raise DataError for a bad record."""
    where = "" if line is None else f", line {line}"
    raise DataError(f"source {file}{where}: {record.reason}: {_on_a_line(record.text)}")


def is_left_out(chunk: Chunk, bad: Mapping[int, BadRecord], options: TextOptions) -> bool:
    """Whether the bad records, by row, are left out. A compressed file has no records, good or bad."""
    return options.drops_malformed and not (chunk.begins and 0 in bad and is_packed(bad[0]))


@contextmanager
def unpaired_named(file: str, options: CsvOptions) -> Iterator[None]:
    """Names the file in errors about text that cannot be cut into records."""
    try:
        yield
    except QuotesDoNotPairError as e:
        form = options.form
        raise DataError(
            f"source {file}: quotes do not pair up: {_on_a_line(e.text)}: a field that begins with {form.quote} must end with it, "
            f"and {form.quote} inside is written {form.escape}{form.quote} (reader options: quote, escape; multiLine = true where "
            "quoted fields hold line breaks)"
        ) from None


def _on_a_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _SHOWN else joined[:_SHOWN] + "..."
