"""The catalog on AWS Glue: versions, lost answers, and what is refused."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from iceberg_ops.catalog.glue.glue_catalog import GlueCatalog
from iceberg_ops.catalog.glue.glue_table import location_in
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import (
    BadInputError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    OptionError,
    TerminalError,
)
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import LONG
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.glue.conftest import SECRET, call
from tests.servers.proxy import Answer, Before, FaultProxy, LostAnswer, LostRequest


@pytest.mark.parametrize("fault", [LostAnswer(), LostRequest()], ids=["that happened", "that did not"])
def test_a_commit_without_an_answer_is_made_once(catalog: GlueCatalog, proxy: FaultProxy, fault: Any) -> None:
    table = make_table(catalog)
    proxy.spoil(fault, when=call("UpdateTable"), times=1)
    commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a"}
    assert len(now.metadata.snapshots) == 1


def test_a_commit_that_another_one_overtakes_is_refused_by_its_version(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    table = make_table(catalog)

    def meanwhile(_: Any) -> None:
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file("b"),)))

    proxy.spoil(Before(meanwhile), when=call("UpdateTable"), times=1)
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "b"}
    assert done.attempts == 2


def test_commits_of_many_threads_are_all_there(catalog: GlueCatalog) -> None:
    make_table(catalog, properties={"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "5"})
    errors: list[BaseException] = []

    def write(worker: int) -> None:
        try:
            for n in range(5):
                commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(f"{worker}-{n}"),)))
        except BaseException as e:  # noqa: BLE001 - raised in the test
            errors.append(e)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {f"{worker}-{n}" for worker in range(4) for n in range(5)}
    assert len(now.metadata.snapshots) == 20


def test_a_drop_does_not_take_a_commit_with_it(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    """Glue deletes whatever has the name. So the record is first made no table, on condition that it is the one that was read."""
    make_table(catalog)

    def meanwhile(_: Any) -> None:
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file("b"),)))

    proxy.spoil(Before(meanwhile), when=call("UpdateTable"), times=1)
    with pytest.raises(CommitFailedError, match="changed while it was being dropped"):
        catalog.drop_table(IDENTIFIER)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"b"}


def test_a_rename_does_not_take_a_commit_with_it(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    make_table(catalog)

    def meanwhile(_: Any) -> None:
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file("b"),)))

    proxy.spoil(Before(meanwhile), when=call("UpdateTable"), times=1)
    catalog.rename_table(IDENTIFIER, ("ns", "new"))
    assert catalog.list_tables(("ns",)) == [("ns", "new")]
    assert live_paths(catalog.load_table(("ns", "new"))) == {"b"}


DENIED = Answer(400, json.dumps({"__type": "AccessDeniedException", "Message": "no right"}).encode())


def test_a_drop_whose_delete_is_refused_leaves_the_table(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    table = make_table(catalog)
    proxy.spoil(DENIED, when=call("DeleteTable"), times=None)
    with pytest.raises(TerminalError, match="nothing was changed"):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert catalog.load_table(IDENTIFIER).metadata == table.metadata


def test_a_drop_whose_delete_is_throttled_is_done_later(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    make_table(catalog)
    proxy.spoil(Answer(400, json.dumps({"__type": "ThrottlingException"}).encode()), when=call("DeleteTable"))
    catalog.drop_table(IDENTIFIER)
    assert catalog.list_tables(("ns",)) == []


def test_a_rename_that_is_refused_leaves_one_name(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    make_table(catalog)
    proxy.spoil(DENIED, when=call("UpdateTable"), times=None)
    with pytest.raises(TerminalError, match="nothing was changed"):
        catalog.rename_table(IDENTIFIER, ("ns", "new"))
    assert catalog.list_tables(("ns",)) == [IDENTIFIER]


def test_a_rename_whose_old_record_cannot_be_deleted_is_done(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    make_table(catalog)
    proxy.spoil(DENIED, when=call("DeleteTable"), times=None)
    catalog.rename_table(IDENTIFIER, ("ns", "new"))
    assert catalog.list_tables(("ns",)) == [("ns", "new")]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"__type": "AccessDeniedException", "Message": "no right"}, 400, TerminalError),
        ({"__type": "com.amazonaws#ThrottlingException", "Message": "slow down"}, 400, CatalogUnavailableError),
        ({"__type": "InternalServiceException", "Message": "oops"}, 500, CommitStateUnknownError),
        ("no JSON", 502, CommitStateUnknownError),
    ],
    ids=["access denied", "throttled", "server error", "gateway"],
)
def test_a_refusal_is_told_from_an_unknown_outcome(
    catalog: GlueCatalog, proxy: FaultProxy, body: object, status: int, error: type[Exception]
) -> None:
    table = make_table(catalog)
    proxy.spoil(Answer(status, json.dumps(body).encode()), when=call("UpdateTable"), times=None)
    with pytest.raises(error) as raised:
        catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    assert isinstance(raised.value, CommitStateUnknownError) == (error is CommitStateUnknownError)
    assert SECRET not in str(raised.value)
    files = [i.location for i in catalog.io.list_prefix(table.location) if i.location.endswith("metadata.json")]
    assert len(files) == (2 if error is CommitStateUnknownError else 1), (
        "the file of a refused commit goes, of an unknown one stays"
    )


def test_reads_are_repeated(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    make_table(catalog)
    proxy.spoil(Answer(500, b"{}"), when=call("GetTable"), times=2)
    assert catalog.table_exists(IDENTIFIER)


def test_columns_of_former_schemas_and_comments_of_glue_stay(catalog: GlueCatalog) -> None:
    table = make_table(catalog)
    record = catalog._record(IDENTIFIER)
    assert record is not None
    record["StorageDescriptor"]["Columns"][0]["Comment"] = "the key"
    kept = {key: record[key] for key in ("Name", "TableType", "Parameters", "StorageDescriptor")}
    catalog._glue.change("UpdateTable", DatabaseName="ns", TableInput=kept, VersionId=record["VersionId"])
    schema = SchemaEvolution.of_table(table.metadata).drop_column("data").add_column("more", LONG).apply()
    commit(catalog, catalog.load_table(IDENTIFIER), UpdateSchema(schema=schema))
    now = catalog._record(IDENTIFIER)
    assert now is not None
    columns = {c["Name"]: (c["Parameters"]["iceberg.field.current"], c.get("Comment")) for c in now["StorageDescriptor"]["Columns"]}
    assert columns == {"id": ("true", "the key"), "region": ("true", None), "more": ("true", None), "data": ("false", None)}


def test_tables_that_are_not_icebergs_are_no_tables(catalog: GlueCatalog) -> None:
    catalog._glue.change("CreateTable", DatabaseName="ns", TableInput={"Name": "hive", "Parameters": {"table_type": "HIVE"}})
    assert catalog.list_tables(("ns",)) == []
    assert not catalog.table_exists(("ns", "hive"))
    with pytest.raises(BadInputError, match="holds hive, which is not an Iceberg table"):
        catalog.drop_namespace(("ns",))
    assert location_in({}) is None


@pytest.mark.parametrize("name", ["T", "a-b", "a b", "ü", "a" * 253])
def test_names_that_glue_does_not_take_are_refused(catalog: GlueCatalog, name: str) -> None:
    with pytest.raises(BadInputError, match="lower-case letters, digits or underscores"):
        make_table(catalog, identifier=("ns", name))


def test_what_a_configuration_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(OptionError, match="needs a region"):
        load_catalog(CatalogConfig(name="g", type="glue"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    catalog = load_catalog(CatalogConfig(name="g", type="glue", properties={"client.region": "eu-west-1"}))
    with pytest.raises(TerminalError, match="no AWS credentials were found"):
        catalog.list_namespaces()
