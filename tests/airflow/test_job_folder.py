"""Job folders: one for each try, whatever the ids; readable only by the owner; without secrets afterwards; removed when they are
old."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_airflow.job_folder import JobFolder, TryIdentity, folder_name, jobs_root
from iceberg_airflow.job_sweep import prune, sweep
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, Source
from iceberg_ops.errors import OptionError

pytestmark = pytest.mark.airflow
LOG = logging.getLogger(__name__)
ODD_IDS = [
    "y:1",
    "y+1",
    "y~1",
    "y_1",
    "y 1",
    "y/1",
    "y%1",
    "y%2F1",
    "..",
    ".",
    "...",
    "%2E.",
    "é",
    "e\u0301",
    "Y:1",
    "a" * 250,
    "ü" * 250,
]
SECRET = {"uri": "postgresql://me:geheim%2F1@db/x", "s3.secret-access-key": "very-secret", "warehouse": "/w"}


@pytest.mark.parametrize("root", ["~/jobs", "~no-such-user/jobs", "jobs"])
def test_the_root_of_all_job_folders_is_a_whole_path(root: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No shell reads an environment file: ``~/jobs`` was a folder called ~ in each working folder."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("ICEBERG_OPS_JOBS", root)
    monkeypatch.chdir(tmp_path)
    assert jobs_root() == (Path("/home/me/jobs") if root == "~/jobs" else tmp_path / root)


def identity(**parts: object) -> TryIdentity:
    usual = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1}
    return TryIdentity(**{**usual, **parts})  # type: ignore[arg-type]


def a_job() -> JobSpec:
    catalog = CatalogConfig(name="lake", type="sql", properties=SECRET)
    source = Source(format="table", table="other.a.b", catalog=CatalogConfig(name="other", type="sql", properties=SECRET))
    return JobSpec(job="append", table="lake.a.b", catalog=catalog, source=source)


def test_tries_whose_ids_differ_have_different_folders() -> None:
    """Run ids are typed by people; Airflow allows ``~.:+-`` in them by default, and any character if it is configured so."""
    folders = [JobFolder.of(identity(**{field: odd})).folder for field in ("dag_id", "run_id", "task_id") for odd in ODD_IDS]
    folders += [JobFolder.of(identity(map_index=i, try_number=n)).folder for i in (-1, 0, 1, 11) for n in (1, 2, 11)]
    assert len(set(folders)) == len(folders)
    for folder in folders:
        assert jobs_root() in folder.parents
        assert ".." not in folder.parts


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=260), min_size=2, max_size=2))
def test_names_of_different_ids_differ_and_fit_a_file_system(ids: list[str]) -> None:
    names = [folder_name(part) for part in ids]
    assert (names[0] == names[1]) == (ids[0] == ids[1])
    for name in names:
        assert len(name.encode()) <= 255
        assert "/" not in name
        assert name not in (".", "..")


def test_usual_ids_stay_readable() -> None:
    assert folder_name("table_maintenance__daily") == "table_maintenance__daily"
    assert folder_name("maintain.run_rewrite-data.files") == "maintain.run_rewrite-data.files"


@pytest.mark.parametrize("at", ["", "d", "d/r", "d/r/t", "d/r/t/try-1"])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Someone who may write to the root must not lead job specs elsewhere; the root itself is the operator's choice."""
    root = tmp_path / "jobs"
    monkeypatch.setenv("ICEBERG_OPS_JOBS", str(root))
    (tmp_path / "elsewhere").mkdir()
    (root / at).parent.mkdir(parents=True, exist_ok=True)
    (root / at).symlink_to(tmp_path / "elsewhere")
    if not at:
        JobFolder.of(identity()).write(a_job())
        return
    with pytest.raises(OptionError, match="must be a folder, not a link"):
        JobFolder.of(identity())
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("at", ["", "d", "d/r", "d/r/t/try-1"])
@pytest.mark.parametrize("dangling", [True, False], ids=["dangling link", "file"])
def test_a_file_or_a_dangling_link_in_the_place_of_a_folder_is_named(at: str, dangling: bool) -> None:
    """The task failed with FileExistsError, which is tried again."""
    place = jobs_root() / at
    if place.is_dir():
        place.rmdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    if dangling:
        place.symlink_to("/nowhere")
    else:
        place.touch()
    with pytest.raises(OptionError, match="set ICEBERG_OPS_JOBS"):
        JobFolder.of(identity())


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    folder = JobFolder.of(identity())
    (tmp_path / "precious").write_text("precious")
    for name in ("job.json", "report.json"):
        (folder.folder / name).symlink_to(tmp_path / "precious")
    folder.write(a_job())
    assert (tmp_path / "precious").read_text() == "precious"
    assert not folder.report.is_symlink()


def test_the_kept_job_spec_is_readable_by_the_owner_and_holds_no_secret() -> None:
    path = JobFolder.of(identity()).write(a_job())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for secret in ("geheim", "very-secret"):
        assert secret not in path.read_text()
    kept = from_json(path.read_bytes(), JobSpec, "kept")
    assert kept.catalog.properties == {"uri": "postgresql://me:***@db/x", "s3.secret-access-key": "***", "warehouse": "/w"}


@pytest.mark.parametrize(
    ("known", "source"),
    [
        (
            {"geheim-1", "geheim-2", "geheim-3", "geheim-4"},
            Source(
                format="parquet",
                paths=["abfss://c@a/x?sig=geheim-1", "s3a://KEY:geheim-2@b/x"],
                options={"fs.s3a.secret.key": "geheim-3", "fs.s3a.endpoint": "http://me:geheim-4@h"},
            ),
        ),
        (
            {"geheim-5", "geheim-6"},
            Source(format="sql", query="SELECT * FROM v, json.`s3a://KEY:geheim-5@b/y`", views={"v": "s3a://KEY:geheim-6@b/x"}),
        ),
    ],
    ids=["files", "query"],
)
def test_the_kept_job_spec_holds_no_secret_of_its_source(known: set[str], source: Source) -> None:
    """It lay there in clear for thirty days, and no error or report hid it."""
    catalog = CatalogConfig(name="lake", type="sql", properties={"warehouse": "/w"})
    job = JobSpec(job="append", table="lake.a.b", catalog=catalog, source=source)
    assert "geheim" not in JobFolder.of(identity()).write(job).read_text()
    assert {secret for secret in job.secrets() if secret.startswith("geheim")} == known


def test_a_job_spec_without_secrets_is_kept_as_it_ran() -> None:
    catalog = CatalogConfig(name="lake", type="sql", properties={"uri": "sqlite:////data/c.db", "warehouse": "/w"})
    job = JobSpec(job="rewrite_manifests", table="lake.a.b", catalog=catalog)
    assert from_json(JobFolder.of(identity()).write(job).read_bytes(), JobSpec, "kept") == job


# tidying up


def leave(folder: JobFolder, *names: str, days_ago: float = 0) -> None:
    """Files in a folder, as a machine that died left them."""
    then = time.time() - days_ago * 86_400
    for name in names:
        (folder.folder / name).write_text("{}")
        os.utime(folder.folder / name, (then, then))
    os.utime(folder.folder, (then, then))


def names(folder: JobFolder) -> list[str]:
    return sorted(path.name for path in folder.folder.iterdir()) if folder.folder.exists() else []


def test_a_retry_removes_what_secrets_its_earlier_tries_left() -> None:
    first, second, other = (JobFolder.of(identity(try_number=n, map_index=i)) for n, i in ((1, -1), (2, -1), (1, 0)))
    for folder in (first, other):
        leave(folder, "job.json", "private-job.json", "report.json")
    sweep(second, log=LOG)
    assert names(first) == ["job.json", "report.json"]
    assert names(other) == ["job.json", "private-job.json", "report.json"]


def test_old_folders_are_removed_and_young_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_OPS_JOBS_KEEP", "10d")
    old, young, crashed = (JobFolder.of(identity(run_id=r, map_index=3)) for r in ("old", "young", "crashed"))
    leave(old, "job.json", "report.json", "lane.json", "answer.json", days_ago=11)
    leave(young, "job.json", "report.json", days_ago=9)
    leave(crashed, "private-request.json", days_ago=2)
    sweep(JobFolder.of(identity(run_id="now")), log=LOG)
    assert not (jobs_root() / "d" / "old").exists()
    assert names(young) == ["job.json", "report.json"]
    assert names(crashed) == []


def test_an_id_may_look_like_a_try() -> None:
    for odd in (identity(run_id="try-1"), identity(dag_id="try-2", task_id="try-3")):
        leave(JobFolder.of(odd), "report.json", days_ago=400)
    assert prune(jobs_root(), older_than_s=86_400) == 2
    assert list(jobs_root().iterdir()) == []


def test_folders_are_looked_through_once_an_hour() -> None:
    now, old = JobFolder.of(identity(run_id="now")), identity(run_id="old")
    sweep(now, log=LOG)
    leave(JobFolder.of(old), "report.json", days_ago=400)
    sweep(now, log=LOG)
    assert names(JobFolder.of(old)) == ["report.json"]
    mark = jobs_root() / ".swept"
    os.utime(mark, (time.time() - 4000, time.time() - 4000))
    sweep(now, log=LOG)
    assert not (jobs_root() / "d" / "old").exists()


def test_only_our_own_files_are_removed_and_no_link_is_followed(tmp_path: Path) -> None:
    mine, theirs = JobFolder.of(identity(run_id="mine")), JobFolder.of(identity(run_id="theirs"))
    leave(mine, "report.json", days_ago=400)
    leave(theirs, "report.json", "notes.txt", days_ago=400)
    (tmp_path / "elsewhere" / "try-1").mkdir(parents=True)
    (tmp_path / "elsewhere" / "try-1" / "report.json").write_text("precious")
    os.utime(tmp_path / "elsewhere" / "try-1", (0, 0))
    (jobs_root() / "linked").symlink_to(tmp_path / "elsewhere")
    (jobs_root() / "d" / "try-9").symlink_to(tmp_path / "elsewhere" / "try-1")
    prune(jobs_root(), older_than_s=86_400)
    assert names(theirs) == ["notes.txt"]
    assert not mine.folder.exists()
    assert (tmp_path / "elsewhere" / "try-1" / "report.json").read_text() == "precious"


def test_a_folder_that_cannot_be_tidied_does_not_fail_the_task(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/jobs/x")

    folder = JobFolder.of(identity())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iceberg_airflow.job_sweep._is_time", refuse)
        sweep(folder, log=LOG)
    assert "old job folders could not be tidied up: /jobs/x: Permission denied" in caplog.text


def test_a_wrong_time_to_keep_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_OPS_JOBS_KEEP", "a while")
    with pytest.raises(OptionError, match="ICEBERG_OPS_JOBS_KEEP = 'a while': must be a length of time"):
        sweep(JobFolder.of(identity()), log=LOG)


def test_a_folder_that_cannot_be_read_keeps_no_other_from_being_tidied(caplog: pytest.LogCaptureFixture) -> None:
    """One folder of another user stopped the removal of every other one, in every later sweep."""
    olds = [JobFolder.of(identity(dag_id=name)) for name in ("aaa", "mmm", "zzz")]
    for old in olds:
        leave(old, "job.json", "private-job.json", days_ago=400)
    read = Path.iterdir

    def refusing(self: Path) -> Iterator[Path]:
        if self.name == "mmm":
            raise PermissionError(13, "Permission denied", str(self))
        return read(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "iterdir", refusing)
        sweep(JobFolder.of(identity(run_id="now")), log=LOG)
    assert [names(old) for old in olds] == [[], ["job.json", "private-job.json"], []]
    assert caplog.text.count("mmm: Permission denied") == 1


def test_times_in_the_future_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose clock was wrong kept every other one from tidying up until then, and its own files with secrets."""
    monkeypatch.setenv("ICEBERG_OPS_JOBS_KEEP", "10d")
    old, ahead, mine = (JobFolder.of(identity(run_id=r)) for r in ("old", "ahead", "mine"))
    leave(old, "report.json", days_ago=11)
    leave(ahead, "private-job.json", days_ago=-30_000)
    leave(mine, "private-job.json", days_ago=-30_000)
    mark = jobs_root() / ".swept"
    mark.touch()
    os.utime(mark, (4e9, 4e9))
    sweep(JobFolder.of(identity(run_id="mine", try_number=2)), log=LOG)
    assert not old.folder.exists()
    assert names(mine) == []
    assert abs((ahead.folder / "private-job.json").stat().st_mtime - time.time()) < 60
    assert abs(mark.stat().st_mtime - time.time()) < 60


def test_a_folder_is_made_though_a_sweep_removes_what_is_empty_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last old run of a DAG goes, with the DAG's empty folder, while a new task of it makes its own."""
    leave(JobFolder.of(identity(run_id="old")), "job.json", days_ago=400)
    make, swept = Path.mkdir, []

    def slow(self: Path, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        if self.name == "d" and not swept:
            swept.append(prune(jobs_root(), older_than_s=86_400))

    monkeypatch.setattr(Path, "mkdir", slow)
    assert JobFolder.of(identity(run_id="new")).folder.is_dir()
    assert swept == [1]


@pytest.mark.parametrize("keep", ["0d", "0s", "59m"])
def test_folders_are_kept_for_an_hour_at_least(monkeypatch: pytest.MonkeyPatch, keep: str) -> None:
    """The sweep removed the folder that the task had just made for itself."""
    monkeypatch.setenv("ICEBERG_OPS_JOBS_KEEP", keep)
    with pytest.raises(OptionError, match=f"ICEBERG_OPS_JOBS_KEEP = '{keep}': must be at least 1h"):
        sweep(JobFolder.of(identity()), log=LOG)


def test_no_sweep_removes_the_folder_of_the_task_that_runs_it() -> None:
    mine, other = JobFolder.of(identity(run_id="mine")), JobFolder.of(identity(run_id="other"))
    assert prune(jobs_root(), older_than_s=0, own_folder=mine.folder) == 1
    assert (mine.folder.exists(), other.folder.exists()) == (True, False)


@pytest.mark.parametrize(
    "source",
    [
        Source(format="parquet", paths=["hdfs://nn:8020/in/team@corp/x.parquet", "/in/pwd=a/day=1"]),
        Source(format="csv", paths=["/in"], options={"sep": ";", "nullValue": "token=x;y"}),
        Source(format="sql", query="SELECT * FROM src WHERE pwd='abc' AND id > 3", views={"src": "/in/password=x/y"}),
    ],
)
def test_the_kept_job_spec_of_a_source_without_secrets_can_be_run_again(source: Source) -> None:
    catalog = CatalogConfig(name="lake", type="filesystem", properties={"warehouse": "/wh/pwd=x", "token-refresh-enabled": "true"})
    job = JobSpec(job="append", table="lake.db.t", catalog=catalog, source=source)
    kept = JobFolder.of(identity()).write(job)
    assert from_json(kept.read_bytes(), JobSpec, "kept") == job


@pytest.mark.parametrize(
    ("job", "options"),
    [
        ("add_files", {"source-path": "s3a://AKIA:geheim99@lake/x"}),
        ("remove_orphan_files", {"quarantine-path": "abfss://c@a.dfs/q?sig=geheim99", "older-than": "4d"}),
        ("upsert", {"delete-when": "op = 'd' AND pwd = 'x'", "source-only-columns": "op"}),
    ],
)
def test_what_is_kept_has_no_secret_of_a_location_among_the_options(job: str, options: dict[str, str]) -> None:
    """It lay there in clear for thirty days. Conditions stay as they are."""
    catalog = CatalogConfig(name="lake", type="memory")
    spec = JobSpec(job=job, table="lake.a.b", catalog=catalog, options=options)
    kept = from_json(JobFolder.of(identity()).write(spec).read_bytes(), JobSpec, "kept").options
    assert kept == {name: value.replace("geheim99", "***") for name, value in options.items()}
    assert (kept != options) == ("geheim99" in spec.secrets())
