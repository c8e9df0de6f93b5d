"""The expected result, computed without this product: pandas on the package's CSV files.

It shares no code with ``landing``, ``source`` or the DAGs; their work is repeated here with another library. Values become
Arrow only for the comparison.
"""

from __future__ import annotations

from datetime import date

import pandas as pd
import pyarrow as pa

from demo.source import data_folder, dataset_schema


def expected_rows(name: str, days: list[date]) -> pa.Table:
    """Rows that table ``name`` must hold after ingest of ``days`` and corrections."""
    frame = pd.read_csv(data_folder() / ("flights.csv.zip" if name == "flights" else f"{name}.csv"))
    if "time_hour" in frame:
        frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    corrected = {"flights": _flights, "weather": _weather, "planes": _planes}.get(name)
    if corrected is not None:
        frame = corrected(frame, days)
    schema = dataset_schema(name)
    return pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)


def ingested_flights(days: list[date]) -> int:
    """How many flights the daily loads add: those of late carriers come with the corrections."""
    frame = pd.read_csv(data_folder() / "flights.csv.zip", usecols=["time_hour", "carrier"])
    return int((_on(frame, days) & (frame["carrier"] != "HA")).sum())


def _on(frame: pd.DataFrame, days: list[date]) -> pd.Series:
    return pd.to_datetime(frame["time_hour"], utc=True).dt.date.isin(days)


def _flights(frame: pd.DataFrame, days: list[date]) -> pd.DataFrame:
    chosen = frame[_on(frame, days)].copy()
    never_had_a_plane = chosen["dep_time"].isna() & chosen["tailnum"].isna()
    chosen = chosen[~never_had_a_plane | (chosen["carrier"] == "HA")]
    landed = (chosen["arr_time"] // 100) * 60 + chosen["arr_time"] % 100
    due = (chosen["sched_arr_time"] // 100) * 60 + chosen["sched_arr_time"] % 100
    delay = (landed - due + 720) % 1440 - 720
    # Late carriers' flights are inserted as the correction gives them: with the delay filled in as well.
    return chosen.assign(arr_delay=chosen["arr_delay"].where(chosen["arr_delay"].notna(), delay))


def _weather(frame: pd.DataFrame, _: list[date]) -> pd.DataFrame:
    return frame[~(frame["wind_speed"] > 250)]


def _planes(frame: pd.DataFrame, _: list[date]) -> pd.DataFrame:
    names = {
        "AIRBUS INDUSTRIE": "AIRBUS",
        "MCDONNELL DOUGLAS AIRCRAFT CO": "MCDONNELL DOUGLAS",
        "MCDONNELL DOUGLAS CORPORATION": "MCDONNELL DOUGLAS",
    }
    return frame.assign(manufacturer=frame["manufacturer"].replace(names))
