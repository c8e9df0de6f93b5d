"""The catalog on AWS Glue, where an answer does not show what became of a change: lost, a time-out, or not Glue's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from iceberg_ops.catalog.glue.glue_catalog import GlueCatalog
from iceberg_ops.catalog.glue.glue_client import Glue
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitStateUnknownError,
    IcebergOpsError,
    NoSuchNamespaceError,
    TerminalError,
)
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.glue.conftest import SECRET, call
from tests.servers.proxy import Answer, Before, ChangedAnswer, Fault, FaultProxy, LostAnswer, LostRequest, Reply

NEW = ("ns", "new")


def error(kind: str) -> bytes:
    return json.dumps({"__type": kind, "Message": "The operation timed out."}).encode()


DONE_BUT: dict[str, Fault] = {
    "lost": LostAnswer(),
    "time-out of Glue": ChangedAnswer.of(400, error("OperationTimeoutException")),
    "time-out of a gateway": ChangedAnswer.of(408),
    "asked to wait": ChangedAnswer(lambda _: Reply(503, (("Retry-After", "0"),), b"{}")),
    "gateway": ChangedAnswer.of(502),
    "refused, it says": ChangedAnswer.of(400, error("NewKindOfException")),
    "not Glue's": ChangedAnswer.of(200, b"<html>"),
}
"""Answers to a change that was made."""
DOUBTS = {name: DONE_BUT[name] for name in ("lost", "time-out of Glue", "gateway")}


@pytest.mark.parametrize("fault", DONE_BUT.values(), ids=DONE_BUT)
def test_a_commit_that_was_made_keeps_its_metadata_whatever_the_answer(
    catalog: GlueCatalog,
    proxy: FaultProxy,
    fault: Fault,
) -> None:
    table = make_table(catalog)
    proxy.spoil(fault, when=call("UpdateTable"))
    commit(catalog, table, AppendFiles(added=(data_file("a"),), run_key="run"), sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a"}
    assert len(now.metadata.snapshots) == 1


@pytest.mark.parametrize("fault", DONE_BUT.values(), ids=DONE_BUT)
def test_a_table_that_was_made_keeps_its_metadata_whatever_the_answer(
    catalog: GlueCatalog,
    proxy: FaultProxy,
    fault: Fault,
) -> None:
    proxy.spoil(fault, when=call("CreateTable"))
    made = make_table(catalog)
    assert catalog.load_table(IDENTIFIER).metadata == made.metadata


@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
@pytest.mark.parametrize("fault", DOUBTS.values(), ids=DOUBTS)
@pytest.mark.parametrize("of", ["CreateTable", "UpdateTable", "DeleteTable"])
def test_a_rename_whose_answers_are_lost_says_what_is_true(
    catalog: GlueCatalog,
    proxy: FaultProxy,
    of: str,
    fault: Fault,
    times: int | None,
) -> None:
    before = make_table(catalog).metadata
    proxy.spoil(fault, when=call(of), times=times)
    if of == "CreateTable" and times is None:
        with pytest.raises(CommitStateUnknownError, match="the table now has both names: drop one of them without purge"):
            catalog.rename_table(IDENTIFIER, NEW)
        assert catalog.list_tables(("ns",)) == [NEW, IDENTIFIER]
    else:
        catalog.rename_table(IDENTIFIER, NEW)
        assert catalog.list_tables(("ns",)) == [NEW]
    assert catalog.load_table(NEW).metadata == before


@pytest.mark.parametrize("times", [1, None], ids=["once", "always"])
@pytest.mark.parametrize("fault", [*DOUBTS.values(), LostRequest()], ids=[*DOUBTS, "never came"])
@pytest.mark.parametrize("of", ["UpdateTable", "DeleteTable"])
def test_a_drop_whose_answers_are_lost_says_what_is_true(
    catalog: GlueCatalog,
    proxy: FaultProxy,
    of: str,
    fault: Fault,
    times: int | None,
) -> None:
    table = make_table(catalog)
    proxy.spoil(fault, when=call(of), times=times)
    if isinstance(fault, LostRequest) and times is None:
        with pytest.raises(CommitStateUnknownError, match="No file was deleted"):
            catalog.drop_table(IDENTIFIER, purge=True)
        assert catalog.io.exists(table.metadata_location)
    else:
        catalog.drop_table(IDENTIFIER, purge=True)
        assert catalog._record(IDENTIFIER) is None
        assert list(catalog.io.list_prefix(table.location)) == []


def test_a_drop_does_not_go_on_with_a_record_that_a_rename_has_retired(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    """Its update is lost, and a rename comes next: the table has another name, and keeps its files."""
    table = make_table(catalog)
    proxy.spoil(LostRequest(), when=call("UpdateTable"))
    proxy.spoil(DONE_BUT["refused, it says"], when=call("DeleteTable"))
    proxy.spoil(Before(lambda _: catalog_beside(catalog).rename_table(IDENTIFIER, NEW)), when=call("GetTable"), after=2)
    with pytest.raises(IcebergOpsError):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert catalog.load_table(NEW).metadata == table.metadata


def test_two_renames_to_one_name_do_not_take_each_others_record_away(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    before = make_table(catalog).metadata
    proxy.spoil(Before(lambda _: catalog_beside(catalog).rename_table(IDENTIFIER, NEW)), when=call("CreateTable"))
    catalog.rename_table(IDENTIFIER, NEW)
    assert catalog.list_tables(("ns",)) == [NEW]
    assert catalog.load_table(NEW).metadata == before


def test_a_name_that_a_drop_has_left_behind_is_told(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    make_table(catalog)
    proxy.spoil(LostRequest(), when=call("DeleteTable"), times=None)
    with pytest.raises(CommitStateUnknownError):
        catalog.drop_table(IDENTIFIER)
    with pytest.raises(AlreadyExistsError, match="as a record that is not an Iceberg table: delete it in Glue"):
        make_table(catalog)


def test_a_commit_forgets_which_rename_made_its_record(catalog: GlueCatalog) -> None:
    make_table(catalog)
    table = catalog.rename_table(IDENTIFIER, NEW)
    commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    record = catalog._record(NEW)
    assert record is not None
    assert not any(key.startswith("iceberg-ops.") for key in record["Parameters"])


LOOKS: dict[str, Callable[[GlueCatalog], object]] = {
    "GetTable": lambda c: c.load_table(IDENTIFIER),
    "GetTables": lambda c: c.list_tables(("ns",)),
    "GetDatabase": lambda c: c.namespace_properties(("ns",)),
    "GetDatabases": lambda c: c.list_namespaces(),
}


@pytest.mark.parametrize("body", [b"", b"{}", b"<html/>", b"[]", b"null", b'{"Table": null, "TableList": {}}'])
@pytest.mark.parametrize("of", LOOKS)
def test_an_answer_that_is_not_glues_is_not_taken_for_an_empty_one(
    catalog: GlueCatalog,
    proxy: FaultProxy,
    of: str,
    body: bytes,
) -> None:
    make_table(catalog)
    proxy.spoil(Answer(200, body), when=call(of), times=None)
    with pytest.raises(CatalogUnavailableError, match="it is not Glue's"):
        LOOKS[of](catalog)


def test_a_database_that_goes_away_meanwhile_is_no_namespace(catalog: GlueCatalog, proxy: FaultProxy) -> None:
    gone = Answer(400, json.dumps({"__type": "EntityNotFoundException", "Message": "Database ns not found."}).encode())
    proxy.spoil(gone, when=call("GetTables"))
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables(("ns",))


@pytest.mark.parametrize("of", ["CreateTable", "DeleteTable"])
def test_what_is_being_changed_by_others_is_tried_again(catalog: GlueCatalog, proxy: FaultProxy, of: str) -> None:
    make_table(catalog)
    proxy.spoil(Answer(400, error("ConcurrentModificationException")), when=call(of))
    catalog.rename_table(IDENTIFIER, NEW)
    assert catalog.list_tables(("ns",)) == [NEW]


def test_an_answer_that_repeats_a_session_token_does_not_show_it(proxy: FaultProxy) -> None:
    """AWS's message about a wrong signature has the headers that were signed."""
    token = "IQoJb3JpZ2luX2Vj/session+token=="
    environment = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": token, "AWS_REGION": "a"}
    message = f"The Canonical String should have been 'POST\n/\n\nx-amz-security-token:{token}\n'{'x' * 1000}"
    proxy.spoil(Answer(400, json.dumps({"__type": "InvalidSignatureException", "message": message}).encode()), times=None)
    with pytest.raises(TerminalError, match="InvalidSignatureException") as refused:
        Glue("glue", {"glue.endpoint": proxy.endpoint}, environment=environment).read("GetDatabases")
    assert token not in str(refused.value)
    assert len(str(refused.value)) < 500


def catalog_beside(catalog: GlueCatalog) -> GlueCatalog:
    """Another process's."""
    return GlueCatalog("glue", catalog._glue, LocalFileIO(), warehouse=catalog._warehouse, sleep=lambda _: None)
