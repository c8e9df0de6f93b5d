"""Commits through a server that loses answers, refuses, and is overtaken: each happens once, and what is said of it is true."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpdateSchema
from iceberg_ops.commit.operations.refs import RemoveRef, SetRef
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitInterruptedError,
    CommitStateUnknownError,
    IcebergOpsError,
    NoSuchTableError,
    TerminalError,
    UnsupportedError,
)
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.requirements import AssertCreate
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import STRING, NestedField
from iceberg_ops.spec.updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetProperties,
)
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, SCHEMA, data_file, live_paths, make_table
from tests.catalog.rest.fake_server import (
    FakeServer,
    Fault,
    Serve,
    answers,
    error,
    first,
    instead,
    lost_answer,
    lost_request,
    no_connection,
)

TABLE_ADDRESS = "/namespaces/ns/tables/t"
BY_ID = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))
PROPERTIES = {
    "commit.retry.num-retries": "2",
    "commit.status-check.num-retries": "1",
    "commit.status-check.min-wait-ms": "1",
}


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def catalog(server: FakeServer) -> RestCatalog:
    return server.catalog()


@pytest.fixture
def table(catalog: RestCatalog) -> Table:
    return make_table(catalog, properties=PROPERTIES)


def _append(catalog: RestCatalog, table: Table, *paths: str) -> Any:
    return commit(catalog, table, AppendFiles(added=tuple(data_file(p) for p in paths)), sleep=lambda _: None)


def _metadata_files(table: Table) -> int:
    return sum(i.location.endswith("metadata.json") for i in table.io.list_prefix(table.location))


IN_DOUBT: dict[str, Fault] = {
    "its answer is lost": lost_answer,
    "it is lost": lost_request,
    "a gateway says 502 of it": instead(lambda: httpx.Response(502, text="bad gateway")),
    "a gateway says 504 of it": instead(lambda: httpx.Response(504)),
    "the server says 500 of it": instead(lambda: error(500, "InternalServerError")),
    "the server says 500 and did nothing": answers(lambda: error(500, "InternalServerError")),
    "503 without Retry-After is said of it": instead(lambda: error(503, "SlowDownException")),
    "the server says that it does not know": instead(lambda: error(409, "CommitStateUnknownException")),
    "408 is said of it": instead(lambda: httpx.Response(408)),
    "its answer is cut": instead(lambda: httpx.Response(200, content=b'{"metadata": {')),
    "its answer is a login page": instead(lambda: httpx.Response(200, text="<html>")),
    "its answer is another table's": instead(lambda: httpx.Response(200, json={"metadata-location": "x", "metadata": {}})),
}
TWICE = ["its answer is lost", "it is lost"]


@pytest.mark.parametrize("how", IN_DOUBT)
def test_an_append_happens_once_where(server: FakeServer, catalog: RestCatalog, table: Table, how: str) -> None:
    server.spoil(IN_DOUBT[how], "POST", TABLE_ADDRESS, times=2 if how in TWICE else 1)
    done = _append(catalog, table, "a")
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a"}
    assert len(now.metadata.snapshots) == 1
    assert (done.attempts, done.table.metadata_location) == (1, now.metadata_location)
    assert _metadata_files(now) == 2


@pytest.mark.parametrize("how", IN_DOUBT)
def test_an_append_that_another_one_overtook_is_staged_again_where(
    server: FakeServer, catalog: RestCatalog, table: Table, how: str
) -> None:
    other = server.catalog()

    def overtaken(request: httpx.Request, serve: Any) -> httpx.Response:
        _append(other, table, "b")
        return IN_DOUBT[how](request, serve)

    server.spoil(overtaken, "POST", TABLE_ADDRESS)
    done = _append(catalog, table, "a")
    assert done.attempts == 2
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "b"}
    assert done.leftovers == ()


@pytest.mark.parametrize("how", IN_DOUBT)
def test_a_change_of_properties_is_looked_for_where(server: FakeServer, catalog: RestCatalog, table: Table, how: str) -> None:
    """It is not asked for twice: nothing would refuse the second one. Where it shows nowhere, it is unknown."""
    server.spoil(IN_DOUBT[how], "POST", TABLE_ADDRESS)
    asked = len(server.asked("POST", TABLE_ADDRESS))
    change = UpdateProperties(updates={"a": "1"})
    if "did nothing" in how or how == "it is lost":
        with pytest.raises(CommitStateUnknownError, match="it was committed if the change is in the table"):
            commit(catalog, table, change, sleep=lambda _: None)
    else:
        assert commit(catalog, table, change, sleep=lambda _: None).table.properties["a"] == "1"
    assert len(server.asked("POST", TABLE_ADDRESS)) == asked + 1


def test_a_commit_that_is_never_answered_is_unknown_and_its_files_stay(
    server: FakeServer, catalog: RestCatalog, table: Table
) -> None:
    server.spoil(lost_request, "POST", TABLE_ADDRESS, times=100)
    with pytest.raises(CommitStateUnknownError, match=r"it was committed if snapshot .* is in the table"):
        _append(catalog, table, "a")
    assert sum(i.location.endswith(".avro") for i in table.io.list_prefix(table.location)) == 2


REFUSED: list[tuple[httpx.Response, type[IcebergOpsError]]] = [
    (error(400, "BadRequestException"), BadInputError),
    (error(403, "ForbiddenException"), TerminalError),
    (error(404, "NoSuchTableException"), NoSuchTableError),
    (httpx.Response(404, text="no route"), CatalogUnavailableError),
    (error(409, "CommitFailedException"), CommitFailedError),
    (error(422), BadInputError),
    (httpx.Response(413), TerminalError),
    (error(501), TerminalError),
]


@pytest.mark.parametrize(("answer", "expected"), REFUSED, ids=lambda v: str(getattr(v, "status_code", "")))
def test_a_refused_commit_leaves_nothing(
    server: FakeServer, catalog: RestCatalog, table: Table, answer: httpx.Response, expected: type[IcebergOpsError]
) -> None:
    server.spoil(answers(lambda: answer), "POST", TABLE_ADDRESS, times=100)
    with pytest.raises(expected):
        _append(catalog, table, "a")
    assert [i.location for i in table.io.list_prefix(table.location) if i.location.endswith(".avro")] == []


@pytest.mark.parametrize("fault", [no_connection, answers(lambda: error(429)), answers(lambda: error(503, Retry_After="1"))])
def test_a_commit_that_was_certainly_not_taken_is_sent_again(
    server: FakeServer, catalog: RestCatalog, table: Table, fault: Fault
) -> None:
    server.spoil(fault, "POST", TABLE_ADDRESS, times=3)
    assert _append(catalog, table, "a").attempts == 1
    server.spoil(fault, "POST", TABLE_ADDRESS, times=4)
    with pytest.raises(CatalogUnavailableError):
        catalog.commit_table(table, [], [SetProperties({"a": "1"})])
    assert "a" not in catalog.load_table(IDENTIFIER).properties


def test_an_interrupt_while_a_commit_is_under_way_is_an_unknown_outcome(
    server: FakeServer, catalog: RestCatalog, table: Table
) -> None:
    def interrupted(request: httpx.Request, serve: Any) -> httpx.Response:
        serve(request)
        raise KeyboardInterrupt

    server.spoil(interrupted, "POST", TABLE_ADDRESS)
    with pytest.raises(CommitInterruptedError, match="it was committed: snapshot"):
        _append(catalog, table, "a")


# what only this package requires


def test_what_the_server_cannot_check_is_checked_right_before(server: FakeServer, catalog: RestCatalog, table: Table) -> None:
    """An expiry was decided on retention that has changed: it is refused without a request."""
    _append(catalog, table, "a")
    _append(catalog, table, "b")
    now = catalog.load_table(IDENTIFIER)
    operation = ExpireSnapshots(retain_last=1, older_than_ms=2**62)
    staged = operation.stage(operation.prepare(now), now)
    commit(server.catalog(), now, UpdateProperties(updates={"history.expire.max-snapshot-age-ms": "1"}))
    asked = len(server.asked("POST", TABLE_ADDRESS))
    with pytest.raises(CommitFailedError, match="retention properties changed"):
        catalog.commit_table(now, staged.requirements, staged.updates)
    assert len(server.asked("POST", TABLE_ADDRESS)) == asked


@pytest.mark.parametrize("branch", ["main", "b1"])
def test_the_server_refuses_an_expiry_during_which_a_branch_moves(
    server: FakeServer, catalog: RestCatalog, table: Table, branch: str
) -> None:
    _append(catalog, table, "a")
    _append(catalog, table, "b")
    commit(catalog, table, SetRef(ref="b1"))
    now = catalog.load_table(IDENTIFIER)
    operation = ExpireSnapshots(retain_last=1, older_than_ms=2**62)
    staged = operation.stage(operation.prepare(now), now)

    def move() -> None:
        commit(server.catalog(), now, AppendFiles(added=(data_file("c"),), branch=branch))

    server.spoil(first(move), "POST", TABLE_ADDRESS)
    with pytest.raises(CommitFailedError, match=f"409 CommitFailedException: .*ref {branch} has changed"):
        catalog.commit_table(now, staged.requirements, staged.updates)
    assert len(catalog.load_table(IDENTIFIER).metadata.snapshots) == 3


def test_updates_that_change_nothing_are_not_sent(server: FakeServer, catalog: RestCatalog, table: Table) -> None:
    asked = len(server.asked("POST"))
    assert catalog.commit_table(table, [], [SetProperties({})]).metadata_location == table.metadata_location
    assert len(server.asked("POST")) == asked


def test_another_table_that_took_the_name_is_not_committed_to(server: FakeServer, catalog: RestCatalog, table: Table) -> None:
    server.inner.drop_table(IDENTIFIER)
    make_table(server.inner)
    with pytest.raises(CommitFailedError, match=r"table ns\.t is now a different table"):
        catalog.commit_table(table, [], [SetProperties({"a": "1"})])


NESSIE = {"defaults": {"nessie.is-nessie-catalog": "true"}, "overrides": {}}


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        (AppendFiles(added=(data_file("a"),), branch="b1"), "branch b1"),
        (AppendFiles(added=(data_file("a"),), staged=True), "a snapshot that is not published"),
        (SetRef(ref="t1", type="tag"), "tag t1"),
        (RemoveRef(ref="t0"), "removing t0"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_nessie_gets_no_snapshot_that_is_not_for_main(
    server: FakeServer, catalog: RestCatalog, table: Table, operation: Any, what: str
) -> None:
    """It would make it current, and say that all was done."""
    _append(catalog, table, "first")
    commit(catalog, table, SetRef(ref="t0", type="tag"))
    server.config = NESSIE
    nessie = server.catalog()
    asked = len(server.asked("POST"))
    with pytest.raises(UnsupportedError, match=f"not supported: {what} in catalog rest, because its server is Nessie"):
        commit(nessie, nessie.load_table(IDENTIFIER), operation, sleep=lambda _: None)
    assert len(server.asked("POST")) == asked
    _append(nessie, table, "second")
    assert live_paths(nessie.load_table(IDENTIFIER)) == {"first", "second"}


def test_a_new_schema_goes_with_the_last_column_id_that_it_makes(server: FakeServer, catalog: RestCatalog, table: Table) -> None:
    """Servers before the specification made it optional refuse a schema without."""
    wider = Schema.of(*table.schema.fields, NestedField(table.metadata.last_column_id + 1, "more", STRING))
    now = commit(catalog, table, UpdateSchema(schema=wider)).table
    narrower = Schema.of(*table.schema.fields)
    commit(catalog, now, UpdateSchema(schema=narrower))
    staged, found = _staged(catalog)
    catalog.commit_table(staged, (AssertCreate(),), found.updates)
    sent = [u for r in server.asked("POST", "/tables/") for u in json.loads(r.content)["updates"] if u["action"] == "add-schema"]
    assert [u["last-column-id"] for u in sent] == [4, 4, 3]


def test_new_schemas_specs_and_orders_are_sent_with_the_ids_that_they_get(
    server: FakeServer, catalog: RestCatalog, table: Table
) -> None:
    """Some servers take them as they come; an id of 0 stands for one that is not given yet."""
    schema = Schema.of(*table.schema.fields, NestedField(4, "more", STRING))
    spec = PartitionSpec(0, (PartitionField((3,), 0, IDENTITY, "region"), PartitionField((2,), 0, IDENTITY, "data")))
    order = SortOrder(0, BY_ID.fields)
    changed = catalog.commit_table(
        table,
        [],
        [
            AddSchema(schema),
            SetCurrentSchema(LAST_ADDED),
            AddPartitionSpec(spec),
            SetDefaultSpec(LAST_ADDED),
            AddSortOrder(order),
            SetDefaultSortOrder(LAST_ADDED),
        ],
    )
    sent = {u["action"]: u for u in json.loads(server.asked("POST", TABLE_ADDRESS)[-1].content)["updates"]}
    assert sent["add-schema"]["schema"]["schema-id"] == 1
    assert sent["add-spec"]["spec"]["spec-id"] == 1
    assert [f["field-id"] for f in sent["add-spec"]["spec"]["fields"]] == [1000, 1001]
    assert sent["add-sort-order"]["sort-order"]["order-id"] == 1
    assert (changed.schema.schema_id, changed.spec.spec_id, changed.metadata.default_sort_order_id) == (1, 1, 1)


# tables that come to be with content


def _staged(catalog: RestCatalog) -> tuple[Table, Any]:
    staged = catalog.stage_table(("ns", "new"), SCHEMA, properties={"a": "b"})
    operation = AppendFiles(added=(data_file("x"),))
    return staged, operation.stage(operation.prepare(staged), staged)


def test_a_staged_table_comes_to_be_with_its_first_commit(server: FakeServer, catalog: RestCatalog) -> None:
    staged, found = _staged(catalog)
    assert staged.metadata_location == ""
    assert not catalog.table_exists(("ns", "new"))
    made = catalog.commit_table(staged, (AssertCreate(),), found.updates)
    assert live_paths(made) == {"x"}
    assert (made.properties["a"], made.metadata.table_uuid) == ("b", staged.metadata.table_uuid)
    sent = json.loads(server.asked("POST", "/tables/new")[-1].content)
    assert sent["requirements"] == [{"type": "assert-create"}]
    with pytest.raises(AlreadyExistsError, match=r"ns\.new already exists"):
        catalog.commit_table(staged, (AssertCreate(),), found.updates)


@pytest.mark.parametrize("how", IN_DOUBT)
def test_a_staged_table_is_made_once_where(server: FakeServer, catalog: RestCatalog, how: str) -> None:
    staged, found = _staged(catalog)
    server.spoil(IN_DOUBT[how], "POST", "/tables/new")
    assert catalog.commit_table(staged, (AssertCreate(),), found.updates).metadata.table_uuid == staged.metadata.table_uuid
    assert live_paths(catalog.load_table(("ns", "new"))) == {"x"}


# other changes

CHANGES: dict[str, tuple[str, str, Callable[[RestCatalog, Table], object]]] = {
    "create": ("POST", "/tables", lambda c, t: make_table(c, identifier=("ns", "u"))),
    "register": ("POST", "/register", lambda c, t: (c.drop_table(IDENTIFIER), c.register_table(("ns", "u"), t.metadata_location))),
    "rename": ("POST", "/rename", lambda c, t: c.rename_table(IDENTIFIER, ("ns", "u"))),
    "drop": ("DELETE", "/tables/t", lambda c, t: c.drop_table(IDENTIFIER)),
    "purge": ("DELETE", "/tables/t", lambda c, t: c.drop_table(IDENTIFIER, purge=True)),
    "create namespace": ("POST", "/namespaces", lambda c, t: c.create_namespace(("n2",), {"a": "b"})),
    "drop namespace": ("DELETE", "/namespaces/empty", lambda c, t: c.drop_namespace(("empty",))),
}
SHOWS_ITSELF = {"rename", "drop", "purge", "create namespace", "drop namespace"}
"""An existing table does not show which writer created it."""


def _state(server: FakeServer) -> tuple[Any, ...]:
    return server.inner.list_namespaces(), server.inner.list_tables(("ns",))


BODY_COUNTS = {"create", "register"}
"""Of the other changes only the status of an answer is read."""
BODIES = {"its answer is cut", "its answer is a login page", "its answer is another table's"}
UNANSWERED = [(change, how) for change in CHANGES for how in IN_DOUBT if change in BODY_COUNTS or how not in BODIES]


@pytest.mark.parametrize(("change", "how"), UNANSWERED)
def test_a_change_without_an_answer_is_looked_for_or_unknown(server: FakeServer, change: str, how: str) -> None:
    server.inner.create_namespace(("empty",))
    catalog = server.catalog()
    table = make_table(catalog)
    method, path, work = CHANGES[change]
    before = _state(server)
    server.spoil(IN_DOUBT[how], method, path)
    happens = "did nothing" not in how and how != "it is lost"
    if happens and change in SHOWS_ITSELF:
        work(catalog, table)
    else:
        with pytest.raises(CommitStateUnknownError, match=r"it succeeded if|look whether"):
            work(catalog, table)
    assert (_state(server) != before) == (happens or change == "register")
    if change == "purge":
        assert table.io.exists(table.metadata_location) != happens, "nothing is deleted of a table that may be there"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("answer", [error(403), error(400), httpx.Response(404, text="no route")], ids=lambda r: str(r.status_code))
def test_a_refused_change_changes_nothing(server: FakeServer, change: str, answer: httpx.Response) -> None:
    server.inner.create_namespace(("empty",))
    catalog = server.catalog()
    table = make_table(catalog)
    method, path, work = CHANGES[change]
    before = _state(server)
    server.spoil(answers(lambda: answer), method, path)
    with pytest.raises((TerminalError, BadInputError, CatalogUnavailableError)):
        work(catalog, table)
    assert _state(server) == before or change == "register"
    assert table.io.exists(table.metadata_location)


def test_a_table_that_was_committed_to_while_it_is_purged_is_not_dropped(
    server: FakeServer, catalog: RestCatalog, table: Table
) -> None:
    _append(catalog, table, "a")
    loads = iter([lambda: None, lambda: _append(server.catalog(), table, "b")])

    def late(request: httpx.Request, serve: Any) -> httpx.Response:
        next(loads, lambda: None)()
        return serve(request)  # type: ignore[no-any-return]

    server.spoil(late, "GET", TABLE_ADDRESS, times=2)
    with pytest.raises(CommitFailedError, match="changed while it was being dropped"):
        catalog.drop_table(IDENTIFIER, purge=True)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "b"}


@pytest.mark.parametrize("is_found", [True, False])
def test_a_purge_without_an_answer_deletes_no_file_of_a_table_that_was_renamed_meanwhile(
    server: FakeServer, catalog: RestCatalog, table: Table, is_found: bool
) -> None:
    """The request did not arrive, and the name is gone nevertheless."""
    _append(catalog, table, "a")
    new = ("ns", "new")

    def renamed(request: httpx.Request, serve: Serve) -> httpx.Response:
        server.inner.rename_table(IDENTIFIER, new)
        if not is_found:
            server.spoil(answers(lambda: error(403)), "GET", "/tables/new")
        return lost_request(request, serve)

    server.spoil(renamed, "DELETE", TABLE_ADDRESS)
    with pytest.raises(CommitStateUnknownError, match="No file was deleted"):
        catalog.drop_table(IDENTIFIER, purge=True)
    found = catalog.load_table(new)
    assert found.io.exists(found.metadata_location)


def test_a_table_whose_metadata_cannot_be_read_can_be_dropped(server: FakeServer, catalog: RestCatalog, table: Table) -> None:
    server.spoil(answers(lambda: error(404, "NotFoundException", "Failed to open input stream")), "GET", TABLE_ADDRESS, times=9)
    catalog.drop_table(IDENTIFIER)
    assert not server.inner.table_exists(IDENTIFIER)


def test_the_same_table_is_not_registered_under_a_second_name(server: FakeServer, catalog: RestCatalog, table: Table) -> None:
    with pytest.raises(TerminalError, match=r"because table rest\.ns\.t is the same table"):
        catalog.register_table(("ns", "u"), table.metadata_location)
    assert not server.asked("POST", "/register")
