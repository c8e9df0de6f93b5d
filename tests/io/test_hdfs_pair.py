"""HDFS with two name nodes: failover under writers, safe mode, quotas, and files that a dead writer left open."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import hdfs_native
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.file_io import FileIO, RefusedForNowError, discard_output
from iceberg_ops.io.load import load_file_io
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.servers.hdfs import HdfsPair

ONCE = {"commit.retry.num-retries": "1", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "1"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsPair]:
    server = HdfsPair(tmp_path_factory.mktemp("hdfs-pair"))
    yield server
    server.close()


@pytest.fixture
def io(pair: HdfsPair, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileIO]:
    yield load_file_io(pair.properties)
    pair.order("unsafe", 0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iceberg_ops.io.hdfs.cluster._TRIED_FOR_S", 1)


@pytest.fixture
def catalog(io: FileIO, pair: HdfsPair) -> FileSystemCatalog:
    made = FileSystemCatalog("fs", io, warehouse=f"{pair.uri}/{uuid.uuid4().hex}", sleep=lambda _: None)
    made.create_namespace(("ns",))
    make_table(made, properties=ONCE)
    return made


def _path(location: str) -> str:
    return "/" + location.split("/", 3)[3]


def _names(io: FileIO, folder: str) -> set[str]:
    return {info.location.rpartition("/")[2] for info in io.list_prefix(folder)}


def test_writers_go_on_over_a_failover_and_lose_nothing(pair: HdfsPair, catalog: FileSystemCatalog) -> None:
    """The first name node hands over to the second, which then stops, and the first takes over again."""
    acknowledged, errors, over = set[str](), list[BaseException](), threading.Event()

    def write(worker: int) -> None:
        own = FileSystemCatalog("fs", load_file_io(pair.properties), warehouse=catalog._warehouse)  # type: ignore[attr-defined]
        commit(own, own.load_table(IDENTIFIER), UpdateProperties(updates={"commit.retry.num-retries": "100"}))
        try:
            n = 0
            while not over.is_set() or n < 3:
                path = f"{worker}-{n}"
                commit(own, own.load_table(IDENTIFIER), AppendFiles(added=(data_file(path),)))
                acknowledged.add(path)
                n += 1
        except BaseException as e:  # noqa: BLE001 - raised below
            errors.append(e)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    for order in (("standby", 0), ("active", 1), ("stop", 1), ("active", 0), ("start", 1)):
        pair.order(*order)
    over.set()
    for thread in threads:
        thread.join()
    assert errors == []
    table = catalog.load_table(IDENTIFIER)
    assert live_paths(table) == acknowledged
    assert len(table.metadata.snapshots) == len(acknowledged)
    assert [name for name in _names(catalog.io, table.location) if name.startswith(".iceberg-ops-")] == []


@pytest.mark.usefixtures("impatient")
def test_without_an_active_name_node_nothing_is_read_or_written(pair: HdfsPair, io: FileIO) -> None:
    folder = f"{pair.uri}/{uuid.uuid4().hex}"
    io.write(f"{folder}/f", b"1")
    pair.order("standby", 0)
    try:
        for call in (lambda: io.read(f"{folder}/f"), lambda: io.write(f"{folder}/g", b"1"), lambda: io.delete(f"{folder}/f")):
            with pytest.raises(CatalogUnavailableError, match="not supported in state standby"):
                call()
        with pytest.raises(CatalogUnavailableError, match="not supported in state standby"):
            list(io.list_prefix(folder))
    finally:
        pair.order("active", 0)
    assert _names(io, folder) == {"f"}


@pytest.mark.usefixtures("impatient")
def test_in_safe_mode_tables_are_read_and_no_commit_is_in_doubt(pair: HdfsPair, catalog: FileSystemCatalog) -> None:
    table = catalog.load_table(IDENTIFIER)
    pair.order("safe", 0)
    assert catalog.load_table(IDENTIFIER) == table
    with pytest.raises(CatalogUnavailableError, match=r"Name node is in safe mode.*nothing was committed"):
        catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    with pytest.raises(CatalogUnavailableError, match="Name node is in safe mode"):
        commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    pair.order("unsafe", 0)
    assert _names(catalog.io, table.location) == {"v1.metadata.json", "version-hint.text"}
    commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


def test_a_quota_refuses_at_once_and_says_what_to_do(pair: HdfsPair, io: FileIO) -> None:
    folder = f"{pair.uri}/{uuid.uuid4().hex}"
    io.write(f"{folder}/f", b"1")
    pair.order("quota", 0, _path(folder), 2, -1)
    for call in (lambda: io.write(f"{folder}/g", b"1"), lambda: io.make_folder(f"{folder}/d/e")):  # type: ignore[attr-defined]
        with pytest.raises(RefusedForNowError, match=r"NameSpace quota .* is exceeded.*: raise the quota .*-setQuota"):
            call()
    pair.order("quota", 0, _path(folder), -1, 200 << 20)
    with io.open_output(f"{folder}/large") as output:
        with pytest.raises(RefusedForNowError, match=r"DiskSpace quota .* is exceeded"):
            output.writelines([bytes(8 << 20)] * 30)
        discard_output(output)
    assert _names(io, folder) == {"f"}


def test_a_commit_for_which_the_quota_is_too_small_has_not_happened(pair: HdfsPair, catalog: FileSystemCatalog) -> None:
    table = catalog.load_table(IDENTIFIER)
    pair.order("quota", 0, _path(f"{table.location}/metadata"), 3, -1)
    with pytest.raises(CatalogUnavailableError, match=r"quota .* is exceeded.*nothing was committed"):
        catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    with pytest.raises(CatalogUnavailableError, match=r"quota .* is exceeded"):
        commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert _names(catalog.io, table.location) == {"v1.metadata.json", "version-hint.text"}


def test_what_a_killed_writer_had_open_is_in_nobodys_way_and_an_orphan(pair: HdfsPair, catalog: FileSystemCatalog) -> None:
    """Its lease has no meaning for others, because each writer has a temporary name of its own."""
    location = f"{catalog.load_table(IDENTIFIER).location}/data/f.parquet"
    program = (
        "import sys, time\nfrom iceberg_ops.io.load import load_file_io\n"
        "output = load_file_io(eval(sys.argv[1])).open_output(sys.argv[2])\n"
        "output.write(bytes(9 << 20))\nprint('open', flush=True)\ntime.sleep(600)"
    )
    command = [sys.executable, "-c", program, repr(dict(pair.properties)), location]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        writer.kill()
    (left,) = _names(catalog.io, str(Path(location).parent).replace("hdfs:/", "hdfs://", 1))
    assert left.startswith(".iceberg-ops-")
    catalog.io.write(location, b"rows")
    commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(location),)))
    options = {"older-than": "0s", "unsafe-allow-recent": "true"}
    job = JobSpec(job="remove_orphan_files", table="fs.ns.t", catalog=CatalogConfig(name="fs", type="filesystem"), options=options)
    assert run_job(job, catalog=catalog).status == "committed"
    assert _names(catalog.io, location.rpartition("/")[0]) == {"f.parquet"}


def test_a_hint_that_a_dead_writer_of_another_engine_left_open_stops_nobody(pair: HdfsPair, catalog: FileSystemCatalog) -> None:
    settings = {name.removeprefix("hadoop."): value for name, value in pair.properties.items()}
    hint = f"{catalog.load_table(IDENTIFIER).location}/metadata/version-hint.text"
    other = hdfs_native.Client(pair.uri, settings)
    writer = other.create(_path(hint), hdfs_native.WriteOptions(overwrite=True))
    writer.write(b"1")
    commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file("a"),)))
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
    assert catalog.io.read(hint) == b"2"
