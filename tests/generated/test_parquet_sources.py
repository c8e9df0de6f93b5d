"""Parquet files of many writers as the source of appends and overwrites: the rows that they stand for, or a refusal by name before
anything is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import DataError, SchemaError, UnsupportedError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan
from iceberg_ops.table.table import Table
from tests.actions.rows_place import RowsPlace
from tests.generated import parquet_sources as files
from tests.generated.drawing import Draw, for_each_seed, missing
from tests.generated.parquet_sources import plain
from tests.spark.conftest import Place, place  # noqa: F401 - a fixture

LANE = "Parquet sources"
WANTED = {
    *(f"column {name} as {form}" for name, forms in files.FORMS.items() for form in (*forms[0], *forms[1])),
    *(*files.OTHERS, "refused", "taken", "append", "overwrite", "field ids", "no rows"),
    *("of an old writer", "write_statistics", "store_schema", "use_dictionary", "use_compliant_nested_type"),
}


def found(table: Table, where: str = "true") -> list[dict[str, Any]]:
    rows = scan_table(table, Scan(where=parse_where(where)))
    if "ns" in rows.column_names:
        rows = rows.set_column(rows.column_names.index("ns"), "ns", rows["ns"].cast(pa.int64()))
    given: list[dict[str, Any]] = rows.to_pylist()
    return given


def check_filters(table: Table) -> None:
    """Whatever the files' footers said: a filter finds the rows that a full scan shows."""
    everything = found(table)
    for where, test in {
        "id >= 9": lambda r: r["id"] >= 9,
        "n IS NULL": lambda r: r["n"] is None,
        "x = double('NaN')": lambda r: r["x"] is not None and r["x"] != r["x"],
        "d < 0": lambda r: r["d"] is not None and r["d"] < 0,
        "name = 'a'": lambda r: r["name"] == "a",
        "s.lon = 0": lambda r: r["s"] is not None and r["s"]["lon"] == 0,
    }.items():
        assert sorted(map(plain, found(table, where))) == sorted(plain(r) for r in everything if test(r)), where


def test_a_lane_without_spark_takes_what_fits_and_refuses_the_rest(tmp_path: Path) -> None:
    def check(draw: Draw) -> None:
        own = RowsPlace.at(tmp_path / str(draw.seed))
        own.create(files.SCHEMA, format__version="3", write_parquet_row__group__size__bytes="300")
        rows: list[dict[str, Any]] = []
        for number in range(3):
            odd = draw.turn(files.ODD) if number == 2 else draw.choice(files.ODD) if draw.often(0.2) else files.PLAIN
            drawn = files.source(draw, own.folder / f"in-{number}", files.SCHEMA, 30 * number, odd)
            job = "append" if number == 0 else draw.choice(["append", "overwrite"])
            before = own.data_on_disk()
            try:
                own.run(job, source=Source(format="parquet", paths=[str(drawn.folder)]))
            except (SchemaError, UnsupportedError) as e:
                assert e.code in drawn.refused, e  # noqa: PT017
                assert str(drawn.folder) in str(e), e  # noqa: PT017
                assert own.data_on_disk() == before
            else:
                assert drawn.refused == set()
                draw.note(job)
                replaced = job == "overwrite" and drawn.rows  # Without rows it replaces no partition.
                rows = drawn.rows if replaced else rows + drawn.rows
        assert sorted(map(plain, found(own.table()))) == sorted(map(plain, rows))
        check_filters(own.table())

    for_each_seed(LANE, 60, check)
    assert missing(LANE, WANTED) == set()


ON_SPARK = "Parquet sources on Spark"
SPARKS_TURNS = (files.PLAIN, *(odd for odd in files.ODD if odd[1] in ("d", "ts", "s")), ("INT96", "", None))


@pytest.mark.spark
def test_spark_stores_the_values_that_a_file_stands_for_or_refuses_it(place: Place) -> None:  # noqa: F811
    """It takes all that lane local takes, and more forms; a value is never another one."""

    def check(draw: Draw) -> None:
        name = f"t{draw.seed}"
        place.create(name, files.SPARK_SCHEMA)
        drawn = files.source(draw, place.folder / f"in-{name}", files.SPARK_SCHEMA, 0, draw.turn(SPARKS_TURNS), most=1)
        try:
            place.run("append", name, source=Source(format="parquet", paths=[str(drawn.folder)]))
        except (SchemaError, UnsupportedError, DataError) as e:
            assert drawn.refused, e  # noqa: PT017
            assert not [f for f in place.files_on_disk(name) if f.startswith("data/")]
            return
        assert "BAD_SCHEMA" not in drawn.refused
        draw.note("converted" if drawn.refused else "as it is")
        if not drawn.has_other_values:
            assert sorted(map(plain, found(place.table(name)))) == sorted(map(plain, drawn.rows))
            check_filters(place.table(name))

    for_each_seed(ON_SPARK, 12, check)
    assert missing(ON_SPARK, {"converted", "as it is", "refused"}) == set()
