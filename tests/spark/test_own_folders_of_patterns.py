"""Source paths as Hadoop finds them, without Spark: a pattern or a link that leads to the table's own files is refused."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from spark_jobs.jobs.source_paths import check_paths
from tests.actions.rows_place import RowsPlace


class Status:
    """A file or folder; links are followed, as Hadoop does it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def isFile(self) -> bool:
        return os.path.isfile(self.path)

    def getPath(self) -> Any:
        return HadoopPath(self.path)


class HadoopPath:
    def __init__(self, path: str) -> None:
        self.path = path.removeprefix("file:")

    def __str__(self) -> str:
        return f"file:{self.path}"

    def getName(self) -> str:
        return os.path.basename(self.path)

    def getParent(self) -> HadoopPath:
        return HadoopPath(os.path.dirname(self.path))

    def getFileSystem(self, _: object) -> Any:
        return SimpleNamespace(
            globStatus=lambda place: [Status(p) for p in sorted(glob.glob(place.path))],
            exists=lambda place: os.path.exists(place.path),
            getFileStatus=lambda place: Status(place.path),
            listStatus=lambda place: [Status(os.path.join(place.path, n)) for n in sorted(os.listdir(place.path))],
        )


SESSION: Any = SimpleNamespace(
    _jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=SimpleNamespace(Path=HadoopPath))))),
    _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(hadoopConfiguration=lambda: None)),
)


def test_patterns_and_links_that_lead_to_the_tables_own_files_are_refused(tmp_path: Path) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(Schema.of(NestedField(1, "id", LONG)))
    source = place.source([{"id": 1}], pa.schema({"id": pa.int64()}))
    place.run("append", source=source)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link").symlink_to(tmp_path / "warehouse" / "db" / "t" / "data")
    for path in ("warehouse/db/*/data", "ware*", "other", "other/link", "*/link"):
        with pytest.raises(DataError, match="own folder"):
            check_paths(SESSION, [f"file:{tmp_path}/{path}"], place.table(), require_success_file=False)
    check_paths(SESSION, source.paths, place.table(), require_success_file=False)
    check_paths(SESSION, [f"{tmp_path}/source-*.parquet"], place.table(), require_success_file=False)


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("name", ["a[1].parquet", "[1]/a.parquet"])
def test_a_path_that_exists_and_is_a_pattern_of_other_files_is_refused(tmp_path: Path, name: str, beside: bool) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(Schema.of(NestedField(1, "id", LONG)))
    for other in (name, *([name.replace("[", "").replace("]", "")] if beside else [])):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"it exists, and Spark takes it for a pattern .* its characters \[ \],"):
        check_paths(SESSION, [f"{tmp_path}/{name}"], place.table(), require_success_file=False)
