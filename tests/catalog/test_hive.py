"""The catalog on a Hive Metastore: locks, lost answers, and a metastore that does not compare expected parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pymetastore.hive_metastore.ttypes import (
    HeartbeatRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)

from iceberg_ops.catalog.hive import hive_lock
from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.hive.metastore import Metastore, NoSuchLock
from iceberg_ops.catalog.hive_types import hive_type
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import (
    BadInputError,
    CatalogUnavailableError,
    CommitStateUnknownError,
    IcebergOpsError,
    OptionError,
    TerminalError,
)
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.types import STRING, DecimalType, NestedField, StructType, list_of
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.every_catalog import hive
from tests.servers.hive_metastore import HiveMetastore


@dataclass(slots=True)
class Watched(Metastore):
    """A metastore whose named calls go wrong: ``spoilt`` maps a call's name to what is done in place of it."""

    spoilt: dict[str, Callable[..., Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def call(self, do: Callable[[Any], Any]) -> Any:
        return Metastore.call(self, lambda client: do(_Client(client, self)))


class _Client:
    def __init__(self, client: Any, watched: Watched) -> None:
        self._client, self._watched = client, watched

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def called(*arguments: Any) -> Any:
            self._watched.calls.append(name)
            spoilt = self._watched.spoilt.get(name)
            return method(*arguments) if spoilt is None else spoilt(method, *arguments)

        return called


class Once:
    """The first call happens, or does not, and is not answered."""

    def __init__(self, *, happens: bool) -> None:
        self.happens, self.left = happens, 1

    def __call__(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if not self.left:
            return method(*arguments)
        self.left -= 1
        if self.happens:
            method(*arguments)
        raise ConnectionResetError("injected")


@pytest.fixture(params=[True, False], ids=["with locks", "without locks"])
def catalog(request: pytest.FixtureRequest, hive_metastore: HiveMetastore, tmp_path: Path) -> HiveCatalog:
    made: HiveCatalog = hive(hive_metastore, tmp_path, locks=request.param)
    made._metastore = Watched("hms", hive_metastore.uri)
    return made


def watched(catalog: HiveCatalog) -> Watched:
    assert isinstance(catalog._metastore, Watched)
    return catalog._metastore


def locks_of(catalog: HiveCatalog) -> list[Any]:
    return list(watched(catalog).call(lambda c: c.show_locks(ShowLocksRequest(dbname="ns", tablename="t"))).locks or ())


@pytest.mark.parametrize("happens", [True, False], ids=["that happened", "that did not"])
def test_a_commit_without_an_answer_is_made_once(catalog: HiveCatalog, happens: bool) -> None:
    table = make_table(catalog)
    watched(catalog).spoilt["alter_table_with_environment_context"] = Once(happens=happens)
    commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a"}
    assert len(now.metadata.snapshots) == 1
    assert locks_of(catalog) == []


@pytest.mark.parametrize("happens", [True, False], ids=["that happened", "that did not"])
def test_a_creation_without_an_answer_is_found_or_unknown(catalog: HiveCatalog, happens: bool) -> None:
    watched(catalog).spoilt["create_table_with_environment_context"] = Once(happens=happens)
    if happens:
        assert make_table(catalog).metadata == catalog.load_table(IDENTIFIER).metadata
        return
    with pytest.raises(CommitStateUnknownError, match=r"creating table ns\.t"):
        make_table(catalog)


def test_a_commit_that_another_one_overtakes_is_refused_by_the_metastore(catalog: HiveCatalog) -> None:
    """The record is read, then another writer moves the table: the expected value is compared in the change itself."""
    table = make_table(catalog)
    other = HiveCatalog("hms", Metastore("hms", watched(catalog).uri), LocalFileIO(), locks=False)
    overtaken: list[str] = []

    def meanwhile(method: Callable[..., Any], *arguments: Any) -> Any:
        if not overtaken:
            overtaken.append("b")
            commit(other, other.load_table(IDENTIFIER), AppendFiles(added=(data_file("b"),)))
        return method(*arguments)

    watched(catalog).spoilt["alter_table_with_environment_context"] = meanwhile
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "b"}
    assert done.attempts == 2


def test_without_locks_a_metastore_that_compares_nothing_is_refused(hive_metastore: HiveMetastore, tmp_path: Path) -> None:
    """An older one ignores the expected value: two commits could overwrite each other."""
    catalog: HiveCatalog = hive(hive_metastore, tmp_path, locks=False)
    table = make_table(catalog)
    catalog._metastore, catalog._compares = Watched("hms", hive_metastore.uri), None
    watched(catalog).spoilt["alter_table_with_environment_context"] = lambda method, *arguments: None
    with pytest.raises(TerminalError, match=r"does not compare expected parameters \(HIVE-26882\)"):
        commit(catalog, table, UpdateProperties(updates={"a": "1"}), sleep=lambda _: None)
    assert catalog.load_table(IDENTIFIER).metadata_location == table.metadata_location
    assert [i for i in watched(catalog).call(lambda c: c.get_all_tables("ns")) if i != "t"] == [], "the probe is gone"


def test_the_tables_own_property_decides_about_locks(hive_metastore: HiveMetastore, tmp_path: Path) -> None:
    catalog: HiveCatalog = hive(hive_metastore, tmp_path, locks=True)
    catalog._metastore = Watched("hms", hive_metastore.uri)
    table = make_table(catalog, properties={"engine.hive.lock-enabled": "false"})
    commit(catalog, table, UpdateProperties(updates={"a": "1"}))
    assert "lock" not in watched(catalog).calls
    catalog.drop_table(IDENTIFIER)
    assert "lock" not in watched(catalog).calls


def test_a_lock_that_another_writer_holds_is_waited_for_and_given_up(
    hive_metastore: HiveMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog: HiveCatalog = hive(hive_metastore, tmp_path, locks=True)
    table = make_table(catalog)
    component = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname="ns", tablename="t")
    request = LockRequest(component=[component], user="other", hostname="other", agentInfo="other")
    held = catalog._metastore.call(lambda client: client.lock(request)).lockid
    monkeypatch.setattr(hive_lock, "WAIT_S", 0.2)
    with pytest.raises(CatalogUnavailableError, match=r"table ns\.t: its lock in the Hive Metastore was not acquired"):
        catalog.commit_table(table, [], _set(a="1"))
    shown = catalog._metastore.call(lambda client: client.show_locks(ShowLocksRequest(dbname="ns", tablename="t")))
    assert [lock.agentInfo for lock in shown.locks] == ["other"], "the request for a lock was taken back"
    catalog._metastore.call(lambda client: client.unlock(UnlockRequest(lockid=held)))
    assert catalog.commit_table(table, [], _set(a="1")).properties["a"] == "1"


def test_a_lock_that_the_metastore_took_away_stops_the_commit(hive_metastore: HiveMetastore, tmp_path: Path) -> None:
    catalog: HiveCatalog = hive(hive_metastore, tmp_path, locks=True)
    table = make_table(catalog)
    catalog._metastore = Watched("hms", hive_metastore.uri)

    def taken_away(method: Callable[..., Any], *arguments: Any) -> Any:
        found = method(*arguments)
        catalog._metastore.call(lambda client: client.unlock(UnlockRequest(lockid=found.lockid)))
        return found

    watched(catalog).spoilt["lock"] = taken_away
    with pytest.raises(CatalogUnavailableError, match="removed lock"):
        catalog.commit_table(table, [], _set(a="1"))
    assert catalog.load_table(IDENTIFIER).metadata_location == table.metadata_location
    files = [i.location for i in catalog.io.list_prefix(table.location) if i.location.endswith("metadata.json")]
    assert len(files) == 1, "the metadata of the commit that was not made is gone"


def test_the_metastore_removes_the_lock_of_a_killed_writer(tmp_path: Path) -> None:
    """A lock without a heartbeat, by a metastore that waits four seconds for one: the next writer waits, and then commits."""
    server = HiveMetastore(tmp_path, lock_s=4)
    try:
        catalog = HiveCatalog("hms", Metastore("hms", server.uri), LocalFileIO(), warehouse=str(tmp_path / "warehouse"))
        catalog.create_namespace(("ns",))
        table = make_table(catalog)
        component = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname="ns", tablename="t")
        request = LockRequest(component=[component], user="killed", hostname="killed", agentInfo="killed")
        held = catalog._metastore.call(lambda client: client.lock(request)).lockid
        commit(catalog, table, AppendFiles(added=(data_file("a"),)))
        assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
        with pytest.raises(NoSuchLock):
            catalog._metastore.call(lambda client: client.heartbeat(HeartbeatRequest(lockid=held)))
    finally:
        server.close()


def test_the_lock_stays_after_a_change_of_unknown_outcome(hive_metastore: HiveMetastore, tmp_path: Path) -> None:
    """The change may still arrive: the next writer would read the record before it."""
    catalog: HiveCatalog = hive(hive_metastore, tmp_path, locks=True)
    table = make_table(catalog)
    catalog._metastore = Watched("hms", hive_metastore.uri)

    def no_answer(method: Callable[..., Any], *arguments: Any) -> Any:
        raise ConnectionResetError("injected")

    watched(catalog).spoilt["alter_table_with_environment_context"] = no_answer
    with pytest.raises(CommitStateUnknownError):
        catalog.commit_table(table, [], _set(a="1"))
    (lock,) = locks_of(catalog)
    catalog._metastore.call(lambda client: client.unlock(UnlockRequest(lockid=lock.lockid)))


def test_a_metastore_that_is_not_there_is_unavailable() -> None:
    catalog = HiveCatalog("hms", Metastore("hms", "thrift://127.0.0.1:1,thrift://127.0.0.1:2"), LocalFileIO(), warehouse="/wh")
    with pytest.raises(CatalogUnavailableError, match=r"no connection to its Hive Metastore \(127\.0\.0\.1:1: .*127\.0\.0\.1:2: "):
        catalog.load_table(IDENTIFIER)


@pytest.mark.parametrize("uri", ["http://h:1", "thrift://", "h:9083", "thrift://h:port"])
def test_a_uri_that_is_none_of_a_metastore_is_refused(uri: str) -> None:
    config = CatalogConfig(name="hms", type="hive", properties={"uri": uri, "warehouse": "/wh"})
    with pytest.raises(OptionError, match=r"thrift://host:port|needs the property uri"):
        load_catalog(config)


def test_kerberos_is_refused_by_name() -> None:
    properties = {"uri": "thrift://h:1", "hive.kerberos-authentication": "true"}
    with pytest.raises(OptionError, match=r"hive\.kerberos-authentication is not supported"):
        load_catalog(CatalogConfig(name="hms", type="hive", properties=properties))


def test_names_with_capital_letters_are_refused_and_not_found(catalog: HiveCatalog) -> None:
    make_table(catalog)
    assert not catalog.table_exists(("ns", "T"))
    for identifier in (("ns", "U"), ("NS", "u")):
        with pytest.raises(BadInputError, match="keeps names in lower case: use"):
            make_table(catalog, identifier=identifier)
    with pytest.raises(BadInputError, match="keeps names in lower case"):
        catalog.create_namespace(("New",))


@pytest.mark.parametrize("name", ["a b", "a-b", "a.b", "ü"])
def test_names_that_hive_does_not_take_are_refused_without_a_trace(catalog: HiveCatalog, name: str) -> None:
    with pytest.raises(IcebergOpsError) as refused:
        make_table(catalog, identifier=("ns", name))
    assert not isinstance(refused.value, CommitStateUnknownError)
    assert catalog.list_tables(("ns",)) == []


def test_types_have_their_names_in_hive() -> None:
    struct = StructType((NestedField(1, "a", DecimalType(9, 2)), NestedField(2, "b", list_of(3, STRING))))
    assert hive_type(struct) == "struct<a:decimal(9,2),b:array<string>>"


def _set(**properties: str) -> list[SetProperties]:
    return [SetProperties(properties)]
