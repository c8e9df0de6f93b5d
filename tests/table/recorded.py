"""Opens the recorded tables of other engines, with their locations mapped to the copies."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.io.read_only import ReadOnlyFileIO
from iceberg_ops.table.metadata_files import read_metadata
from iceberg_ops.table.table import Table
from tests.fixture_paths import FIXTURES


@cache
def expectation(name: str) -> Any:
    """The parsed expected.json of a recorded table."""
    assert FIXTURES is not None
    return json.loads((FIXTURES / name / "expected.json").read_text("utf-8"))


def recorded_io(name: str) -> FileIO:
    """Storage in which the recorded locations of that table are found."""
    assert FIXTURES is not None
    mapping = [(m["recorded_prefix"], str(FIXTURES / name / m["local"])) for m in expectation(name).get("path_mapping", [])]
    return ReadOnlyFileIO(MappedFileIO(LocalFileIO(), mapping))


def current_metadata(name: str) -> Path:
    """The metadata file that is current, by expected.json."""
    assert FIXTURES is not None
    found = expectation(name)
    return FIXTURES / name / found["table_dir"] / found["current_metadata"]


def recorded_table(name: str) -> Table:
    """A recorded table at its current metadata."""
    location, io = str(current_metadata(name)), recorded_io(name)
    return Table(("recorded", name), read_metadata(io, location), location, io)
