"""The common behaviour of every catalog. The committer's part also runs on misbehaving ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.glue.glue_catalog import GlueCatalog
from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    GcDisabledError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OptionError,
    UnsupportedError,
)
from iceberg_ops.spec.requirements import AssertRefSnapshotId, AssertTableUUID
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.every_catalog import file_system, glue, hive, keeps_one_snapshot, memory, nessie, postgresql, rest, sql
from tests.catalog.wrappers import FailsNTimes, IsDown, IsSlow, LosesTheAnswer, ReadsStale
from tests.servers.hive_metastore import HiveMetastore
from tests.servers.nessie.server import NessieServer
from tests.servers.postgresql import PostgreSQL
from tests.servers.rest.reference import ReferenceServer


def test_a_created_table_is_found_listed_and_loaded_as_it_was_made(catalog: Any) -> None:
    made = make_table(catalog, partitioned=True)
    loaded = catalog.load_table(IDENTIFIER)
    assert loaded.metadata == made.metadata
    assert loaded.identifier == (catalog.name, "ns", "t")
    assert catalog.table_exists(IDENTIFIER)
    assert catalog.list_tables(("ns",)) == [IDENTIFIER]
    assert [n for n in catalog.list_namespaces() if n != ("default",)] == [("ns",)]


def test_a_name_can_be_taken_once_and_only_in_a_namespace_that_exists(catalog: Any) -> None:
    make_table(catalog)
    with pytest.raises(AlreadyExistsError, match=r"ns\.t already exists"):
        make_table(catalog)
    with pytest.raises(NoSuchNamespaceError, match="nowhere"):
        make_table(catalog, identifier=("nowhere", "t"))
    with pytest.raises(BadInputError, match=r"must be namespace\.name"):
        make_table(catalog, identifier=("t",))


def test_what_is_not_there_is_refused_by_name(catalog: Any) -> None:
    assert not catalog.table_exists(("ns", "no"))
    with pytest.raises(NoSuchTableError, match=r"ns\.no"):
        catalog.load_table(("ns", "no"))
    with pytest.raises(NoSuchTableError, match=r"ns\.no"):
        catalog.drop_table(("ns", "no"), purge=True)
    if keeps_one_snapshot(catalog):
        assert catalog.list_tables(("nowhere",)) == [], "Nessie's endpoint lists no tables of any name"
    else:
        with pytest.raises(NoSuchNamespaceError, match="nowhere"):
            catalog.list_tables(("nowhere",))
    with pytest.raises(NoSuchNamespaceError, match="nowhere"):
        catalog.drop_namespace(("nowhere",))


def test_namespaces_are_made_once_nested_and_dropped_when_empty(catalog: Any) -> None:
    if isinstance(catalog, HiveCatalog | GlueCatalog):
        with pytest.raises(BadInputError, match="one level of namespaces"):
            catalog.create_namespace(("a", "b"))
        return
    if keeps_one_snapshot(catalog):
        with pytest.raises(NoSuchNamespaceError, match="Namespace does not exist: a"):
            catalog.create_namespace(("a", "b"))
        catalog.create_namespace(("a",))
    catalog.create_namespace(("a", "b"))
    assert catalog.list_namespaces() == [("a",), ("ns",)]
    assert catalog.list_namespaces(("a",)) == [("a", "b")]
    with pytest.raises(AlreadyExistsError, match=r"a\.b"):
        catalog.create_namespace(("a", "b"))
    with pytest.raises(BadInputError, match=r"a is not empty: it holds a\.b"):
        catalog.drop_namespace(("a",))
    catalog.drop_namespace(("a", "b"))
    assert catalog.list_namespaces(("a",)) == []


def test_a_commit_applies_updates_to_what_is_current_and_returns_it(catalog: Any) -> None:
    stale = make_table(catalog)
    catalog.commit_table(stale, [], [SetProperties({"a": "1"})])
    both = catalog.commit_table(stale, [AssertTableUUID(stale.metadata.table_uuid)], [SetProperties({"b": "2"})])
    assert (both.properties["a"], both.properties["b"]) == ("1", "2")
    assert catalog.load_table(IDENTIFIER).metadata == both.metadata


def test_a_commit_whose_requirement_fails_changes_nothing(catalog: Any) -> None:
    table = make_table(catalog)
    with pytest.raises(CommitFailedError, match="table uuid has changed"):
        catalog.commit_table(table, [AssertTableUUID("00000000-0000-0000-0000-000000000000")], [SetProperties({"a": "1"})])
    with pytest.raises(CommitFailedError, match="ref main has changed"):
        catalog.commit_table(table, [AssertRefSnapshotId("main", 7)], [SetProperties({"a": "1"})])
    assert catalog.load_table(IDENTIFIER).metadata_location == table.metadata_location


def test_updates_that_change_nothing_write_nothing(catalog: Any) -> None:
    table = make_table(catalog, properties={"a": "1"})
    assert catalog.commit_table(table, [], [SetProperties({"a": "1"})]).metadata_location == table.metadata_location


def test_a_snapshot_staged_on_an_older_state_is_refused(catalog: Any) -> None:
    table = make_table(catalog)
    operation = AppendFiles(added=(data_file("a"),), branch="other")
    staged = operation.stage(operation.prepare(table), table)
    commit(catalog, table, AppendFiles(added=(data_file("b"),)))
    refusal, why = (UnsupportedError, "one snapshot") if keeps_one_snapshot(catalog) else (CommitFailedError, "sequence number 1")
    with pytest.raises(refusal, match=why):
        catalog.commit_table(table, staged.requirements, staged.updates)


def test_a_dropped_and_purged_table_leaves_no_file(catalog: Any) -> None:
    table = make_table(catalog)
    path = f"{table.location}/data/a.parquet"
    catalog.io.write(path, b"rows")
    commit(catalog, table, AppendFiles(added=(data_file(path),)))
    if isinstance(catalog, NessieCatalog) or keeps_one_snapshot(catalog):
        with pytest.raises(GcDisabledError, match=r"nessie-gc|gc\.enabled is false"):
            catalog.drop_table(IDENTIFIER, purge=True)
        assert catalog.io.exists(path)
        return
    catalog.drop_table(IDENTIFIER, purge=True)
    assert not catalog.table_exists(IDENTIFIER)
    left = [i.location for i in catalog.io.list_prefix(table.location)]
    assert [location for location in left if not location.endswith(".crc")] == [], "but for what Hadoop's file system writes beside"


def test_metadata_files_that_fall_off_the_log_go_where_the_table_asks_for_it(catalog: Any) -> None:
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    if isinstance(catalog, NessieCatalog):
        with pytest.raises(UnsupportedError, match="other branches, tags and former commits of Nessie may need the files"):
            make_table(catalog, properties=properties)
        return
    table = make_table(catalog, properties=properties)
    for i in range(6):
        table = commit(catalog, table, UpdateProperties(updates={"n": str(i)})).table
    kept = [i.location for i in catalog.io.list_prefix(table.location) if i.location.endswith("metadata.json")]
    assert len(kept) == (7 if keeps_one_snapshot(catalog) else 3), "Nessie leaves them to its own collector"
    assert catalog.load_table(IDENTIFIER).properties["n"] == "5"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_appends_of_two_writers_with_stale_tables_are_both_there(catalog: Any, version: int) -> None:
    stale = make_table(catalog, version=version)
    for path in ("a", "b", "c"):
        commit(catalog, stale, AppendFiles(added=(data_file(path),)), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "b", "c"}


MISBEHAVING: dict[str, Callable[[Any], Any]] = {
    "fails three times": lambda c: FailsNTimes(c, 3),
    "is unavailable three times": lambda c: FailsNTimes(c, 3, CatalogUnavailableError),
    "loses the answer": LosesTheAnswer,
    "reads stale": ReadsStale,
    "is down for a while": lambda c: IsDown(c, 3),
}


@pytest.mark.parametrize("how", MISBEHAVING)
def test_every_commit_happens_exactly_once_on_a_catalog_that(catalog: Any, how: str) -> None:
    table = make_table(catalog)
    wrapped = MISBEHAVING[how](catalog)
    for path in ("a", "b", "c"):
        done = commit(wrapped, table, AppendFiles(added=(data_file(path),)), sleep=lambda _: None)
        assert done.snapshot is not None
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a", "b", "c"}
    assert len(now.metadata.snapshots) == (1 if keeps_one_snapshot(catalog) else 3)
    assert _left_over(catalog, now) == []


def test_a_slow_catalog_loses_nobodys_commit(catalog: Any) -> None:
    """Others commit while each call is under way: the slow one is refused and tries again, and everybody's work is there."""
    table = make_table(catalog)
    fast = (f"fast {n}" for n in range(100))
    made: list[str] = []

    def meanwhile() -> None:
        made.append(next(fast))
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(made[-1]),)), sleep=lambda _: None)

    done = commit(IsSlow(catalog, meanwhile), table, AppendFiles(added=(data_file("slow"),)), sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert done.attempts == 4
    assert live_paths(now) == {"slow", *made}
    assert _left_over(catalog, now) == []


def test_every_version_commits_once_whatever_the_catalog_does(catalog: Any) -> None:
    """The same in v1, v2 and v3, for a metadata change and a transaction too."""
    for version in (1, 2, 3):
        identifier = ("ns", f"t{version}")
        table = make_table(catalog, version=version, identifier=identifier)
        for how, wrap in MISBEHAVING.items():
            wrapped = wrap(catalog)
            both = (AppendFiles(added=(data_file(f"{how} 1"),)), AppendFiles(added=(data_file(f"{how} 2"),), run_key=how))
            commit(wrapped, table, Transaction(operations=both, run_key=how), sleep=lambda _: None)
            commit(wrap(catalog), table, UpdateProperties(updates={"how": how}), sleep=lambda _: None)
            assert catalog.load_table(identifier).properties["how"] == how
        now = catalog.load_table(identifier)
        assert live_paths(now) == {f"{how} {n}" for how in MISBEHAVING for n in (1, 2)}
        assert _left_over(catalog, now) == []


def test_a_commit_without_any_answer_is_unknown_and_nothing_is_deleted(catalog: Any) -> None:
    table = make_table(catalog)
    with pytest.raises(CommitStateUnknownError, match="was committed if snapshot"):
        commit(LosesTheAnswer(catalog, happens=False), table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert len(_unreferenced(catalog, catalog.load_table(IDENTIFIER))) == 2, "the manifest and its list must stay"


def test_a_commit_without_answer_counts_as_failed_once_its_place_is_taken(catalog: Any) -> None:
    table = make_table(catalog)

    class Overtaken(LosesTheAnswer):
        def commit_table(self, *arguments: Any) -> Any:
            if self.left:
                commit(self.inner, table, AppendFiles(added=(data_file("other"),)))
            return super().commit_table(*arguments)

    done = commit(Overtaken(catalog, happens=False), table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert done.attempts == 2
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "other"}
    assert _left_over(catalog, done.table) == []


def _left_over(catalog: Any, table: Any) -> list[str]:
    """Nothing can be said of files where former snapshots are not kept: theirs stay for Nessie's own collector."""
    return [] if keeps_one_snapshot(catalog) else _unreferenced(catalog, table)


def _unreferenced(catalog: Any, table: Any) -> list[str]:
    """Avro files below the table that no snapshot leads to."""
    from iceberg_ops.table.reachable import reachable_files

    known = set(reachable_files(table))
    return [i.location for i in catalog.io.list_prefix(table.location) if i.location.endswith(".avro") and i.location not in known]


def test_catalogs_with_a_pointer_rename_and_register(tmp_path: Path, postgresql_server: PostgreSQL) -> None:
    for catalog in (memory(tmp_path), sql(tmp_path), postgresql(postgresql_server, tmp_path)):
        _renames_and_registers(catalog)


@pytest.mark.oracle
def test_a_rest_catalog_renames_and_registers(rest_server: ReferenceServer) -> None:
    _renames_and_registers(rest(rest_server))


def _renames_and_registers(catalog: Any) -> None:
    table = make_table(catalog)
    assert catalog.rename_table(IDENTIFIER, ("ns", "new")).metadata == table.metadata
    assert catalog.list_tables(("ns",)) == [("ns", "new")]
    catalog.drop_table(("ns", "new"))
    assert catalog.register_table(IDENTIFIER, table.metadata_location).metadata == table.metadata


@pytest.mark.parametrize("locks", [True, False], ids=["with locks", "without locks"])
def test_a_hive_metastore_renames_and_registers(hive_metastore: HiveMetastore, tmp_path: Path, locks: bool) -> None:
    _renames_and_registers(hive(hive_metastore, tmp_path, locks=locks))


@pytest.mark.oracle
def test_nessie_renames_and_registers(nessie_server: NessieServer, tmp_path: Path) -> None:
    _renames_and_registers(nessie(nessie_server, tmp_path))


def test_glue_renames_and_registers(glue_endpoint: str, tmp_path: Path) -> None:
    _renames_and_registers(glue(glue_endpoint, tmp_path))


def test_a_filesystem_table_is_its_folder(tmp_path: Path) -> None:
    catalog = file_system(tmp_path)
    table = make_table(catalog)
    refused = (
        lambda: catalog.rename_table(IDENTIFIER, ("ns", "u")),
        lambda: catalog.register_table(("ns", "u"), table.metadata_location),
        lambda: catalog.drop_table(IDENTIFIER),
        lambda: catalog.create_namespace(("m",), {"a": "1"}),
    )
    for call in refused:
        with pytest.raises(UnsupportedError, match="not supported"):
            call()


def test_a_configured_catalog_is_loaded_by_type_and_refused_by_name(tmp_path: Path) -> None:
    config = CatalogConfig(name="c", type="sql", properties={"uri": f"sqlite:///{tmp_path / 'c.db'}", "warehouse": str(tmp_path)})
    assert isinstance(load_catalog(config), SqlCatalog)
    assert isinstance(load_catalog(CatalogConfig(name="c", type="memory")), MemoryCatalog)
    with pytest.raises(OptionError, match="type 'nope' is not known"):
        load_catalog(CatalogConfig(name="c", type="nope"))
    with pytest.raises(OptionError, match="needs the property warehouse"):
        load_catalog(CatalogConfig(name="c", type="filesystem"))
