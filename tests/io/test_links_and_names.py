"""Broken links and names that are not UTF-8 do not end a listing or a job, and are not deleted if they could not be examined."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.temporary_names import is_temporary, temporary_name
from tests.actions.lake import Lake, numbered
from tests.actions.test_orphan_spellings import clean, lake_at

NAMES: dict[str, bytes] = {
    "no UTF-8": b"\xff\xfe.parquet",
    "a line break": b"a\nb.parquet",
    "an escape": b"\x1b[31mx.parquet",
    "250 letters": b"x" * 250,
    "a percent sign": b"a%2Fb.parquet",
    "quotes": b'a"b\\c\x7f',
    "a line separator": "a\u2028b".encode(),
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = lake_at(tmp_path, f"{tmp_path}/wh")
    lake.append(numbered(0, 3))
    return lake


def below(lake: Lake, name: bytes) -> bytes:
    return os.fsencode(lake.table.location) + b"/data/" + name


def test_a_listing_goes_past_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "folder").symlink_to(".")
    io = LocalFileIO()
    assert {i.location for i in io.list_prefix(str(tmp_path))} == {f"{tmp_path}/file", f"{tmp_path}/link"}
    assert not io.exists(f"{tmp_path}/loop")
    for read in (io.read, io.open_input, io.length):
        with pytest.raises(FileNotFoundError, match=r"form a loop.*loop"):
            read(f"{tmp_path}/loop")


def test_orphan_removal_leaves_links_that_lead_nowhere_alone(lake: Lake) -> None:
    stray, loop, dangling = (Path(lake.table.location, "data", name) for name in ("stray", "loop", "dangling"))
    stray.write_bytes(b"x")
    loop.symlink_to(loop)
    dangling.symlink_to("gone")
    assert clean(lake).files == [str(stray)]
    assert loop.is_symlink()
    assert dangling.is_symlink()
    assert len(lake.rows()) == 3


@pytest.mark.parametrize("how", ["deleted", "quarantined"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_an_orphan_of_any_name_goes_and_is_reported(lake: Lake, tmp_path: Path, name: bytes, how: str) -> None:
    path = below(lake, name)
    with open(path, "xb") as file:
        file.write(b"orphan")
    os.utime(path, (1, 1))
    options = {"quarantine-path": f"{tmp_path}/quarantine"} if how == "quarantined" else {}
    job = JobSpec(
        job="remove_orphan_files",
        table="c.ns.t",
        catalog=CatalogConfig(name="c", type="sql"),
        options=options,
        report=f"{tmp_path}/report.json",
    )
    report = run_job(job, catalog=lake.catalog)
    assert [os.fsencode(f) for f in report.files] == [path]
    assert not os.path.lexists(path)
    written: Any = json.loads((tmp_path / "report.json").read_bytes())
    assert written["files"] == [os.fsdecode(path).encode(errors="backslashreplace").decode()]
    if how == "quarantined":
        (moved,) = [line for f in Path(tmp_path, "quarantine").rglob("moved.jsonl") for line in f.read_text().splitlines()]
        assert os.fsencode(json.loads(moved)["from"]) == path
        with open(os.fsencode(json.loads(moved)["to"]), "rb") as file:
            assert file.read() == b"orphan"


def test_a_temporary_name_is_made_for_every_name() -> None:
    for name in NAMES.values():
        assert is_temporary(temporary_name(f"/t/{os.fsdecode(name)}"))


def test_an_import_leaves_nothing_out_silently_behind_a_link_to_a_folder(lake: Lake, tmp_path: Path) -> None:
    for folder in ("source", "elsewhere"):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"id": [1], "data": ["x"], "region": ["eu"]}), tmp_path / folder / f"{folder}.parquet")
    (tmp_path / "source" / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedError, match="because links to folders are not followed"):
        lake.run("add_files", source_path=f"{tmp_path}/source")
    (tmp_path / "source" / "more").unlink()
    (tmp_path / "source" / "_latest").symlink_to(tmp_path / "elsewhere")  # hidden, as a folder of that name
    (tmp_path / "door").symlink_to(tmp_path / "source")
    assert lake.run("add_files", source_path=f"{tmp_path}/door").status == "committed"
    assert len(lake.rows()) == 4
