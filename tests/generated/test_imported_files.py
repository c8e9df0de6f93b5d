"""Generated folders of unusual writers, imported: a filter finds the same rows as a full scan, and a rewrite keeps them, or the
folder is refused by name.

Footers are modified to match writers with known faults; types, units, ids, names and folders are generated as well.
"""

from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import DataError, SchemaError, UnsupportedError
from iceberg_ops.serde.json.name_mapping_json import table_name_mapping
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import DOUBLE, LONG, STRING, TIMESTAMP, DecimalType, ListType, MapType, NestedField, StructType
from tests.actions.test_add_files import Place

SCHEMA = Schema.of(
    NestedField(1, "id", LONG),
    NestedField(2, "x", DOUBLE),
    NestedField(3, "d", DecimalType(precision=38, scale=2)),
    NestedField(4, "ts", TIMESTAMP),
    NestedField(5, "name", STRING),
    NestedField(6, "s", StructType((NestedField(8, "lon", LONG), NestedField(9, "lat", LONG)))),
    NestedField(7, "p", DecimalType(precision=9, scale=2)),
)
WRITERS = (None, "parquet-mr version 1.8.2", "parquet-cpp version 1.5.1", "ClickHouse v23.8", "parquet-mr version 1.12.3")
SIGNED_BYTES = WRITERS[1:4]
"""Compare decimals byte by byte, each byte a signed number."""
FOLDERS = ("1.50", "1.5", "2", "2.000", "1.505", "1e1", "__HIVE_DEFAULT_PARTITION__")
EPOCH = datetime(1970, 1, 1)
CASES = 60


def signed_bytes(unscaled: int) -> list[int]:
    return [b - 256 if b > 127 else b for b in unscaled.to_bytes(16, "big", signed=True)]


class OddFile:
    """One Parquet file with the rows that it holds for the table."""

    def __init__(self, rng: random.Random, first_id: int) -> None:
        self.rng, self.count = rng, rng.randint(3, 9)
        self.group_rows = rng.choice([2, 3, 100])
        self.writer = rng.choice(WRITERS)
        self.cents = rng.sample(range(-400, 400), self.count)
        self.numbers = [float(n) for n in rng.sample(range(-20, 20), self.count)]
        if rng.random() < 0.5:
            self.numbers[rng.randrange(self.count)] = math.nan
        self.days = [date(2024, 1, 1) + timedelta(days=n) for n in rng.sample(range(-20_000, 300), self.count)]
        self.ids = list(range(first_id, first_id + self.count))
        self.names = [rng.choice(["a", "B", "ä", "z" * 70, "", "\U0001f600"]) for _ in self.ids]
        self.name = rng.choice(["name", "NAME"])
        self.swapped = rng.random() < 0.2
        self.with_ids = self.swapped or rng.random() < 0.2

    def _field(self, name: str, type_: pa.DataType, field_id: int) -> pa.Field:
        return pa.field(name, type_, True, {"PARQUET:field_id": str(field_id)} if self.with_ids else None)

    def write(self, path: Path) -> None:
        rng = self.rng
        stamp = rng.choice([pa.date32(), pa.timestamp("ms"), pa.timestamp("us")])
        stamps: list[Any] = self.days if stamp == pa.date32() else [datetime(d.year, d.month, d.day) for d in self.days]
        lon, lat = ("lat", "lon") if self.swapped else ("lon", "lat")
        inner = pa.struct([self._field(lon, pa.int64(), 8), self._field(lat, pa.int32(), 9)])
        columns = [
            (self._field("id", rng.choice([pa.int32(), pa.int64()]), 1), self.ids),
            (self._field("x", rng.choice([pa.float32(), pa.float64()]), 2), self.numbers),
            (
                self._field("d", rng.choice([pa.decimal128(38, 2), pa.decimal128(20, 2)]), 3),
                [Decimal(c).scaleb(-2) for c in self.cents],
            ),
            (self._field("ts", stamp, 4), stamps),
            (self._field(self.name, rng.choice([pa.string(), pa.large_string()]), 5), self.names),
            (self._field("s", inner, 6), [{lon: n, lat: -n} for n in self.ids]),
        ]
        rng.shuffle(columns)
        arrays = [pa.array(values, f.type) for f, values in columns]
        table = pa.Table.from_arrays(arrays, schema=pa.schema([f for f, _ in columns]))
        path.parent.mkdir(parents=True, exist_ok=True)
        int96 = stamp == pa.timestamp("us") and rng.random() < 0.3
        pq.write_table(
            table, path, row_group_size=self.group_rows, compression="none", use_dictionary=False, store_schema=rng.random() < 0.5,
            use_deprecated_int96_timestamps=int96,
        )  # fmt: skip
        self._doctor(path)

    def _doctor(self, path: Path) -> None:
        changes: dict[bytes, bytes] = {}
        names = pq.read_schema(path).names
        footer = pq.read_metadata(path)
        for start in range(0, self.count, self.group_rows):
            rows = slice(start, start + self.group_rows)
            if self.writer in SIGNED_BYTES:
                changes |= self._signed(footer, self.cents[rows])
            number = next(c for c in range(footer.num_columns) if footer.schema.column(c).path.startswith("x"))
            form = "<f" if footer.schema.column(number).physical_type == "FLOAT" else "<d"
            if math.isnan(self.numbers[rows][0]):
                present = [v for v in self.numbers[rows] if not math.isnan(v)]
                changes |= {struct.pack(form, v): struct.pack(form, math.nan) for v in present if v and form == "<d"}
        assert names
        raw = path.read_bytes()
        size = int.from_bytes(raw[-8:-4], "little")
        text = raw[-8 - size : -8]
        if self.writer is not None:
            own = footer.created_by.encode()
            changes[own] = f"{self.writer} (build {'x' * 99})".encode()[: len(own)]
        if changes:
            wanted = re.compile(b"|".join(re.escape(old) for old in changes), re.DOTALL)
            text = wanted.sub(lambda m: changes[m[0]], text)
        path.write_bytes(raw[: -8 - size] + text + raw[-8:])

    def _signed(self, footer: pq.FileMetaData, cents: list[int]) -> dict[bytes, bytes]:
        place = next(c for c in range(footer.num_columns) if footer.schema.column(c).path == "d")
        width = footer.schema.column(place).length

        def stored(value: int) -> bytes:
            return value.to_bytes(width, "big", signed=True)

        return {
            stored(min(cents)): stored(min(cents, key=signed_bytes)),
            stored(max(cents)): stored(max(cents, key=signed_bytes)),
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "id": i,
                "x": x,
                "d": Decimal(c).scaleb(-2),
                "ts": datetime(d.year, d.month, d.day),
                "name": n,
                "s": {"lon": i, "lat": -i},
            }
            for i, x, c, d, n in zip(self.ids, self.numbers, self.cents, self.days, self.names, strict=True)
        ]


def conditions(rng: random.Random, rows: list[dict[str, Any]]) -> list[tuple[str, Callable[[dict[str, Any]], bool]]]:
    """Conditions around values that are there, each with what it means for a row. NaN is greater than every number."""
    found: list[tuple[str, Callable[[dict[str, Any]], bool]]] = []
    tests: dict[str, Callable[[Any, Any], bool]] = {"=": lambda a, b: a == b, "<": lambda a, b: a < b, ">=": lambda a, b: a >= b}
    for _ in range(12):
        row, (op, test) = rng.choice(rows), rng.choice(list(tests.items()))
        column = rng.choice(["id", "x", "d", "ts", "name", "s.lon"])
        if column == "x":
            x = 1.0 if math.isnan(row["x"]) else row["x"]
            found.append((f"x {op} {x!r}D", lambda r, x=x, t=test, op=op: op == ">=" if math.isnan(r["x"]) else t(r["x"], x)))
        elif column == "ts":
            found.append((f"ts {op} TIMESTAMP_NTZ '{row['ts']}'", lambda r, v=row["ts"], t=test: t(r["ts"], v)))
        elif column == "name":
            found.append((f"name {op} '{row['name']}'", lambda r, v=row["name"], t=test: t(r["name"], v)))
        elif column == "s.lon":
            found.append((f"s.lon {op} {row['id']}", lambda r, v=row["id"], t=test: t(r["s"]["lon"], v)))
        else:
            found.append((f"{column} {op} {row[column]}", lambda r, v=row[column], c=column, t=test: t(r[c], v)))
    return found


@pytest.mark.parametrize("seed", range(CASES))
def test_a_filter_finds_in_imported_files_what_a_full_scan_finds(tmp_path: Path, seed: int) -> None:
    check_filters(seed, tmp_path)


def check_filters(seed: int, root: Path) -> None:
    rng, place = random.Random(seed), Place(root)
    partitioned = rng.random() < 0.4
    spec = PartitionSpec(0, (PartitionField((7,), 1000, IDENTITY, "p"),)) if partitioned else UNPARTITIONED
    place.create(SCHEMA, spec, **{"format-version": "3"})
    expected: list[dict[str, Any]] = []
    for number in range(4):
        file, folder = OddFile(rng, 100 * number), rng.choice(FOLDERS)
        place.files = root / f"import-{number}"
        file.write(place.files / (f"p={folder}/a.parquet" if partitioned else "a.parquet"))
        refused: str | None = None
        try:
            place.add()
        except (DataError, SchemaError, UnsupportedError) as e:
            refused = str(e)
        if file.swapped or (partitioned and folder == "1.505"):
            assert refused is not None, f"p={folder} is taken"
            continue
        assert refused is None, refused
        if not file.with_ids:  # Other readers find columns by exactly these names.
            assert file.name in table_name_mapping(place.table.metadata).fields[4].names, file.name
        value = Decimal(folder).quantize(Decimal("0.01")) if partitioned and not folder.startswith("__") else None
        expected += [{**row, "p": value} for row in file.rows]
    everything = place.rows()
    assert [repr(r) for r in everything] == [repr({f.name: r[f.name] for f in SCHEMA.fields}) for r in expected]
    for text, test in conditions(rng, expected) if expected else []:
        assert [r["id"] for r in place.rows(text)] == [r["id"] for r in everything if test(r)], text


NESTED = pa.schema(
    {"id": pa.int64(), "s": pa.struct({"r": pa.string(), "l": pa.list_(pa.int64())}), "m": pa.map_(pa.string(), pa.int64())}
)


def nested_schema(rng: random.Random) -> Schema:
    """Any part of a struct, list or map may be required."""

    def must() -> bool:
        return rng.random() < 0.3

    elements = ListType(NestedField(5, "element", LONG, must()))
    pairs = MapType(NestedField(7, "key", STRING, required=True), NestedField(8, "value", LONG, must()))
    inner = StructType((NestedField(3, "r", STRING, must()), NestedField(4, "l", elements, must())))
    return Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", inner, must()), NestedField(6, "m", pairs, must()))


def nested_row(rng: random.Random, key: int, folder: str) -> dict[str, Any]:
    def some(value: Any) -> Any:
        return None if rng.random() < 0.05 else value

    r = some("b" if rng.random() < 0.05 else folder)
    inner = {"r": r, "l": some([some(key) for _ in range(rng.randint(0, 2))])}
    return {"id": key, "s": some(inner), "m": some([(k, some(key)) for k in "xy"[: rng.randint(0, 2)]])}


def fits(f: NestedField, value: Any) -> bool:
    """Whether a value has all that its field requires."""
    if value is None:
        return not f.required
    if isinstance(f.type, StructType):
        return all(fits(child, value[child.name]) for child in f.type.fields)
    if isinstance(f.type, ListType):
        return all(fits(f.type.element, v) for v in value)
    return all(fits(f.type.value, v) for _, v in value) if isinstance(f.type, MapType) else True


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_imported_exactly_if_they_fit_their_folder_and_the_schema(tmp_path: Path, seed: int) -> None:
    rng, place = random.Random(seed), Place(tmp_path)
    schema, expected = nested_schema(rng), []
    place.create(schema, PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "r"),)))
    for number in range(4):
        rows = [nested_row(rng, 10 * number + i, "a") for i in range(rng.randint(1, 4))]
        place.files = tmp_path / f"import-{number}"
        place.write("r=a/a.parquet", rows, NESTED, write_statistics=rng.random() < 0.5, store_schema=rng.random() < 0.5)
        try:
            place.add()
            is_in = True
        except DataError:
            is_in = False
        everywhere_a = all(row["s"] is not None and row["s"]["r"] == "a" for row in rows)
        assert is_in == (everywhere_a and all(fits(f, row[f.name]) for row in rows for f in schema.fields)), rows
        expected += rows if is_in else []
    assert place.rows() == expected
    assert place.rows("s.r = 'a'") == expected
    job = JobSpec(
        job="rewrite_data_files", table="c.db.t", catalog=CatalogConfig(name="c", type="sql"), options={"rewrite-all": "true"}
    )
    run_job(job, catalog=place.catalog)
    assert place.rows() == expected
