"""Cuts CSV text into records and fields by the rules of RFC 4180.

A field that begins with a quote ends with one, and a quote inside is doubled (or follows the ``escape`` character, if another one
is given). A field that does not begin with a quote ends at the separator, and a quote in it is an ordinary character. A record
ends at a line break outside quotes: a line feed, a carriage return, or both. Text that does not follow this cannot be cut: after
it, the boundaries of fields are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from iceberg_ops.errors import IcebergOpsError

_OF_BLANK_LINES = " \t\r\n"
_LINE_END = re.compile(r"[\r\n]")

Fields = list[str | None]
"""A record's fields; None for one that means NULL."""


class QuotesDoNotPairError(IcebergOpsError, ValueError):
    """``text``: the record, from its beginning."""

    def __init__(self, text: str) -> None:
        super().__init__("quotes do not pair up")
        self.text = text


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How fields are written. ``quote`` and ``escape`` are one character each, or empty: no field is quoted. ``comment``: a line
    that begins with it is not a record."""

    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    null: str = ""
    """Text of a field that means NULL; an empty field without quotes always does."""
    trim_left: bool = False
    trim_right: bool = False


@dataclass(frozen=True, slots=True)
class CsvRecord:
    fields: Fields
    text: str
    """The text in the source, without the line break."""


class CsvCutter:
    """Cuts texts in one form."""

    def __init__(self, form: CsvForm) -> None:
        self._form = form
        q, e, s = (re.escape(part) for part in (form.quote, form.escape, form.separator))
        self._blanks = "".join(blank for blank in " \t" if not form.separator.startswith(blank))
        around = f"[{self._blanks}]*+" if self._blanks else ""
        before, after = (around if form.trim_left else "", around if form.trim_right else "")
        if not form.quote:
            inside, not_quoted = "(?!)", ""
        elif form.escape in (form.quote, ""):
            inside, not_quoted = f"{q}((?:[^{q}]++|{q}{q})*+){q}", f"(?!{before}{q})"
        else:
            inside, not_quoted = f"{q}((?:[^{q}{e}]++|{e}.)*+){q}", f"(?!{before}{q})"
        plain = f"([^{s}\r\n]*+)" if len(form.separator) == 1 else rf"((?:(?!{s})[^\r\n])*+)"
        self._field = re.compile(f"(?s){before}{inside}{after}(?={s}|[\r\n]|\\Z)|{not_quoted}{plain}")
        self._escaped = re.compile(f"{e}([{q}{e}])") if form.escape not in ("", form.quote) else None

    def records(self, text: str) -> Iterator[CsvRecord]:
        """The records of a whole text; empty lines are not records. Raises QuotesDoNotPairError at text that cannot be cut."""
        at, end = 0, len(text)
        while at < end:
            if text[at] in "\r\n":
                at += 1
                continue
            if self._form.comment and text.startswith(self._form.comment, at):
                at = _end_of_line(text, at)
                continue
            begin, fields = at, Fields()
            while True:
                match = self._field.match(text, at)
                if match is None:
                    raise QuotesDoNotPairError(text[begin:])
                fields.append(self._value(match))
                at = match.end()
                if not text.startswith(self._form.separator, at):
                    break
                at += len(self._form.separator)
            record = text[begin:at]
            if not self._is_blank(record):
                yield CsvRecord(fields, record)

    def fields(self, line: str) -> Fields | None:
        """The fields of a record on one line; None for a line that is not a record. Raises QuotesDoNotPairError."""
        form = self._form
        if self._is_blank(line) or (form.comment and line.startswith(form.comment)):
            return None
        if (form.quote and form.quote in line) or form.trim_left or form.trim_right or "\r" in line or "\n" in line:
            records = list(self.records(line))
            if len(records) != 1:
                raise QuotesDoNotPairError(line)
            return records[0].fields
        null = form.null
        return [None if not part or part == null else part for part in line.split(form.separator)]

    def _is_blank(self, record: str) -> bool:
        return not record.strip(_OF_BLANK_LINES) and self._form.separator not in record

    def _value(self, match: re.Match[str]) -> str | None:
        quoted, plain = match[1] if self._form.quote else None, match[match.lastindex or 0]
        form = self._form
        if quoted is not None and match.lastindex == 1:
            if form.escape in ("", form.quote):
                value = quoted.replace(form.quote * 2, form.quote) if form.quote in quoted else quoted
            else:
                assert self._escaped is not None
                value = self._escaped.sub(r"\1", quoted)
            return None if value == form.null else value
        if form.trim_left:
            plain = plain.lstrip(self._blanks)
        if form.trim_right:
            plain = plain.rstrip(self._blanks)
        return None if not plain or plain == form.null else plain


def _end_of_line(text: str, at: int) -> int:
    match = _LINE_END.search(text, at)
    return len(text) if match is None else match.start()
