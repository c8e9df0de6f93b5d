"""What the Hive Metastore records of tables, and records that others have made."""

from __future__ import annotations

import multiprocessing
import os
import pwd
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pymetastore.hive_metastore.ttypes import EnvironmentContext
from thrift.Thrift import TApplicationException

from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.hive.metastore import Metastore
from iceberg_ops.errors import NoSuchNamespaceError, TerminalError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField, StructType
from iceberg_ops.spec.updates import RemoveProperties, SetProperties
from tests.builders import IDENTIFIER, make_table
from tests.catalog.every_catalog import hive
from tests.catalog.test_hive import Watched, watched
from tests.servers.hive_metastore import HiveMetastore

HANDLER = "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"


@pytest.fixture
def catalog(hive_metastore: HiveMetastore, tmp_path: Path) -> HiveCatalog:
    made: HiveCatalog = hive(hive_metastore, tmp_path, locks=True)
    made._metastore = Watched("hms", hive_metastore.uri)
    return made


def parameters(catalog: HiveCatalog, name: str = "t") -> dict[str, str]:
    found: dict[str, str] = catalog._metastore.call(lambda client: client.get_table("ns", name)).parameters
    return found


def alter(catalog: HiveCatalog, **changed: str) -> None:
    """What another engine does to the record of the table."""
    table = catalog._metastore.call(lambda client: client.get_table("ns", "t"))
    table.parameters |= changed
    context = EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
    catalog._metastore.call(lambda client: client.alter_table_with_environment_context("ns", "t", table, context))


def test_a_table_that_is_not_external_is_not_renamed(catalog: HiveCatalog) -> None:
    """The metastore would move its folder, and no file would be where the metadata says."""
    table = make_table(catalog)
    alter(catalog, EXTERNAL="FALSE")
    with pytest.raises(TerminalError, match="is not external in the Hive Metastore, which would move its files away"):
        catalog.rename_table(IDENTIFIER, ("ns", "u"))
    assert catalog.load_table(IDENTIFIER).metadata == table.metadata
    alter(catalog, EXTERNAL="TRUE")
    assert catalog.rename_table(IDENTIFIER, ("ns", "u")).metadata == table.metadata


def test_a_commit_ends_what_hive_believes_of_its_statistics(catalog: HiveCatalog) -> None:
    """Hive answers queries from them without reading a row (Java removes the parameter as well)."""
    table = make_table(catalog)
    alter(catalog, COLUMN_STATS_ACCURATE='{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}')
    assert "COLUMN_STATS_ACCURATE" in parameters(catalog)
    catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    assert "COLUMN_STATS_ACCURATE" not in parameters(catalog)


def test_a_table_that_another_engine_has_set_up_for_hive_stays_so(catalog: HiveCatalog) -> None:
    table = make_table(catalog)
    alter(catalog, storage_handler=HANDLER)
    table = catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    assert parameters(catalog)["storage_handler"] == HANDLER
    table = catalog.commit_table(table, [], [SetProperties({"engine.hive.enabled": "true"})])
    assert parameters(catalog)["storage_handler"] == HANDLER
    catalog.commit_table(table, [], [RemoveProperties(("engine.hive.enabled",))])
    assert "storage_handler" not in parameters(catalog)


def test_what_is_too_long_for_the_metastore_is_left_out_or_cut(catalog: HiveCatalog) -> None:
    long = {"k" * 300: "v", "k": "v" * 40_000, "short": "v"}
    schema = Schema(StructType((NestedField(1, "id", LONG, doc="d" * 5000),)))
    table = catalog.create_table(IDENTIFIER, schema, properties=long)
    assert table.properties == long
    assert table.schema.fields[0].doc == "d" * 5000
    assert {key for key in parameters(catalog) if key in long} == {"short"}
    (column,) = catalog._metastore.call(lambda client: client.get_table("ns", "t")).sd.cols
    assert column.comment == "d" * 256


def test_columns_that_differ_only_in_case_are_refused(catalog: HiveCatalog) -> None:
    schema = Schema(StructType((NestedField(1, "a", LONG), NestedField(2, "A", STRING))))
    with pytest.raises(TerminalError, match="does not take two columns 'a' that differ only in case"):
        catalog.create_table(IDENTIFIER, schema)
    assert not catalog.table_exists(IDENTIFIER)
    assert [i for i in catalog.io.list_prefix(str(catalog._warehouse)) if i.location.endswith("metadata.json")] == []


def test_names_with_spaces_around_them_are_not_those_without(catalog: HiveCatalog) -> None:
    """The metastore trims names, but not those of locks."""
    make_table(catalog)
    assert catalog.table_exists(IDENTIFIER)
    assert not catalog.table_exists(("ns", "t "))
    assert not catalog.table_exists((" ns", "t"))
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables(("ns ",))


def test_a_namespace_that_goes_while_it_is_listed_is_none(catalog: HiveCatalog) -> None:
    make_table(catalog)

    def dropped(method: Any, *arguments: Any) -> Any:
        catalog._metastore.call(lambda client: client.drop_database("ns", False, True))
        return method(*arguments)

    watched(catalog).spoilt["get_table_objects_by_name_req"] = dropped
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables(("ns",))


@pytest.mark.parametrize("call", ["get_table", "get_table_objects_by_name"])
def test_calls_that_later_metastores_no_longer_have_are_not_made(catalog: HiveCatalog, call: str) -> None:
    """Hive 4.0.1 has only those that take a request."""

    def unknown(*_: Any) -> NoReturn:
        raise TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{call}'")

    watched(catalog).spoilt[call] = unknown
    table = make_table(catalog)
    catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    catalog.rename_table(IDENTIFIER, ("ns", "u"))
    assert catalog.list_tables(("ns",)) == [("ns", "u")]
    catalog.drop_table(("ns", "u"), purge=True)


def test_a_call_that_the_metastore_does_not_know_is_no_unknown_outcome(catalog: HiveCatalog) -> None:
    table = make_table(catalog)

    def unknown(*_: Any) -> NoReturn:
        raise TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'x'")

    watched(catalog).spoilt["alter_table_with_environment_context"] = unknown
    with pytest.raises(TerminalError, match="does not support a call: Invalid method name"):
        catalog.commit_table(table, [], [SetProperties({"a": "1"})])


def test_a_user_without_a_name_makes_tables_and_commits(catalog: HiveCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run under any number."""

    def no_name(uid: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_name)
    catalog.create_namespace(("other",))
    table = make_table(catalog, identifier=("other", "t"))
    assert catalog.commit_table(table, [], [SetProperties({"a": "1"})]).properties["a"] == "1"
    record = catalog._metastore.call(lambda client: client.get_table("other", "t"))
    assert record.owner == str(os.getuid())


def test_a_forked_process_has_connections_of_its_own(hive_metastore: HiveMetastore, tmp_path: Path) -> None:
    """On one connection, each of two processes could read the answer to the other."""
    catalog: HiveCatalog = hive(hive_metastore, tmp_path, locks=True)
    make_table(catalog)
    metastore = catalog._metastore
    assert isinstance(metastore, Metastore)
    ports = _local_ports(metastore)
    assert ports, "a connection waits in the pool"
    with multiprocessing.get_context("fork").Pool(1, initializer=_in_child.append, initargs=(catalog,)) as pool:
        in_child = pool.apply(_ports_after_a_call)
    assert in_child
    assert not in_child & ports
    assert catalog.table_exists(IDENTIFIER)
    assert _local_ports(metastore) == ports, "the first process still has its own"


_in_child: list[HiveCatalog] = []


def _ports_after_a_call() -> set[int]:
    (catalog,) = _in_child
    assert catalog.table_exists(IDENTIFIER)
    return _local_ports(catalog._metastore)


def _local_ports(metastore: Metastore) -> set[int]:
    return {connection.socket.handle.getsockname()[1] for connection in metastore._free}


def test_a_removed_property_leaves_the_record_under_its_name_there(catalog: HiveCatalog) -> None:
    table = make_table(catalog, properties={"gc.enabled": "false", "a": "1"})
    assert parameters(catalog)["external.table.purge"] == "false"
    catalog.commit_table(table, [], [RemoveProperties(("gc.enabled", "a"))])
    assert not {"external.table.purge", "gc.enabled", "a"} & parameters(catalog).keys()
