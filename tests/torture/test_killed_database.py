"""Four writers and a maintenance process on a catalog whose server (PostgreSQL, Hive, REST, Nessie, HDFS, S3) is killed.

Each writer tries every operation under its run key until it is acknowledged, as a scheduler repeats a task. Afterwards each
acknowledged row is there exactly once, each deleted one is gone, and the snapshots ever made are as many as the run keys that the
table remembers: those of its snapshots, and of its ledger. Eight seconds here, sixty by ``make torture``.

Not killed: Glue, because moto keeps everything in memory, and has nothing after a restart; Nessie's Iceberg REST endpoint, because
it forgets a run key with the next commit to the table, so what is repeated after that is done twice (docs/catalogs.md).
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.hive.metastore import Metastore
from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Nessie
from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop import committer
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.ledger import entries_whose_name, names_publication
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.commit.protocol.run_keys import snapshot_run_identity
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import (
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    CorruptTableError,
    IncompleteError,
    ValidationError,
)
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.table.metadata_files import read_metadata
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake
from tests.builders import data_file, make_catalog, make_table
from tests.catalog.wrappers import FailsNTimes, IsDown, LosesTheAnswer
from tests.servers.hdfs import Hdfs
from tests.servers.hive_metastore import HiveMetastore, LaterHiveMetastore
from tests.servers.nessie.server import NessieServer
from tests.servers.postgresql import PostgreSQL
from tests.servers.rest.reference import ReferenceServer
from tests.servers.stores import Versitygw
from tests.torture.killed_operations import now_ms, write_rows
from tests.torture.test_eight_processes import Log, acknowledged, find
from tests.torture.test_kill_nine import leaked

SECONDS = 60 if "ICEBERG_OPS_TORTURE" in os.environ else 8


def nessie(folder: Path) -> NessieServer:
    """It keeps its commits in files, so that it has them after a kill."""
    rocks = {"nessie.version.store.type": "ROCKSDB", "nessie.version.store.persist.rocks.database-path": f"{folder}/rocks"}
    return NessieServer(folder, commits=rocks)


class HiveWithLocks(HiveMetastore):
    """A lock of a killed metastore stays for ten seconds, and all writers wait for it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, lock_s=10)


class Hive4(LaterHiveMetastore):
    """With a database of its own, which is not killed."""

    def __init__(self, folder: Path) -> None:
        self._database = PostgreSQL()
        try:
            super().__init__(folder, self._database, "4.0.1")
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        super().close()
        self._database.close()


Killable = PostgreSQL | HiveMetastore | ReferenceServer | NessieServer | Hdfs | Versitygw
SERVERS: dict[str, Callable[[Path], Killable]] = {
    "postgresql": lambda _: PostgreSQL(),
    "hive": HiveMetastore,
    "hive with locks": HiveWithLocks,
    "hive 4": Hive4,
    "rest": ReferenceServer,
    "nessie": nessie,
    "hdfs": Hdfs,
    "s3": Versitygw,
}
CASES = [
    ("postgresql", 2),
    ("postgresql", 3),
    ("hive", 2),
    pytest.param("nessie", 2, marks=pytest.mark.oracle),
    pytest.param("rest", 2, marks=pytest.mark.oracle),
    *(pytest.param(kind, 2, marks=pytest.mark.oracle) for kind in ("hdfs", "hive with locks", "hive 4", "s3") if SECONDS == 60),
]
"""Only ``make torture`` kills the last four: HDFS takes most of a minute to restart, and writers wait for locks of the killed."""
WRITERS = 4
FEWEST = {"postgresql": 25, "hive": 10, "hive with locks": 6, "hive 4": 10, "hdfs": 10, "nessie": 10, "rest": 6, "s3": 10}
"""Operations of each writer, however slow the machine is."""
PATIENCE = 300
"""Seconds within which an attempt must get an answer."""
BETWEEN_KILLS = {"postgresql": 1.5, "s3": 3.0, "nessie": 3.0, "rest": 3.0, "hive with locks": 20.0}
"""Seconds (others: 6); about how long a writer needs for ten commits, once it gets the lock that a killed metastore has kept."""
MOST_KILLS = {
    "postgresql": 1_000,
    "hive": 3 if SECONDS < 60 else 20,
    "nessie": 1 if SECONDS < 60 else 10,
    "rest": 1 if SECONDS < 60 else 10,
}
"""Others: 10. A metastore, Nessie and a name node take much longer to start than to be killed."""
STORE = "store.json"
"""A file with a catalog's properties: its warehouse and how to reach it."""
LOCKS = "locks"
"""A file: commits take the locks of the metastore."""
IMPATIENT = {"s3.retry.num-retries": "2", "s3.retry.min-wait-ms": "5", "s3.retry.max-wait-ms": "50"}
"""Else the store's client waits until the server is there again, and no writer meets a killed one."""
KILLED_ONCE = "killed"
"""A file: the server was killed and started again. No writer ends before, however fast it is."""


def open_lake(uri: str, folder: str) -> Lake:
    """The tables are in the store of the folder's file ``STORE``, default the folder itself. The metastore's locks are not used, if
    the folder has no file ``LOCKS``: a lock of a killed metastore stays for five minutes, and all writers wait for it."""
    if uri.startswith("thrift:"):
        locks = (Path(folder) / LOCKS).exists()
        return Lake(HiveCatalog("lake", Metastore("lake", uri), LocalFileIO(), warehouse=f"{folder}/wh", locks=locks))
    if uri.startswith("s3:"):
        return Lake(FileSystemCatalog("lake", load_file_io(json.loads((Path(folder) / STORE).read_text())), warehouse=f"{uri}/wh"))
    if uri.startswith("hdfs:"):
        return Lake(FileSystemCatalog("lake", load_file_io(), warehouse=f"{uri}/wh"))
    if uri.startswith("http:"):
        if "/api/v2" not in uri:
            return Lake(RestCatalog("lake", {"uri": uri}))
        return Lake(NessieCatalog("lake", Nessie("lake", {"uri": uri}), LocalFileIO(), warehouse=f"{folder}/wh"))
    told = Path(folder) / STORE
    properties = json.loads(told.read_text()) if told.exists() else {"warehouse": f"{folder}/wh"}
    return Lake(SqlCatalog("lake", uri, load_file_io(properties), warehouse=properties["warehouse"]))


def place_of(server: Killable, folder: Path) -> str:
    """The URI of a catalog without tables, by which ``open_lake`` knows its kind; what else it needs is written into the folder."""
    if isinstance(server, PostgreSQL):
        return server.database()
    if isinstance(server, Versitygw):
        (folder / STORE).write_text(json.dumps({**server.store.properties, **IMPATIENT}))
        return server.store.root
    if isinstance(server, HiveWithLocks):
        (folder / LOCKS).touch()
    return server.uri("lake") if isinstance(server, ReferenceServer) else server.uri


def until_answered(log: Log, do: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``do``, which is retried while the server is down, and after an unknown outcome."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return do(*arguments)
        except (CatalogUnavailableError, CommitStateUnknownError) as e:
            log(type(e).__name__, 0)
            time.sleep(0.1)
    raise AssertionError(f"no answer in {PATIENCE} s")


class AsTrouble(logging.Handler):
    """Records as trouble what the committer logs while it handles a killed server itself: it checks the outcome of a commit again,
    and retries for half an hour a commit that certainly failed."""

    def __init__(self, trouble: Log) -> None:
        super().__init__(logging.INFO)
        self.trouble = trouble

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        if record.getMessage().startswith("status check"):
            self.trouble("status check", 0)
        elif any(isinstance(one, CatalogUnavailableError) for one in arguments):
            self.trouble("tried again", 0)


def tell_of_trouble(trouble: Log) -> None:
    """From now on, in this process."""
    logger = logging.getLogger(committer.__name__)
    logger.setLevel(logging.INFO)
    logger.addHandler(AsTrouble(trouble))


def commit_now(lake: Lake, operation: Operation) -> None:
    commit(lake.catalog, lake.table, operation)


def write(uri: str, folder: str, worker: int, fewest: int) -> None:
    """Append rows, and delete or update rows of its own, each under a run key of its own."""
    log, trouble = Log(Path(folder) / f"w{worker}.log"), Log(Path(folder) / f"trouble{worker}.log")
    tell_of_trouble(trouble)
    lake = until_answered(trouble, open_lake, uri, folder)
    rng, number, mine, until = random.Random(worker), 0, set[int](), time.monotonic() + SECONDS
    killed_once = Path(folder) / KILLED_ONCE
    while time.monotonic() < until or number < fewest or not killed_once.exists():
        number += 1
        name, row = f"{worker}-{number}", worker * 1_000_000 + number
        if not mine or rng.random() < 0.6:
            added = until_answered(trouble, write_rows, lake, [(row, name, "a")], f"append-{name}")
            until_answered(trouble, commit_now, lake, AppendFiles(added=added, run_key=name))
            mine.add(row)
            log("has", row, name)
            continue
        row = rng.choice(sorted(mine))
        text = "" if rng.random() < 0.5 else name
        if until_answered(trouble, change, lake, row, text, name, trouble):
            log("has" if text else "gone", row, text)
            if not text:
                mine.remove(row)


def change(lake: Lake, row: int, text: str, name: str, trouble: Log) -> bool:
    """Delete a row, and with ``text`` write it again; False if a compaction came first."""
    table, found = find(lake, row)
    if found is None:
        return True  # An earlier attempt without an answer deleted it.
    attempt = f"{name}-{now_ms()}"
    deletes = write_row_deletes(table.io, WriteContext.for_table(table.metadata), [found], operation_id=attempt)
    added = write_rows(lake, [(row, text, "a")], attempt) if text else ()
    operation = RowDelta(
        added_deletes=deletes.added,
        removed_deletes=deletes.replaced,
        added_data=added,
        referenced_data_files=(found[0].file_path,),
        isolation="snapshot",
        starting_snapshot_id=table.metadata.current_snapshot_id,
        run_key=name,
    )
    try:
        until_answered(trouble, commit_now, lake, operation)
    except (ValidationError, CommitFailedError):
        return False
    return True


def maintain(uri: str, folder: str, worker: int) -> None:
    """Compact, expire and remove orphans, one after the other."""
    log = Log(Path(folder) / "maintenance.log")
    lake = until_answered(log, open_lake, uri, folder)
    until, turns = time.monotonic() + SECONDS, 0
    actions: tuple[tuple[str, dict[str, Any]], ...] = (
        ("rewrite_data_files", {"min_input_files": 2}),
        ("expire_snapshots", {"older_than": "30s", "retain_last": 20}),
        ("remove_orphan_files", {"older_than": "30s", "unsafe_allow_recent": True}),
    )
    while time.monotonic() < until or turns < len(actions):
        action, options = actions[turns % len(actions)]
        turns += 1
        try:
            log(action, 0, lake.run(action, now=now_ms, run_key=f"{action}-{turns}", **options).status)
        except (CatalogUnavailableError, CommitStateUnknownError, CommitFailedError, IncompleteError, ValidationError) as e:
            log(action, 0, type(e).__name__)


def wait_for_all(writers: Sequence[BaseProcess], folder: Path) -> None:
    """Wait until each writer has committed something, or one of them has ended: killing the server earlier would affect nobody."""
    logs = [folder / f"w{i}.log" for i in range(len(writers))]
    while not all(log.exists() and log.stat().st_size for log in logs):
        if not all(writer.is_alive() for writer in writers):
            return
        time.sleep(0.05)


def wait_for_trouble(writers: Sequence[BaseProcess], folder: Path) -> None:
    """Wait until a writer has failed because of the killed server, or all of them have ended: a catalog that retries does not
    notice a fast restart."""
    until = time.monotonic() + PATIENCE
    while any(writer.is_alive() for writer in writers) and not any(log.stat().st_size for log in folder.glob("trouble*.log")):
        if time.monotonic() > until:
            return
        time.sleep(0.05)


def killed_under_work(
    server: Killable, uri: str, folder: Path, *, fewest: int, between: float, most: int
) -> tuple[int, Counter[str]]:
    """Writers (of at least ``fewest`` operations) and maintenance work while the server is killed every ``between`` seconds.
    Returns how often it was killed (at most ``most`` times), and the errors of the writers."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write, args=(uri, str(folder), i, fewest)) for i in range(WRITERS)]
    workers.append(context.Process(target=maintain, args=(uri, str(folder), WRITERS)))
    for worker in workers:
        worker.start()
    kills = 0
    try:
        wait_for_all(workers[:WRITERS], folder)
        while any(worker.is_alive() for worker in workers):
            time.sleep(between)
            if kills < most and any(worker.is_alive() for worker in workers[:WRITERS]):
                server.kill()
                if not kills:
                    wait_for_trouble(workers[:WRITERS], folder)
                server.start()
                kills += 1
                (folder / KILLED_ONCE).touch()
    finally:
        for worker in workers:
            worker.terminate()  # Where the server does not start again, they would wait for it.
    assert [worker.exitcode for worker in workers] == [0] * len(workers)
    return kills, Counter(line.split('"')[1] for p in folder.glob("trouble*.log") for line in p.read_text().splitlines())


def run_keys(table: Table) -> Counter[str]:
    """How often the table remembers each run: in its snapshots, and those that have expired in its ledger."""
    found = Counter(run.ledger_name for snapshot in table.metadata.snapshots if (run := snapshot_run_identity(snapshot)))
    expired = entries_whose_name(table, lambda name: not names_publication(name))
    return found + Counter(name for name, text in expired.items() if not text.startswith("@"))


def check_snapshots(table: Table, folder: Path) -> None:
    """No run was committed twice, and none that was acknowledged is forgotten: a snapshot has a number and a run key of its own."""
    found = run_keys(table)
    assert [name for name, count in found.items() if count > 1] == []
    assert table.metadata.last_sequence_number == len(found)
    keys = {json.loads(line)[2] for log in folder.glob("w*.log") for line in log.read_text().splitlines()} - {""}
    assert keys - {name.rpartition(":")[2] for name in found} == set()


def check_former_states(server: NessieServer, lake: Lake) -> None:
    """Every state of the table that Nessie keeps is there with all its files, and each is one commit."""
    places = [
        operation["content"]["metadataLocation"]
        for entry in server.history("main")
        for operation in entry["operations"]
        if operation["type"] == "PUT" and operation["content"]["type"] == "ICEBERG_TABLE"
    ]
    assert len(places) == len(set(places)) > 2
    for place in places:
        table = Table(lake.table.identifier, read_metadata(lake.catalog.io, place), place, lake.catalog.io)
        assert [file for file in reachable_files(table) if not lake.catalog.io.exists(file)] == []


def is_cut_off_metadata(io: FileIO, file: str) -> bool:
    """A metadata file that a REST server wrote when it was killed. Orphan removal keeps a metadata file that does not parse, since
    its table is not known."""
    if not file.endswith(".metadata.json"):
        return False
    try:
        read_metadata(io, file)
    except CorruptTableError:
        return True
    return False


def test_a_whole_metadata_file_is_not_taken_for_a_cut_off_one() -> None:
    """Else the test would not notice a metadata file that a writer leaves."""
    table = make_table(make_catalog())
    whole = table.metadata_location
    cut_off = whole.replace("00000-", "00001-")
    table.io.write(cut_off, table.io.read(whole)[:100])
    files = (whole, cut_off, f"{table.location}/data/a.parquet")
    assert [is_cut_off_metadata(table.io, file) for file in files] == [False, True, False]


OVERCOME: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "no commit was possible": (lambda catalog: FailsNTimes(catalog, 1, CatalogUnavailableError), ["tried again"]),
    "no look was possible": (lambda catalog: IsDown(LosesTheAnswer(catalog), 1), ["status check"]),
    "a conflict": (lambda catalog: FailsNTimes(catalog, 1, CommitFailedError), []),
}
"""A misbehaving catalog, and its line in the log."""


@pytest.fixture
def log_as_before() -> Iterator[None]:
    """The committer's logger has its level and handlers back afterwards."""
    logger = logging.getLogger(committer.__name__)
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


@pytest.mark.usefixtures("log_as_before")
@pytest.mark.parametrize("case", OVERCOME)
def test_what_the_committer_overcomes_alone_is_trouble_and_a_conflict_is_none(case: str, tmp_path: Path) -> None:
    """Otherwise a server would not be restarted while all writers retry for half an hour."""
    tell_of_trouble(Log(tmp_path / "trouble.log"))
    catalog, (misbehaving, told) = make_catalog(), OVERCOME[case]
    table = make_table(catalog)
    append = AppendFiles(added=(data_file("a"),))
    commit(misbehaving(catalog), table, append, sleep=lambda _: None, just_loaded=True)
    assert [json.loads(line)[0] for line in (tmp_path / "trouble.log").read_text().splitlines()] == told


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), CASES)
def test_all_that_was_acknowledged_is_there_once_though_the_server_was_killed(kind: str, version: int, tmp_path: Path) -> None:
    server = SERVERS[kind](tmp_path)
    try:
        uri, folder = place_of(server, tmp_path), str(tmp_path)
        lake = open_lake(uri, folder)
        lake.catalog.create_namespace(("ns",))
        make_table(lake.catalog, version=version, properties={"commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "200"})
        kills, trouble = killed_under_work(
            server, uri, tmp_path, fewest=FEWEST[kind], between=BETWEEN_KILLS.get(kind, 6.0), most=MOST_KILLS.get(kind, 10)
        )
        rows, acknowledgements = acknowledged(tmp_path)
        print(f"\n{kind}, v{version}: {kills} kills, {acknowledgements} acknowledgements, {len(rows)} rows, {dict(trouble)}")
        assert kills
        assert trouble, "no writer met a killed server"
        assert sorted((row, text) for row, text, _ in lake.rows()) == sorted(rows.items())
        check_snapshots(lake.table, tmp_path)
        if isinstance(server, NessieServer):
            check_former_states(server, lake)
        else:
            left = [file for file in leaked(lake) if not file.endswith(".crc")]  # Hadoop writes these beside its files.
            if isinstance(server, ReferenceServer):
                left = [file for file in left if not is_cut_off_metadata(lake.catalog.io, file)]
            assert left == []
            check_snapshots(lake.table, tmp_path)
        assert sorted((row, text) for row, text, _ in lake.rows()) == sorted(rows.items())
    finally:
        server.close()
