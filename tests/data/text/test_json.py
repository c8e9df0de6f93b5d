"""JSON text as values, the columns that occur in it, and rows of them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.sources.text.json_rows import occurring, parse
from iceberg_ops.data.sources.text.json_shape import ObservedValues, source_fields
from iceberg_ops.data.sources.text.json_values import Number, read_json
from iceberg_ops.data.sources.text.parsed import BadRecord, NotAValueError
from iceberg_ops.data.sources.text.text_options import json_options
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ,
    DecimalType,
    ListType,
    MapType,
    NestedField,
    StructType,
)

OPTIONS = json_options({})
TABLE = Schema.of(
    NestedField(1, "id", LONG),
    NestedField(2, "v", STRING),
    NestedField(3, "s", StructType((NestedField(31, "a", INT), NestedField(32, "b", STRING)))),
    NestedField(4, "l", ListType(NestedField(41, "element", DOUBLE))),
    NestedField(5, "m", MapType(NestedField(51, "key", INT, required=True), NestedField(52, "value", FLOAT))),
    NestedField(6, "d", DecimalType(4, 2)),
    NestedField(7, "raw", BINARY),
    NestedField(8, "at", TIMESTAMPTZ),
    NestedField(9, "ok", BOOLEAN),
)

READ: dict[str, Any] = {
    '{"a": 1.50, "b": -0, "c": 1e400}': {"a": "1.50", "b": "-0", "c": "1e400"},
    "{'a': 'it\\'s \"x\"', 'b': \"it's\"}": {"a": 'it\'s "x"', "b": "it's"},
    '{"a": NaN, "b": -Infinity}': {"a": "NaN", "b": "-Infinity"},
    '{"a": +INF, "b": -INF}': {"a": "Infinity", "b": "-Infinity"},
    '{"a": "INF and +Infinity"}': {"a": "INF and +Infinity"},
    "{'a': +INF, 'b': 'INF'}": {"a": "Infinity", "b": "INF"},
    r'{"a": "\ud83d\ude00 \\ud800"}': {"a": "\U0001f600 \\ud800"},
}
NOT_READ = {
    '{"a": 1} x': "Extra data",
    '{"a": 1}{"a": 2}': "Extra data",
    '{"a": 1': "is not JSON",
    "{'a': 1} 'x'": "is not JSON",
    '{"a": 1, "a": null}': "name 'a' occurs twice",
    '{"l": [{"a": 1, "a": 1}]}': "name 'a' occurs twice",
    "{'a': 1, \"a\": 2}": "name 'a' occurs twice",
    r'{"a": "\ud800"}': "half of a surrogate pair",
    r'{"a\udc00": 1}': "half of a surrogate pair",
    '{"a": "\t"}': "is not JSON",
    "[" * 200_000: "nested too deeply",
    "{a: 1}": "is not JSON",
    '{"a": 01}': "is not JSON",
}
WRONG = {
    '{"id": 1.0}': "column 'id': '1.0' is not a valid long",
    '{"id": "1"}': "column 'id': '1' is not a valid long",
    '{"id": 9223372036854775808}': "is not a valid long",
    '{"v": "a", "V": "b"}': "field 'V' occurs in two spellings",
    '{"s": {"a": 1, "A": 2}}': "column 's': field 'A' occurs in two spellings",
    '{"s": {"a": 99999999999}}': "column 's': field 'a': '99999999999' is not a valid int",
    '{"s": [1]}': "column 's': '[1]' is not an object",
    '{"l": [1, "x"]}': "column 'l': 'x' is not a valid double",
    '{"l": {"a": 1}}': "is not an array",
    '{"m": {"x": 1}}': "column 'm': key 'x' is not a valid int",
    '{"m": {"1": 1, "01": 2}}': "two names are one key",
    '{"m": {"1": 1e39}}': "is not a valid float",
    '{"d": 1.234}': "is not a valid decimal(4, 2)",
    '{"raw": "§"}': "is not a valid binary",
    '{"at": 9223372036855}': "is not a valid timestamptz",
    '{"ok": "true"}': "is not a valid boolean",
    "5": "is neither an object nor an array of objects",
    "[null]": "is neither",
    '[{"id": 1}, 5]': "is neither",
}


@pytest.mark.parametrize("text", READ)
def test_values_lose_nothing(text: str) -> None:
    assert read_json(text) == READ[text]


@pytest.mark.parametrize("text", NOT_READ, ids=lambda t: t[:24])
def test_text_that_is_no_json_says_why(text: str) -> None:
    with pytest.raises(NotAValueError, match=NOT_READ[text]):
        read_json(text)


def rows_of(*texts: str) -> tuple[list[dict[str, Any]], list[str]]:
    parsed = parse([t.encode() for t in texts], TABLE.struct, OPTIONS)
    columns = [c.to_pylist() for c in parsed.columns]
    rows = [dict(zip([f.name for f in TABLE.fields], row, strict=True)) for row in zip(*columns, strict=True)]
    return rows, [parsed.bad[i].reason if i in parsed.bad else "" for i in range(len(rows))]


@pytest.mark.parametrize("text", WRONG)
def test_a_record_that_does_not_fit_is_null_everywhere_and_says_why(text: str) -> None:
    rows, bad = rows_of('{"id": 7}', text, '{"id": 8}')
    assert [r["id"] for r in rows] == [7, None, 8]
    assert set(rows[1].values()) == {None}
    assert WRONG[text] in bad[1]


def test_fields_are_found_in_any_case_and_records_in_arrays() -> None:
    rows, bad = rows_of('[{"ID": 1, "S": {"B": "x"}}, {"v": null, "V": "y", "other": null}]', "", " ", "[]", '{"m": {"2": 0.5}}')
    assert bad == ["", "", ""]
    assert [r["id"] for r in rows] == [1, None, None]
    assert rows[0]["s"] == {"a": None, "b": "x"}
    assert rows[1]["v"] == "y"
    assert rows[2]["m"] == [(2, 0.5)]


def test_what_is_no_text_becomes_the_json_it_is_in_a_text_column() -> None:
    rows, _ = rows_of('{"v": 1.50}', '{"v": true}', '{"v": {"a": [1, "é", null]}}')
    assert [r["v"] for r in rows] == ["1.50", "true", '{"a":[1,"é",null]}']


def test_a_bad_record_of_an_array_takes_none_of_the_others_with_it() -> None:
    text = b'[{"id": 1, "d": 1.50}, {"id": "x", "d": 2.50}, {"id": 3, "ID": 4}, {"id": 5, "no column": [null, {}]}]'
    parsed = parse([text, b'[{"id": "y"} ]'], TABLE.struct, OPTIONS)
    assert parsed.columns[0].to_pylist() == [1, None, None, 5, None]
    texts = {row: bad.text for row, bad in parsed.bad.items()}
    assert texts == {1: '{"id":"x","d":2.50}', 2: '{"id":3,"ID":4}', 4: '[{"id": "y"} ]'}
    assert parsed.lines == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + '\\"x\\": \\"it\'s\\", ' * 40_000,
        "{'a': '" + "\\'x" * 80_000,
        "{'a': '" + "\\'x" * 80_000 + "\\",
        '{"a": INF, "b": "' + '\\"' * 80_000 + "\\",
    ],
    ids=["double quotes", "single quotes", "a backslash at the end", "infinity"],
)
def test_a_long_record_that_is_cut_off_is_bad_in_time_that_grows_with_its_length_alone(text: str) -> None:
    started = time.monotonic()
    with pytest.raises(NotAValueError, match="is not JSON"):
        read_json(text)
    assert time.monotonic() - started < 10


def deep(levels: int, *, arrays: bool) -> str:
    return "[" * levels + "1.5" + "]" * levels if arrays else '{"a":' * levels + "1.5" + "}" * levels


@pytest.mark.parametrize("arrays", [True, False])
@pytest.mark.parametrize("levels", [50, 70, 199, 200, 300, 450, 900, 5000])
def test_values_deep_inside_each_other_are_text_or_a_bad_record(levels: int, arrays: bool) -> None:
    value = deep(levels, arrays=arrays)
    whole, parts = found_in(f'{{"v": {value}, "n": {value}}}'), ObservedValues()
    parts.merge(ObservedValues.from_json(json.loads(json.dumps(whole.to_json()))))
    types = {f.name: str(f.type) for f in source_fields(parts, TABLE.struct)}
    if levels >= 200:
        assert types == {}
        assert "nested too deeply" in rows_of(f'{{"v": {value}}}')[1][0]
        return
    assert types["n"].startswith(("list<", "struct<")) if levels < 60 else types["n"] == "string"
    assert rows_of(f'{{"v": {value}}}')[0][0]["v"] == value
    assert "is not a valid long" in rows_of(f'{{"id": {value}}}')[1][0]
    assert "is not a column of the table" in rows_of(f'{{"n": {value}}}')[1][0]


def found_in(*texts: str) -> ObservedValues:
    bad: list[BadRecord] = []
    return occurring([t.encode() for t in texts], TABLE.struct, OPTIONS, bad.append)


def columns_of(*texts: str) -> dict[str, str]:
    whole, parts = found_in(*texts), ObservedValues()
    for text in texts:
        parts.merge(ObservedValues.from_json(json.loads(json.dumps(found_in(text).to_json()))))
    fields = source_fields(whole, TABLE.struct)
    assert {f.name: str(f.type) for f in source_fields(parts, TABLE.struct)} == {f.name: str(f.type) for f in fields}
    return {f.name: str(f.type) for f in fields}


def test_columns_have_the_tables_types_and_new_ones_those_of_their_values() -> None:
    found = columns_of(
        '{"ID": 1, "n": 1, "f": 1, "big": 99999999999999999999, "t": 1, "e": {}, "x": null, "o": {"p": [true]}}',
        '{"id": 2, "f": 0.5, "t": "a", "e": {"y": null}, "o": {"q": "z"}, "mixed": [1]}',
        '{"mixed": 1, "s": {"new": 1}}',
        "no record",
    )
    assert found == {
        "ID": "long",
        "n": "long",
        "f": "double",
        "big": "decimal(38, 0)",
        "t": "string",
        "o": found["o"],
        "mixed": "string",
        "s": found["s"],
    }
    assert [part in found["o"] for part in ("p: list<boolean>", "q: string")] == [True, True], found
    assert [part in found["s"] for part in ("new: long", "a: int", "b: string")] == [True, True, True], found


def test_keys_of_the_tables_maps_are_not_gathered() -> None:
    deep = MapType(
        NestedField(2, "key", STRING, required=True),
        NestedField(3, "value", MapType(NestedField(4, "key", STRING), NestedField(5, "value", LONG))),
    )
    inside = StructType((NestedField(7, "M", ListType(NestedField(8, "element", deep))),))
    table = StructType((NestedField(1, "m", deep), NestedField(6, "s", inside)))
    texts = [
        "{" + f'"M": {{"a{i}": {{"b{i}": {i}}}}}, "s": {{"m": [{{"c{i}": {{"d{i}": 1}}}}]}}, "x": {{"k{i}": 1}}' + "}"
        for i in range(50)
    ]
    found = occurring([text.encode() for text in texts], table, OPTIONS, print)
    assert len(json.dumps(found.to_json())) < 5000
    assert [str(f.type) for f in source_fields(found, table)][:2] == [
        str(deep),
        str(StructType((replace(inside.fields[0], name="m"),))),
    ]
    assert len(found.fields["x"].fields) == 50  # type: ignore[index, arg-type, union-attr]


@pytest.mark.parametrize(
    ("whole", "beside"),
    [
        ("12345678901234567890", "0.5"),
        ("12345678901234567890", "9" * 39),
        ("12345678901234567890", "1e2"),
        ("9007199254740993", "0.5"),
        ("-9007199254740993", "NaN"),
    ],
)
def test_whole_numbers_of_a_new_column_are_never_rounded(whole: str, beside: str) -> None:
    assert columns_of(f'{{"n": {whole}}}', f'{{"n": {beside}}}') == {"n": "string"}
    assert columns_of(f'{{"n": {whole[:-4]}}}', f'{{"n": {whole}}}') == {"n": "long" if len(whole) < 19 else "decimal(38, 0)"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: digits(v) for k, v in value.items()}
    if isinstance(value, list):
        return [digits(v) for v in value]
    return Number(json.dumps(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


@given(JSON, st.booleans())
def test_any_value_is_read_as_it_was_written(value: Any, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only)) == digits(value)
    quoted = json.dumps(value, ensure_ascii=ascii_only)
    if "'" not in quoted and '\\"' not in quoted:
        assert read_json(quoted.replace('"', "'")) == digits(value)
