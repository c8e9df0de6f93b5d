"""A statement on a table whose data file is gone: one typed line that names the file, whoever reads it; nothing is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.runners import reading
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "city", STRING))
STATEMENTS: dict[str, dict[str, Any]] = {
    "update": {"where": "pmod(id, 2) = 0", "change": RowChange(mode="merge-on-read", set={"city": "'x'"})},
    "delete": {"where": "pmod(id, 2) = 0", "change": RowChange(mode="copy-on-write")},
}


@pytest.mark.parametrize("job", STATEMENTS)
@pytest.mark.parametrize("reader", ["spark", "arrow"])
def test_the_file_is_named(place: Place, monkeypatch: pytest.MonkeyPatch, reader: str, job: str) -> None:
    if reader == "arrow":
        monkeypatch.setattr(reading, "native_paths", lambda *_: {})
    place.create("t", SCHEMA, format__version="3")
    place.append("t", pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"]}))
    (task,) = plan(place.table("t"), Scan()).tasks
    file = Path(task.file_path.removeprefix("file://"))
    file.unlink()
    with pytest.raises(CorruptTableError) as raised:
        place.run(job, "t", **STATEMENTS[job])
    assert file.name in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(place.table("t").metadata.snapshots) == 1
    assert [p for p in file.parent.rglob("*") if p.is_file()] == []
