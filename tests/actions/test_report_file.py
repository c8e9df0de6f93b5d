"""Where reports are written: files are replaced as a whole, devices and pipes are written to, secrets are not written."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec import structs

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.run import report_file
from iceberg_ops.actions.run.report_file import check_report_place, error_report, write_report
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, Source
from iceberg_ops.config.report import ActionReport, GroupReport, SkippedFile, Step
from iceberg_ops.errors import OptionError, WhereError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.table import Table
from tests.actions.lake import make_lake, numbered
from tests.actions.rows_place import RowsPlace
from tests.catalog.wrappers import Wrapped

PASSWORD = "p@ss/w:rd"


def a_job(report: str | None, **fields: object) -> JobSpec:
    uri = f"postgresql://me:{quote(PASSWORD, safe='')}@db/x"
    catalog = CatalogConfig(name="lake", type="sql", properties={"uri": uri})
    return JobSpec(job="append", table="lake.a.b", catalog=catalog, job_id="this-try", report=report, **fields)  # type: ignore[arg-type]


def a_report(**fields: object) -> ActionReport:
    return ActionReport(action="append", table="lake.a.b", status="failed", started_at="x", duration_ms=1, **fields)  # type: ignore[arg-type]


def test_a_report_carries_the_id_of_its_job(tmp_path: Path) -> None:
    write_report(a_job(str(tmp_path / "r.json")), a_report())
    assert from_json((tmp_path / "r.json").read_bytes(), ActionReport, "r").job_id == "this-try"


@pytest.mark.parametrize("form", [PASSWORD, quote(PASSWORD), quote(PASSWORD, safe="")])
def test_a_report_holds_no_secret_of_the_jobs_catalogs(form: str, tmp_path: Path) -> None:
    """What a driver puts into its message, of the table's catalog and of the source's."""
    other = CatalogConfig(name="other", type="sql", properties={"token": PASSWORD})
    job = a_job(str(tmp_path / "r.json"), source=Source(format="table", table="other.a.b", catalog=other))
    failures = [SkippedFile(file_path="/f", reason=f"refused {form}")]
    write_report(job, a_report(error=error_report(ValueError(f"cannot connect with {form}")), failures=failures))
    found = from_json((tmp_path / "r.json").read_bytes(), ActionReport, "r")
    assert found.error is not None
    assert found.error.message == "ValueError: cannot connect with ***"
    assert found.failures[0].reason == "refused ***"


def test_a_report_holds_no_secret_of_a_source_or_a_location(tmp_path: Path) -> None:
    options = {"fs.s3a.secret.key": "geheim-1"}
    job = a_job(
        str(tmp_path / "r.json"), source=Source(format="parquet", paths=["s3a://KEY:geheim-2@b/x", "/y?sig=z"], options=options)
    )
    place = "abfss://c@a/t?sig=geheim-3/f.parquet"
    named = [SkippedFile(file_path=place, reason=f"{place}: geheim-1 refused")]
    report = a_report(
        steps=[Step(name="plan", duration_ms=1, detail=f"read {place}")],
        groups=[GroupReport(group_id="g1", status="failed", reason="no geheim-2")],
        skipped=named,
        failures=named,
        files=[place],
    )
    write_report(job, report)
    assert "geheim" not in (tmp_path / "r.json").read_text()
    assert (tmp_path / "r.json").read_text().count("***") == 9


def test_a_report_names_files_as_they_are(tmp_path: Path) -> None:
    """Paths were cut off at a partition folder ``pwd=``, and at the value of a switch or a weak password."""
    place = "hdfs://nn:8020/data/pwd=x/flag=true/team@corp/f.parquet"
    catalog = CatalogConfig(name="lake", type="sql", properties={"token-refresh-enabled": "true", "password": "data"})
    named = [SkippedFile(file_path=place, reason="old")]
    job = JobSpec(job="append", table="lake.a.b", catalog=catalog, report=str(tmp_path / "r.json"))
    write_report(job, a_report(files=[place], skipped=named, failures=named))
    found = from_json((tmp_path / "r.json").read_bytes(), ActionReport, "r")
    assert (found.files, found.skipped, found.failures) == ([place], named, named)


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    """A rename would put a file in the place of /dev/null, for every program of the machine."""
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        os.close(os.open(device, os.O_WRONLY))
    except PermissionError:
        device = Path(os.devnull)
    write_report(a_job(str(device)), a_report())
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_pipe_gets_the_report(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_report(a_job(str(tmp_path / "pipe")), a_report())
    reader.join(30)
    assert from_json(read[0], ActionReport, "r").job_id == "this-try"


def test_a_link_to_a_device_is_followed(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(os.devnull)
    write_report(a_job(str(tmp_path / "out")), a_report())
    assert (tmp_path / "out").is_symlink()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(to_json(a_report(lane_reason="x" * 100_000)))
    path.chmod(0o600)
    write_report(a_job(str(path)), a_report())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert from_json(path.read_bytes(), ActionReport, "r").status == "failed"


def test_a_job_without_a_place_for_its_report_writes_none() -> None:
    write_report(a_job(None), a_report())


def unwritable(folder: Path) -> dict[str, str]:
    (folder / "file").write_text("")
    return {
        "below a file": f"{folder}/file/report.json",
        "no folder can be made": "/proc/none/report.json",
        "a folder": str(folder),
        "too long a name": f"{folder}/{'x' * 300}",
        "another scheme": "s3://bucket/report.json",
        "a number of no open file": "/dev/fd/99999999999999",
        "a folder that is not there yet": f"{folder}/new/",
        "a socket": f"{folder}/socket",
    }


@pytest.mark.parametrize("what", sorted(unwritable(Path("/tmp"))))
def test_a_place_that_can_not_be_written_is_refused_before_the_work(what: str, tmp_path: Path) -> None:
    place = unwritable(tmp_path)[what]
    os.mknod(tmp_path / "socket", stat.S_IFSOCK | 0o600)
    with pytest.raises(OptionError, match=f"report {place}: cannot be written there: .*; nothing was done"):
        run_job(a_job(place), catalog=None)


def test_what_is_at_the_place_stays_until_the_report_is_there(tmp_path: Path) -> None:
    earlier = to_json(a_report())
    (tmp_path / "r.json").write_bytes(earlier)
    check_report_place(a_job(str(tmp_path / "r.json")))
    check_report_place(a_job(str(tmp_path / "new/folder/r.json")))
    check_report_place(a_job(os.devnull))
    check_report_place(a_job(None))
    assert (tmp_path / "r.json").read_bytes() == earlier
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "new", "r.json"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_place_that_is_lost_while_the_job_works_changes_nothing_about_how_it_ends(
    fails: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake()
    lake.append(numbered(0, 5))
    lake.append(numbered(10, 5))
    place = tmp_path / "reports" / "r.json"
    job = structs.replace(
        lake.job("rewrite_data_files", rewrite_all=True, where="nowhere = 1" if fails else "id > 0"),
        report=str(place), catalog=CatalogConfig(name="test", type="sql", properties={}),
    )  # fmt: skip

    class Loses(Wrapped):
        def load_table(self, identifier: tuple[str, ...]) -> Table:
            if place.parent.is_dir():
                place.parent.rmdir()
                place.parent.write_text("a file")
            return self.inner.load_table(identifier)  # type: ignore[no-any-return]

    if fails:
        with pytest.raises(WhereError, match="nowhere"):
            run_job(job, catalog=Loses(lake.catalog))
    else:
        assert run_job(job, catalog=Loses(lake.catalog)).status == "committed"
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert f"The report cannot be written to {place} (" in line
    assert ('"code": "BAD_WHERE"' if fails else '"status": "committed"') in line


def test_a_pipe_without_a_reader_does_not_stop_a_job_that_is_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a reader for ever, after the commit."""
    monkeypatch.setattr(report_file, "_READER_WITHIN_S", 0.2)
    os.mkfifo(tmp_path / "pipe")
    write_report(a_job(str(tmp_path / "pipe")), a_report())
    assert "The report cannot be written to" in caplog.text


OTHERS = {
    "a source of rows": b"id\n1\n",
    "rows in JSON": b'{"id": 1}\n{"id": 2}\n',
    "a catalogs file": b"catalogs: []\n",
    "a job spec": to_json(JobSpec(job="append", table="lake.a.b", catalog=CatalogConfig(name="lake", type="sql"))),
    "a part of a report": to_json(a_report())[:60],
    "no UTF-8": b'{"action": "\xff"}',
    "nested deeply": b'{"action": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_report_takes_the_place_of_a_report_only(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One in the place of a catalog's SQLite file lost every table of the catalog. Also a file that came while the job worked
    stays."""
    place, link = tmp_path / "there", tmp_path / "link"
    place.write_bytes(OTHERS[what])
    link.symlink_to(place)
    for report in (place, link):
        with pytest.raises(OptionError, match="a file that is not a report: name another file; nothing was done"):
            check_report_place(a_job(str(report)))
        write_report(a_job(str(report)), a_report())
        assert "The report cannot be written to" in caplog.text
    assert place.read_bytes() == OTHERS[what]


def test_an_empty_file_and_a_report_of_another_release_are_replaced(tmp_path: Path) -> None:
    for data in (b"", to_json(a_report()).replace(b'"action"', b'"later": 1, "action"')):
        (tmp_path / "r.json").write_bytes(data)
        check_report_place(a_job(str(tmp_path / "r.json")))


def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path: Path) -> None:
    """The link was replaced."""
    (tmp_path / "link").symlink_to("folder/r.json")
    for _ in range(2):
        check_report_place(a_job(str(tmp_path / "link")))
        write_report(a_job(str(tmp_path / "link")), a_report())
    assert (tmp_path / "link").is_symlink()
    assert from_json((tmp_path / "folder/r.json").read_bytes(), ActionReport, "r").status == "failed"
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "v1.metadata.json").symlink_to("folder/other.json")
    (tmp_path / "to-metadata").symlink_to("v2.metadata.json")
    with pytest.raises(OptionError, match="cannot be written there"):
        check_report_place(a_job(str(tmp_path / "circle")))
    with pytest.raises(OptionError, match="a table's metadata"):
        check_report_place(a_job(str(tmp_path / "to-metadata")))


def test_an_open_file_is_written_to_where_it_stands(tmp_path: Path) -> None:
    """``--report /dev/fd/3 3>>log``: the log's earlier lines were lost, and the link with it."""
    (tmp_path / "log").write_text("earlier\n")
    with open(tmp_path / "log", "a") as log:
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{log.fileno()}")
        for place in (str(tmp_path / "link"), f"/dev/fd/{log.fileno()}", f"/proc/{os.getpid()}/fd/{log.fileno()}"):
            check_report_place(a_job(place))
            write_report(a_job(place), a_report())
        log.write("later\n")
    said = (tmp_path / "log").read_text()
    assert (tmp_path / "link").is_symlink()
    assert (said.startswith("earlier\n{"), said.endswith("}\nlater\n"), said.count('"status"')) == (True, True, 3)


def test_a_file_that_is_open_for_reading_only_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(b"")
    with open(tmp_path / "r.json") as source, pytest.raises(OptionError, match="cannot be written there: Permission denied"):
        check_report_place(a_job(f"/dev/fd/{source.fileno()}"))
    with pytest.raises(OptionError, match="cannot be written there: "):
        check_report_place(a_job("/dev/fd/9999"))


def moved_disks(tmp_path: Path) -> tuple[RowsPlace, Path]:
    """A table below ``first`` whose disk is at ``second`` now, and what was there at ``third``; and ``second``."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    place = RowsPlace.at(first)
    place.create(Schema.of(NestedField(1, "id", LONG)))
    first.rename(second)
    mapping = json.dumps([[str(first), str(second)], [str(second), str(tmp_path / "third")]])
    config = CatalogConfig(
        name="test", type="filesystem", properties={"warehouse": str(first / "warehouse"), "location-mapping": mapping}
    )
    return RowsPlace(second, config, load_catalog(config)), second


def test_a_report_is_where_it_was_asked_for_whatever_mapping_recorded_locations_have(tmp_path: Path) -> None:
    place, second = moved_disks(tmp_path)
    for report in (tmp_path / "first" / "r.json", second / "r.json", tmp_path / "third" / "r.json"):
        report.parent.mkdir(exist_ok=True)
        place.run("delete", where="id = 1", report=str(report))
        assert report.is_file()


def test_a_report_in_a_folder_of_the_table_is_refused_where_that_lies_and_where_it_is_recorded(tmp_path: Path) -> None:
    place, second = moved_disks(tmp_path)
    for folder in (tmp_path / "first", second):
        with pytest.raises(OptionError, match=r"where the files of table test\.db\.t lie"):
            place.run("delete", where="id = 1", report=str(folder / "warehouse" / "db" / "t" / "data" / "r.json"))
