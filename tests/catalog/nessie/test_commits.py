"""Conditional commits, lost answers, and what is refused."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Nessie, put
from iceberg_ops.catalog.nessie.references import Reference
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    IcebergOpsError,
    NoSuchTableError,
    TerminalError,
    UnsupportedError,
)
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.nessie.helpers import append, metadata_files
from tests.servers.nessie.server import NessieServer
from tests.servers.proxy import Answer, Before, ChangedAnswer, FaultProxy, LostAnswer, LostRequest, Request

pytestmark = pytest.mark.oracle

COMMITS = "/history/commit"


def test_commits_to_other_tables_do_not_matter_and_to_the_same_table_do(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy
) -> None:
    table = make_table(catalog)
    make_table(catalog, identifier=("ns", "u"))
    proxy.spoil(Before(lambda _: append(catalog, "x", ("ns", "u"))), path=COMMITS)
    spoiled.commit_table(table, [], [SetProperties({"a": "1"})])
    proxy.spoil(Before(lambda _: append(catalog, "x")), path=COMMITS)
    files = metadata_files(catalog)
    with pytest.raises(CommitFailedError, match="the metadata location has changed"):
        spoiled.commit_table(table, [], [SetProperties({"b": "1"})])
    now = catalog.load_table(IDENTIFIER)
    assert now.properties["a"] == "1"
    assert "b" not in now.properties
    assert metadata_files(catalog) == files | {now.metadata_location}, "the file of the refused commit is deleted"


@pytest.mark.parametrize(
    "fault",
    [
        LostAnswer(),
        ChangedAnswer.of(500),
        ChangedAnswer.of(502, b"<html>"),
        ChangedAnswer.of(503),
        ChangedAnswer.of(200, b"<html>"),
        ChangedAnswer.of(200, b"{}"),
        ChangedAnswer.of(404, b"no such page"),
        ChangedAnswer.of(409, b"no such page"),
        ChangedAnswer.of(429, b'{"status": 429, "errorCode": "TOO_MANY_REQUESTS", "message": "throttled"}'),
    ],
    ids=lambda fault: str(fault)[:60],
)
def test_a_commit_whose_answer_is_lost_happens_once(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy, fault: Any
) -> None:
    """Nessie has made it. A 429 is repeated by the connection and then refused as a conflict: with itself."""
    table = make_table(catalog)
    proxy.spoil(fault, path=COMMITS)
    done = commit(spoiled, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert done.attempts == 1
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a"}
    assert len(now.metadata.snapshots) == 1
    assert now.metadata_location in metadata_files(catalog)


def test_a_commit_is_told_from_a_conflict_also_where_others_came_after_it(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy
) -> None:
    """Throttled after it was made; before it is sent again, others commit on top of it: the conflict is not a refusal."""
    table = make_table(catalog)
    throttled = b'{"status": 429, "errorCode": "TOO_MANY_REQUESTS", "message": "throttled"}'
    proxy.spoil(ChangedAnswer.of(429, throttled), path=COMMITS)
    proxy.spoil(Before(lambda _: append(catalog, "other")), path=COMMITS)
    updated = spoiled.commit_table(table, [], [SetProperties({"a": "1"})])
    now = catalog.load_table(IDENTIFIER)
    assert now.properties["a"] == "1"
    assert live_paths(now) == {"other"}
    assert updated.metadata_location in metadata_files(catalog)


@pytest.mark.parametrize("happens", [True, False])
def test_a_lost_commit_is_found_below_one_that_keeps_no_log(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy, nessie_server: NessieServer, branch: str, happens: bool
) -> None:
    """Iceberg Java commits on top, whose metadata log lacks ours: our metadata file must stay: a former commit of Nessie has
    it, and any branch may begin there."""
    table = make_table(catalog)

    def commit_as_java(_: Request) -> None:
        nessie = Nessie("java", {"uri": nessie_server.uri, "ref": branch})
        content = nessie.contents(Reference(branch), [IDENTIFIER]).by_key[IDENTIFIER]
        text = json.loads(catalog.io.read(content["metadataLocation"]))
        text["properties"]["java"] = "was here"
        place = f"{table.location}/metadata/00007-{uuid.uuid4()}.metadata.json"
        catalog.io.write(place, json.dumps(text).encode())
        nessie_server.commit(branch, put(IDENTIFIER, {**content, "metadataLocation": place}))

    proxy.spoil(LostAnswer() if happens else LostRequest(), path=COMMITS)
    proxy.spoil(Before(commit_as_java), path="/contents", after=2)
    if happens:
        updated = spoiled.commit_table(table, [], [SetProperties({"a": "1"})])
        assert updated.metadata_location in metadata_files(catalog)
        assert live_paths(catalog.load_table(("ns", f"t#{nessie_server.history(branch)[1]['commitMeta']['hash']}"))) == set()
    else:
        with pytest.raises(CommitFailedError, match="another commit came first"):
            spoiled.commit_table(table, [], [SetProperties({"a": "1"})])
        assert len(metadata_files(catalog)) == 2
    assert catalog.load_table(IDENTIFIER).properties.get("a") == ("1" if happens else None)
    assert catalog.load_table(IDENTIFIER).properties["java"] == "was here"


@pytest.mark.parametrize("fault", [LostRequest(), Answer(500), Answer(502, b"x")], ids=str)
def test_a_commit_that_never_came_is_made_by_the_next_try(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy, fault: Any
) -> None:
    table = make_table(catalog)
    proxy.spoil(fault, path=COMMITS, times=2)
    commit(spoiled, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        (
            Answer(403, b'{"status": 403, "errorCode": "FORBIDDEN", "message": "not for you"}'),
            TerminalError,
            "FORBIDDEN: not for you",
        ),
        (Answer(401, b"who are you"), TerminalError, "401.*nothing was changed"),
        (Answer(400, b'{"errorCode": "BAD_REQUEST", "message": "bad"}'), TerminalError, "bad; nothing was changed"),
        (Answer(429, headers=(("Retry-After", "0"),)), CatalogUnavailableError, "429"),
        (Answer(503, headers=(("Retry-After", "0"),)), CatalogUnavailableError, "503"),
        (Answer(500), CommitStateUnknownError, "500"),
        (LostRequest(), CommitStateUnknownError, "gave no answer"),
    ],
    ids=str,
)
def test_what_a_refusal_means(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy, fault: Any, error: type[IcebergOpsError], text: str
) -> None:
    """Only where it is certain that nothing was changed, the metadata file is deleted."""
    table = make_table(catalog)
    proxy.spoil(fault, path=COMMITS, times=None)
    with pytest.raises(error, match=text) as raised:
        spoiled.commit_table(table, [], [SetProperties({"a": "1"})])
    assert type(raised.value) is not CatalogUnavailableError or error is CatalogUnavailableError
    assert len(metadata_files(catalog)) == (2 if error is CommitStateUnknownError else 1)


@pytest.mark.parametrize("refusal", [Answer(401, b"who are you"), Answer(302), Answer(400, b"x")], ids=str)
def test_a_refusal_after_a_commit_without_answer_does_not_say_that_it_did_not_happen(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy, refusal: Answer
) -> None:
    """The token runs out, or a gateway changes, between a commit and the next look at the branch."""
    table, sent = make_table(catalog), list[Request]()
    proxy.spoil(LostAnswer(), path=COMMITS, when=lambda request: sent.append(request) is None)
    proxy.spoil(refusal, path="/contents", when=lambda _: bool(sent), times=2)
    done = commit(spoiled, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert done.attempts == 1
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


@pytest.mark.parametrize("fault", [LostRequest(), Answer(500)], ids=str)
def test_what_fails_before_a_commit_is_sent_is_no_doubt(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy, fault: Any
) -> None:
    table = make_table(catalog)
    proxy.spoil(fault, path="/contents", after=1, times=None)
    with pytest.raises(CatalogUnavailableError):
        spoiled.commit_table(table, [], [SetProperties({"a": "1"})])
    assert len(metadata_files(catalog)) == 1


def test_a_conflict_that_cannot_be_looked_into_is_in_doubt(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy
) -> None:
    table = make_table(catalog)
    proxy.spoil(Before(lambda _: append(catalog, "x")), path=COMMITS)
    proxy.spoil(Answer(400, b"{}"), method="GET", path="/history", times=None)
    with pytest.raises(CommitStateUnknownError, match="cannot check whether a refused commit succeeded"):
        spoiled.commit_table(table, [], [SetProperties({"b": "1"})])
    assert len(metadata_files(catalog)) == 3


@pytest.mark.parametrize("what", ["create", "register", "drop", "rename"])
def test_other_changes_whose_answer_is_lost(catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy, what: str) -> None:
    table = make_table(catalog, identifier=("ns", "old"))
    if what == "register":
        catalog.drop_table(("ns", "old"))
    proxy.spoil(LostAnswer(), path=COMMITS)
    match what:
        case "create":
            make_table(spoiled)
        case "register":
            spoiled.register_table(IDENTIFIER, table.metadata_location)
        case "rename":
            spoiled.rename_table(("ns", "old"), IDENTIFIER)
        case "drop":
            with pytest.raises((CommitStateUnknownError, NoSuchTableError)):
                spoiled.drop_table(("ns", "old"))
    expected = {"create": [("ns", "old"), IDENTIFIER], "drop": []}.get(what, [IDENTIFIER])
    assert catalog.list_tables(("ns",)) == expected


def test_others_come_between(catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy) -> None:
    """A creation, a rename and a drop of a namespace that others overtake change nothing of theirs."""
    proxy.spoil(Before(lambda _: make_table(catalog)), path=COMMITS)
    with pytest.raises(AlreadyExistsError):
        make_table(spoiled)
    theirs = catalog.load_table(IDENTIFIER)
    proxy.spoil(Before(lambda _: append(catalog, "x")), path=COMMITS)
    assert live_paths(spoiled.rename_table(IDENTIFIER, ("ns", "u"))) == {"x"}
    proxy.spoil(Before(lambda _: append(catalog, "y", ("ns", "u"))), path=COMMITS)
    with pytest.raises(CommitFailedError, match="changed while it was being dropped"):
        spoiled.drop_table(("ns", "u"))
    catalog.create_namespace(("n",))
    proxy.spoil(Before(lambda _: make_table(catalog, identifier=("n", "t"))), path=COMMITS)
    with pytest.raises(BadInputError, match="not empty"):
        spoiled.drop_namespace(("n",))
    proxy.spoil(Before(lambda _: catalog.create_namespace(("m",))), path=COMMITS)
    with pytest.raises(AlreadyExistsError):
        spoiled.create_namespace(("m",))
    catalog.create_namespace(("gone",))
    proxy.spoil(Before(lambda _: catalog.drop_namespace(("gone",))), path=COMMITS)
    with pytest.raises(TerminalError, match=r"could not be created.*nothing was changed"):
        make_table(spoiled, identifier=("gone", "t"))
    assert catalog.load_table(("ns", "u")).metadata.table_uuid == theirs.metadata.table_uuid


def test_a_branch_that_was_set_back_takes_no_commit_of_before(
    catalog: NessieCatalog, spoiled: NessieCatalog, proxy: FaultProxy, nessie_server: NessieServer, branch: str
) -> None:
    make_table(catalog)
    before = nessie_server.hash(branch)
    append(catalog, "a")

    def set_back(_: Request) -> None:
        body = {"type": "BRANCH", "name": branch, "hash": before}
        nessie_server.ask("PUT", f"trees/{branch}@{nessie_server.hash(branch)}", params={"type": "BRANCH"}, json=body)

    proxy.spoil(Before(set_back), path=COMMITS)
    with pytest.raises(CommitFailedError):
        spoiled.commit_table(catalog.load_table(IDENTIFIER), [], [SetProperties({"a": "1"})])
    assert live_paths(catalog.load_table(IDENTIFIER)) == set()


def test_a_table_that_nessie_has_another_state_of_is_not_read(
    catalog: NessieCatalog, nessie_server: NessieServer, branch: str
) -> None:
    """Java reads the snapshot that Nessie names, so the rows would be others."""
    table = make_table(catalog)
    append(catalog, "a")
    (content,) = Nessie("n", {"uri": nessie_server.uri, "ref": branch}).contents(Reference(branch), [IDENTIFIER]).by_key.values()
    for key, value in (("snapshotId", 5), ("schemaId", 7), ("specId", 3), ("sortOrderId", 2)):
        nessie_server.commit(branch, put(IDENTIFIER, {**content, key: value}))
        with pytest.raises(UnsupportedError, match=f"Nessie has {key} {value} for it"):
            catalog.load_table(IDENTIFIER)
        with pytest.raises(UnsupportedError):
            catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    for same in (content, {**content, "snapshotId": -1}):  # of -1 Java takes the file's
        nessie_server.commit(branch, put(IDENTIFIER, same))
        assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
