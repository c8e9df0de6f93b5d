"""CSV text split into records and fields, compared with Python's own reader in cases where both follow RFC 4180."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.sources.text.csv_records import CsvCutter, CsvForm, QuotesDoNotPairError

CASES: dict[str, tuple[str, dict[str, Any], list[list[str | None]]]] = {
    "quotes doubled inside": ('1,"a ""b"" c",x\n', {}, [["1", 'a "b" c', "x"]]),
    "a quote inside a plain field": ('1,x"y"\n', {}, [["1", 'x"y"']]),
    "nothing is NULL, in quotes too": ('1,,""\n', {}, [["1", None, None]]),
    "nothing in quotes is text where NULL is written otherwise": ('NA,,""\n', {"null": "NA"}, [[None, None, ""]]),
    "every line break ends a record": ("a\rb\nc\r\nd", {}, [["a"], ["b"], ["c"], ["d"]]),
    "a line break inside quotes does not": ('1,"a\r\nb"\n2,c', {}, [["1", "a\r\nb"], ["2", "c"]]),
    "blank lines are no records": ("a\n\n  \n\nb\n", {}, [["a"], ["b"]]),
    "blanks of other scripts are text": ("\u3000\n\u00a0\n\x1c\n", {}, [["\u3000"], ["\u00a0"], ["\x1c"]]),
    "a line of separators is one": ("\t\n,,\n", {"separator": "\t"}, [[None, None], [",,"]]),
    "an escape before a quote": ('1,"a \\"b\\" \\\\ \\n"\n', {"escape": "\\"}, [["1", 'a "b" \\ \\n']]),
    "an escape in a plain field is a character": ("C:\\dir,2\n", {"escape": "\\"}, [["C:\\dir", "2"]]),
    "another quote": ("'a,b','it''s',\"c\"\n", {"quote": "'", "escape": "'"}, [["a,b", "it's", '"c"']]),
    "no quote": ('"a,b"\n', {"quote": "", "escape": ""}, [['"a', 'b"']]),
    "a separator of two characters": ("a||b|c||\n", {"separator": "||"}, [["a", "b|c", None]]),
    "a comment": ("#1,2\n1,#2\n", {"comment": "#"}, [["1", "#2"]]),
    "blanks around fields": (' a , "b" ,\tc\n', {"trim_left": True, "trim_right": True}, [["a", "b", "c"]]),
    "blanks around fields between tabs": (
        'a\t\t "c" \n"a" \t\tc\n\t"b"\t c\n',
        {"separator": "\t", "trim_left": True, "trim_right": True},
        [["a", None, "c"], ["a", None, "c"], [None, "b", "c"]],
    ),
    "tabs around fields between blanks": (
        'a  \t"c"\t\n',
        {"separator": " ", "trim_left": True, "trim_right": True},
        [["a", None, "c"]],
    ),
    "blanks are text": (' a , "b"\n', {}, [[" a ", ' "b"']]),
}
UNPAIRED = ['1,"a', '"a"b,c', '"a""', '1,"a" "b"']


@pytest.mark.parametrize("name", CASES)
def test_records_and_fields(name: str) -> None:
    text, form, fields = CASES[name]
    cutter = CsvCutter(CsvForm(**form))
    assert [r.fields for r in cutter.records(text)] == fields
    if not any("\n" in (f or "") for record in fields for f in record):
        lines = [cutter.fields(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        assert [line for line in lines if line is not None] == fields


@pytest.mark.parametrize("text", UNPAIRED)
def test_quotes_that_do_not_pair_up_are_named_from_their_record_on(text: str) -> None:
    cutter = CsvCutter(CsvForm())
    with pytest.raises(QuotesDoNotPairError) as failed:
        list(cutter.records(f"x,y\n{text}\n1,2\n"))
    assert failed.value.text.startswith(text)
    with pytest.raises(QuotesDoNotPairError):
        cutter.fields(text)


FIELD = st.text(st.sampled_from("ab,\"\n\r\\'é"), max_size=5)
ROWS = st.lists(st.lists(FIELD, min_size=1, max_size=4), max_size=5)


@given(ROWS, st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_what_python_writes_is_cut_as_it_was(rows: list[list[str]], end: str, quoting: int) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator=end, quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    text = written.getvalue()
    found = [r.fields for r in CsvCutter(CsvForm()).records(text)]
    read = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert found == [[f or None for f in row] for row in read if row]  # (a line of blanks is a record for Python only)


@given(st.text(st.sampled_from('a,"\n'), max_size=12))
def test_any_text_is_cut_whole_or_refused(text: str) -> None:
    cut, refused = list[str](), ""
    try:
        cut += [r.text for r in CsvCutter(CsvForm()).records(text)]
    except QuotesDoNotPairError as e:
        refused = e.text
    assert text.endswith(refused)
    if not refused:
        assert "\n".join(cut).replace("\n", "") == text.replace("\n", "")
