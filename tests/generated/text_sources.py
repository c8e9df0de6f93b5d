"""CSV and JSON files as people and programs write them, with the result that the documented rules define (docs/operations.md,
"Sources").

A ``Record`` is one line or more with its expected result: rows, or an error. The rules are implemented here a second time, in
Python; no code of the source readers is used."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    DecimalType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from tests.generated.drawing import Draw

INNER = StructType((NestedField(11, "a", INT), NestedField(12, "Name", STRING)))
SCHEMA = Schema.of(
    NestedField(1, "id", INT, required=True),
    NestedField(2, "city", STRING),
    NestedField(3, "ratio", DOUBLE),
    NestedField(4, "weight", FLOAT),
    NestedField(5, "price", DecimalType(precision=9, scale=2)),
    NestedField(6, "ok", BOOLEAN),
    NestedField(7, "day", DATE),
    NestedField(8, "big", LONG),
)
NESTED = Schema.of(
    *SCHEMA.fields,
    NestedField(10, "s", INNER),
    NestedField(
        13,
        "l",
        list_of(
            14,
            StructType(
                (NestedField(15, "b", DOUBLE), NestedField(16, "Deep", INNER_ := StructType((NestedField(17, "x", LONG),))))
            ),
        ),
    ),
    NestedField(18, "m", map_of(19, STRING, 20, StructType((NestedField(21, "k", FLOAT),)))),
)
Row = dict[str, Any]


@dataclass
class Drawn:
    """A source: its text, the rows it stands for (None: it must be refused), reader options. ``kept``: the rows of a source that is
    refused which are stored where bad records go to the quarantine (None: then it is refused as well)."""

    text: bytes
    rows: list[Row] | None
    options: dict[str, str] = field(default_factory=dict)
    kept: list[Row] | None = None


SPOILED_CSV = ("unclosed quote", "text behind a quote", "too many", "too few", "blank line", "quote inside")
SPOILED_JSON = ("two records on one line", "trailing text", "trailing bracket", "no object", "cut off", "comma", "blank line")
UNKNOWN = ("unknown column", "unknown nested field")
CSV_TURNS = (*SPOILED_CSV, *("",) * 9)
JSON_TURNS = (*SPOILED_JSON, *UNKNOWN, UNKNOWN[1], *("",) * 6)
"""What is wrong with a file, by its seed: the few seeds on Spark meet all of it, and half of the files have nothing of it."""
BAD_NUMBERS = (0.0, 0.0, 0.0, 0.2)
"""The share of bad numbers, by the seed."""

CITIES = (
    "Oslo",
    "",
    "São Paulo",
    'say "hi"',
    '"',
    "a,b",
    "C:\\dir",
    "x\\",
    " padded ",
    "#1",
    "null",
    "NULL",
    "'",
    "\U0001f600",
    "tab\there",
    "1,5",
)


def case_of(draw: Draw, name: str) -> str:
    return draw.choice([name, name, name, name.upper(), name.capitalize(), name.lower()])


# ---------------------------------------------------------------- CSV


def csv_source(draw: Draw) -> Drawn:
    """A CSV file by the rules of RFC 4180, with one thing wrong in some."""
    what = draw.turn(CSV_TURNS)
    header, multi = draw.often(0.7), draw.often(0.25) and not what
    end = draw.choice(["\n", "\n", "\r\n", "\r"]) if not multi else draw.choice(["\n", "\r\n"])
    columns = [f.name for f in SCHEMA.fields]
    written = Written(draw.choice([",", ",", ",", ";", "\t", "||"]), draw.often(0.25), multi)
    draw.note(f"separator {written.separator!r}", *(["blanks around fields"] if written.padded else []))
    if header:
        optional = [n for n in columns if n != "id"]
        columns = draw.sample(columns, len(columns)) if draw.often(0.4) else columns
        columns = [n for n in columns if n not in draw.sample(optional, draw.choice([0, 0, 2]))]
    draw.note("header" if header else "by position", f"line end {end!r}", *(["multiLine"] if multi else []))
    rows, lines, fitting, pairs_up = [], [], [], True
    for _ in range(draw.choice([1 if what else 0, 1, 2, 3, 4, 5, 6])):
        row, cells, fits = csv_row(draw, columns, written)
        rows.append(row)
        lines.append(cells)
        fitting.append(fits)
    good = all(fitting)
    text = end.join(written.separator.join(cells) for cells in lines)
    if header:
        names = written.separator.join(draw.choice([n, f'"{n}"']) for n in (case_of(draw, c) for c in columns))
        text = names + end + text
    text += draw.choice(["", end])
    if what:
        draw.note(what)
        wrong, pairs_up, text = spoiled_csv(what, text, end, columns, written.separator)
        good = good and not wrong
    if draw.often(0.15):
        text = "\ufeff" + text
        draw.note("byte order mark")
    said = {"header": str(header).lower()} if not header or draw.often(0.5) else {}
    options = {**said, **({"multiLine": "true"} if multi else {}), **written.options()}
    full = [{f.name: row.get(f.name) for f in SCHEMA.fields} for row in rows]
    draw.note("good" if good else "bad")
    kept = [row for row, fits in zip(full, fitting, strict=True) if fits]
    return Drawn(text.encode(), full if good else None, options, kept if pairs_up else None)


@dataclass(frozen=True)
class Written:
    """How fields are written: what stands between them, whether there are blanks around them that are no part of them, and whether
    there are line breaks in quotes."""

    separator: str
    padded: bool
    multi: bool

    def options(self) -> dict[str, str]:
        padded = {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}
        return {**({"sep": self.separator} if self.separator != "," else {}), **(padded if self.padded else {})}


def csv_row(draw: Draw, columns: list[str], written: Written) -> tuple[Row, list[str], bool]:
    row: Row = {}
    cells, fits = [], True
    for name in columns:
        value, text, ok = csv_value(draw, name, written)
        row[name] = value
        fits = fits and ok
        blanks = [draw.choice(["", " ", "  "]) if written.padded else "" for _ in range(2)]
        cells.append(text.join(blanks))
    if columns == ["id"] and not cells[0].strip():
        cells[0] = "1"
    return row, cells, fits


def csv_value(draw: Draw, name: str, written: Written) -> tuple[Any, str, bool]:
    """(value, cell, whether it fits)"""
    if name == "city":
        value = draw.choice([*CITIES, *(["two\nlines", 'a\n\n"b"'] if written.multi else [])])
        is_cut = written.padded and value != value.strip()
        must = any(c in value for c in ('"', "\n", "\r", written.separator)) or is_cut or draw.often(0.2)
        draw.note(*(["doubled quote"] if '"' in value else []), *(["quoted line break"] if "\n" in value else []))
        # Nothing between two commas is NULL, in quotes or not.
        return value or None, '"' + value.replace('"', '""') + '"' if must else value, True
    if name != "id" and draw.often(0.15):
        return None, draw.choice(["", '""']), True
    value, text, fits = number(draw, name)
    if draw.often(0.1):
        text = f'"{text}"'
    return value, text, fits


def number(draw: Draw, name: str) -> tuple[Any, str, bool]:
    """A value of a column that is not text: (value, its text, whether it fits)."""
    bad = draw.often(draw.turn(BAD_NUMBERS))
    if name in ("id", "big"):
        limit = 2**31 - 1 if name == "id" else 2**63 - 1
        value = draw.choice([0, 1, -1, limit, -limit - 1, draw.randint(-999, 999)])
        if bad:
            text = draw.choice([str(limit + 1), "1.5", "x"])
            draw.note("whole number out of range" if text == str(limit + 1) else "no whole number")
            return None, text, False
        return value, str(value), True
    if name in ("ratio", "weight"):
        if bad:
            text = draw.choice(["1e400", "-1e400", *(["1e39", "-4e38"] if name == "weight" else []), "x"])
            draw.note("no number" if text == "x" else "floating number out of range")
            return None, text, False
        value = draw.choice([0.0, -0.0, 1.5, -2.25, 1e30, 0.1, draw.randint(-99, 99) / 8])
        special = {"NaN": math.nan, "Inf": math.inf, "-Inf": -math.inf}
        if draw.often(0.1):
            text = draw.choice(list(special))
            draw.note("NaN or infinity")
            return special[text], text, True
        return (
            as_float32(value) if name == "weight" else value,
            draw.choice([repr(value), f"{value:e}"]) if value not in (0.1,) else "0.1",
            True,
        )
    if name == "price":
        if bad:
            return None, draw.choice(["12345678.9", "x"]), False
        value = Decimal(draw.choice([0, 1, -1, 999999999, draw.randint(-99999, 99999)])).scaleb(-2)
        return value, str(value), True
    if name == "ok":
        value = draw.often(0.5)
        return (None, "maybe", False) if bad else (value, str(value).lower(), True)
    day = draw.choice(["1970-01-01", "2024-02-29", "1999-12-31"])
    return (None, "2024-13-01", False) if bad else (day, day, True)


def as_float32(value: float) -> float:
    import struct

    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def spoiled_csv(what: str, text: str, end: str, columns: list[str], separator: str) -> tuple[bool, bool, str]:
    """One more line that is not a record; whether it must be refused, and whether quotes pair up."""
    one = ["7" if n == "id" else "" for n in columns]
    at = columns.index("city") if "city" in columns else len(columns) - 1
    body = text if text.endswith(end) else text + end
    if what == "unclosed quote":
        one[at] = '"abc'
    elif what == "text behind a quote":
        one[at] = '"abc"d'
    elif what == "too many":
        one.append("x")
    elif what == "too few":
        one.pop()
    elif what == "blank line":
        return False, True, body + end
    else:
        one[at] = '"a "b" c"' if columns[at] == "city" else '"1"2"'
        return True, False, body + separator.join(one) + end
    return True, what in ("too many", "too few"), body + separator.join(one) + end


# ---------------------------------------------------------------- JSON


def json_source(draw: Draw, *, nested: bool = True) -> Drawn:
    """A file of JSON lines (or one value, with multiLine), with what is wrong in some."""
    multi, what = draw.often(0.15), draw.turn(JSON_TURNS)
    schema = NESTED if nested else SCHEMA
    rows: list[Row] = []
    kept: list[Row] = []
    values: list[str] = []
    for _ in range(draw.randint(1, 5)):
        row, text, fits = json_record(draw, schema)
        rows.append(row)
        kept += [row] if fits else []
        values.append(text)
    good = len(kept) == len(rows)
    stored = None if '"unknown"' in "".join(values) else kept
    if multi:
        draw.note("multiLine")
        text = "[\n" + ",\n".join(values) + "\n]" if len(values) > 1 or draw.often(0.5) else values[0]
    else:
        lines, taken = [], 0
        while taken < len(values):
            size = draw.choice([1, 1, 1, 1, 2])
            some = values[taken : taken + size]
            lines.append(some[0] if len(some) == 1 else "[" + ", ".join(some) + "]")
            draw.note(*(["array on a line"] if len(some) > 1 else []))
            taken += size
        text = draw.choice(["\n", "\n", "\r\n"]).join(lines) + draw.choice(["", "\n", "\n\n"])
    if what in SPOILED_JSON:
        draw.note(what)
        wrong, text = spoiled_json(draw, what, text, multi)
        good = good and not wrong
        if multi and wrong:
            stored = []  # the file is one bad record
    if draw.often(0.15):
        text = "\ufeff" + text
        draw.note("byte order mark")
    draw.note("good" if good else "bad")
    return Drawn(text.encode(), rows if good else None, {"multiLine": "true"} if multi else {}, stored)


def json_record(draw: Draw, schema: Schema) -> tuple[Row, str, bool]:
    row: Row = {f.name: None for f in schema.fields}
    pairs, fits = [], True
    for f in schema.fields:
        if f.name != "id" and draw.often(0.3):
            continue
        value, text, ok = json_value(draw, f)
        row[f.name] = value
        pairs.append((case_of(draw, f.name) if draw.often(0.2) else f.name, text))
        fits = fits and ok
    draw.shuffle(pairs)
    if draw.turn(JSON_TURNS) == "unknown column" and draw.often(0.5):
        pairs.append(("unknown", "1"))
        draw.note("unknown column")
        fits = False
    return row, "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs) + "}", fits


def json_value(draw: Draw, f: NestedField) -> tuple[Any, str, bool]:
    if isinstance(f.type, StructType):
        return json_struct(draw, f.type)
    if f.name == "l":
        items = [json_struct(draw, f.type.element.type) for _ in range(draw.choice([0, 1, 2]))]  # type: ignore[attr-defined]
        return [v for v, _, _ in items], "[" + ",".join(t for _, t, _ in items) + "]", all(ok for _, _, ok in items)
    if f.name == "m":
        keys = draw.sample(["x", "X", "y z", ""], draw.choice([0, 1, 2]))
        items = [json_struct(draw, f.type.value.type) for _ in keys]  # type: ignore[attr-defined]
        pairs = zip(keys, items, strict=True)
        text = "{" + ",".join(f"{json.dumps(k)}:{t}" for k, (_, t, _) in pairs) + "}"
        return [(k, v) for k, (v, _, _) in zip(keys, items, strict=True)], text, all(ok for _, _, ok in items)
    if f.name in ("city", "Name"):
        value = draw.choice(CITIES)
        return value, json.dumps(value, ensure_ascii=draw.often(0.5)), True
    if f.name != "id" and draw.often(0.1):
        return None, "null", True
    names = {"a": "id", "b": "ratio", "k": "weight", "x": "big"}
    value, text, fits = number(draw, names.get(f.name, f.name))
    quoted = text in ("NaN", "Inf", "-Inf", "maybe", "x", "2024-13-01") or f.type == DATE
    text = {"Inf": "Infinity", "-Inf": "-Infinity"}.get(text, text)
    return value, json.dumps(text) if quoted else text, fits


def json_struct(draw: Draw, type_: StructType) -> tuple[Any, str, bool]:
    if draw.often(0.1):
        return None, "null", True
    row: Row = {f.name: None for f in type_.fields}
    pairs, fits = [], True
    for f in type_.fields:
        if draw.often(0.35):
            continue
        value, text, ok = json_value(draw, f)
        row[f.name] = value
        name = case_of(draw, f.name)
        draw.note(*(["nested name in another case"] if name != f.name else []))
        pairs.append((name, text))
        fits = fits and ok
    draw.note(*(["empty object"] if not pairs else []))
    if draw.turn(JSON_TURNS) == "unknown nested field" and draw.often(0.9):
        pairs.append(("unknown", '"u"'))
        draw.note("unknown nested field")
        fits = False
    return row, "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs) + "}", fits


def spoiled_json(draw: Draw, what: str, text: str, multi: bool) -> tuple[bool, str]:
    """Something behind the values, or between them; whether it must be refused."""
    record = '{"id": 7}'
    behind = {
        "two records on one line": record + record,
        "trailing text": record + draw.choice([" x", " //", " null", ' "a"', " 5"]),
        "trailing bracket": record + draw.choice(["]", "}", "]}", '], "x": [{"id": 8}']),
        "no object": draw.choice(["5", "null", '"text"', "[1]", "[null]", "[[]]", "true"]),
        "cut off": draw.choice(['{"id": 7', '{"id": 7, "city": "O', '[{"id": 7}']),
        "comma": record + draw.choice([",", "," + record]),
        "blank line": "  ",
    }[what]
    if multi:
        return (False, text + "\n  ") if what == "blank line" else (True, text + "\n" + behind)
    lines = text.rstrip("\r\n").split("\n")
    lines.insert(draw.randint(0, len(lines)), behind)
    return what != "blank line", "\n".join(lines)
