"""Writes source rows where jobs can read them: one folder per batch, visible only when complete.

Loads are CSV files with a header line, corrections are Parquet. A day's flights are one file per airport of departure.
Carriers in ``LATE_CARRIERS`` report late: their flights are missing from the day and arrive with the corrections. Corrections
are derived from the data itself:

- a flight that has an arrival time but no arrival delay was diverted; its delay follows from its scheduled arrival;
- a flight with neither departure time nor tail number never had a plane: it is withdrawn;
- the flights of the late carriers are new.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from demo.datasets import FLIGHTS
from demo.source import PACKAGE, flights_between, rows_of
from iceberg_ops.errors import DataError

LATE_CARRIERS = ("HA",)
WEATHER_FILES = 3
_LOAD = {"format": "csv", "options": {"header": "true"}}
_CORRECTIONS = {"format": "parquet"}
_HALF_DAY_MINUTES = 720
_ARR_DELAY = pa.field("arr_delay", pa.int32())


def land_day(landing: Path, day: date) -> dict[str, Any]:
    """The source of a job: one file per airport with the flights of a UTC day, late carriers left out.

    Raises DataError for a day without flights.
    """
    rows = _flights_of(day)
    on_time = rows.filter(pc.invert(_late(rows)))
    airports = pc.unique(on_time["origin"]).to_pylist()
    batches = {airport: on_time.filter(pc.equal(on_time["origin"], airport)) for airport in sorted(airports)}
    return _LOAD | {"paths": _lay(landing / "flights" / day.isoformat(), batches, _write_csv)}


def land_reference(landing: Path, name: str) -> dict[str, Any]:
    """The source of a job: all rows of a reference table; weather, the largest, in several files."""
    rows = rows_of(name)
    count = WEATHER_FILES if name == "weather" else 1
    step = -(-rows.num_rows // count)
    batches = {f"part-{i}": rows.slice(i * step, step) for i in range(count)}
    return _LOAD | {"paths": _lay(landing / name, batches, _write_csv)}


def land_corrections(landing: Path, batch: str) -> dict[str, Any]:
    """The source of a job: corrections of every landed day, as one file. Raises DataError when no day has landed."""
    days = landed_days(landing)
    if not days:
        raise DataError(f"no flights have landed in {landing}: run flights_ingest first")
    rows = pa.concat_tables([corrections_of(_flights_of(d)) for d in days])
    return _CORRECTIONS | {"paths": _lay(landing / "corrections" / batch, {"corrections": rows}, _write_parquet)}


def landed_days(landing: Path) -> list[date]:
    """Days whose flights have landed, in order."""
    return sorted(date.fromisoformat(p.name) for p in (landing / "flights").glob("????-??-??"))


def corrections_of(rows: pa.Table) -> pa.Table:
    """The corrections: corrected columns of flights, and ``correction``: diverted, withdrawn or late."""
    late = _late(rows)
    withdrawn = pc.and_(pc.is_null(rows["dep_time"]), pc.is_null(rows["tailnum"]))
    diverted = pc.and_(pc.is_valid(rows["arr_time"]), pc.is_null(rows["arr_delay"]))
    kind = pc.case_when(pc.make_struct(late, withdrawn, diverted), "late", "withdrawn", "diverted")
    delay = pc.if_else(diverted, arrival_delay(rows["arr_time"], rows["sched_arr_time"]), rows["arr_delay"])
    corrected = rows.set_column(rows.schema.get_field_index("arr_delay"), _ARR_DELAY, delay).append_column("correction", kind)
    return corrected.filter(pc.is_valid(corrected["correction"]))


def arrival_delay(arrived: pa.ChunkedArray, scheduled: pa.ChunkedArray) -> pa.ChunkedArray:
    """Minutes between two HHMM times of the same local clock, taken within half a day of the schedule."""
    raw = pc.subtract(_minutes(arrived), _minutes(scheduled))
    # A flight due 23:50 that lands 00:20 is 30 minutes late, not 23.5 hours early; one due 00:10 that lands 23:50 is early.
    wrapped = pc.if_else(pc.less(raw, -_HALF_DAY_MINUTES), pc.add(raw, 2 * _HALF_DAY_MINUTES), raw)
    return pc.if_else(pc.greater_equal(wrapped, _HALF_DAY_MINUTES), pc.subtract(wrapped, 2 * _HALF_DAY_MINUTES), wrapped).cast(
        pa.int32()
    )


def _minutes(hhmm: pa.ChunkedArray) -> pa.ChunkedArray:
    hours = pc.divide(hhmm, 100)
    return pc.add(pc.multiply(hours, 60), pc.subtract(hhmm, pc.multiply(hours, 100)))


def _late(rows: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(rows["carrier"], pa.array(LATE_CARRIERS))


def _flights_of(day: date) -> pa.Table:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    rows = flights_between(start, start + timedelta(days=1))
    if not rows.num_rows:
        raise DataError(f"no {FLIGHTS.name} on {day}: {PACKAGE} holds flights of 2013 only")
    return rows


def _write_csv(rows: pa.Table, base: Path) -> Path:
    pa_csv.write_csv(rows, path := base.with_suffix(".csv"))
    return path


def _write_parquet(rows: pa.Table, base: Path) -> Path:
    pq.write_table(rows, path := base.with_suffix(".parquet"), compression="zstd")
    return path


def _lay(folder: Path, batches: dict[str, pa.Table], write: Callable[[pa.Table, Path], Path]) -> list[str]:
    """Write the files beside their final place and rename the folder as a whole, so that no reader sees half of it."""
    staged = folder.with_name(f".{folder.name}.staged")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    written = [write(rows, staged / name).name for name, rows in batches.items()]
    shutil.rmtree(folder, ignore_errors=True)
    staged.rename(folder)
    return [str(folder / name) for name in written]
