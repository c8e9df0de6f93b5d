"""Commits to Iceberg's own server by way of a proxy that loses, changes, cuts and delays: real sockets, a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from iceberg_ops.catalog.rest.rest_catalog import RestCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpdateSchema
from iceberg_ops.commit.protocol.operation import Committed, Operation
from iceberg_ops.errors import CatalogUnavailableError, CommitStateUnknownError, ValidationError
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import STRING
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.servers.process import LOOPBACK, free_port
from tests.servers.proxy import Answer, Before, ChangedAnswer, CutAnswer, Delay, Fault, FaultProxy, LostAnswer, LostRequest
from tests.servers.rest.reference import ReferenceServer

pytestmark = pytest.mark.oracle

TABLE_ADDRESS = "/namespaces/ns/tables/t"
QUICK = {"commit.status-check.num-retries": "1", "commit.status-check.min-wait-ms": "1", "commit.retry.num-retries": "2"}


@pytest.fixture
def proxy(rest_server: ReferenceServer) -> Iterator[FaultProxy]:
    with FaultProxy(rest_server.address) as found:
        yield found


@pytest.fixture
def catalog(rest_server: ReferenceServer, proxy: FaultProxy) -> RestCatalog:
    uri = rest_server.uri(rest_server.new_name(), proxy.port)
    made = RestCatalog("rest", {"uri": uri, "rest.client.socket-timeout-ms": "3000"}, sleep=lambda _: None)
    made.create_namespace(("ns",))
    return made


@pytest.fixture
def table(catalog: RestCatalog) -> Table:
    return make_table(catalog, properties=QUICK)


IN_DOUBT: dict[str, Fault] = {
    "its answer is lost": LostAnswer(),
    "it is lost": LostRequest(),
    "its answer is cut in the headers": CutAnswer(0),
    "its answer is cut": CutAnswer(700),
    "a gateway says 502 of it": ChangedAnswer.of(502, b"<html>bad gateway</html>"),
    "a gateway says 504 of it": ChangedAnswer.of(504),
    "500 is said of it": ChangedAnswer.of(500, b'{"error": {"message": "x", "type": "InternalServerError", "code": 500}}'),
    "503 is said of it": ChangedAnswer.of(503),
    "its answer is late": Delay(4),
}


@pytest.mark.parametrize("how", IN_DOUBT)
def test_an_append_happens_once_where(catalog: RestCatalog, proxy: FaultProxy, table: Table, how: str) -> None:
    proxy.spoil(IN_DOUBT[how], method="POST", path=TABLE_ADDRESS)
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a"}
    assert (done.attempts, len(now.metadata.snapshots)) == (1, 1)
    assert _unreferenced(now) == []


@pytest.mark.parametrize("how", IN_DOUBT)
def test_whoever_comes_between_is_there_as_well_where(
    catalog: RestCatalog, rest_server: ReferenceServer, proxy: FaultProxy, table: Table, how: str
) -> None:
    other = RestCatalog("rest", {"uri": catalog._settings.properties["uri"].replace(str(proxy.port), str(rest_server.port))})
    proxy.spoil(Before(lambda _: commit(other, table, AppendFiles(added=(data_file("b"),)))), method="POST", path=TABLE_ADDRESS)
    proxy.spoil(IN_DOUBT[how], method="POST", path=TABLE_ADDRESS)
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a", "b"}
    assert (done.attempts, len(now.metadata.snapshots)) == (2, 2)
    assert _unreferenced(now) == []


def test_the_server_takes_a_stale_change_of_properties_and_refuses_one_of_the_schema(
    catalog: RestCatalog, rest_server: ReferenceServer, proxy: FaultProxy, table: Table
) -> None:
    """Each is computed on a state that another client's change of the same kind has left behind when it arrives. Both changes of
    properties count; of the schemas, which would take each other's column ids, only the first."""
    other = RestCatalog("rest", {"uri": catalog._settings.properties["uri"].replace(str(proxy.port), str(rest_server.port))})

    def added(name: str) -> UpdateSchema:
        return UpdateSchema(schema=SchemaEvolution.of_table(table.metadata).add_column(name, STRING).apply())

    def after(theirs: Operation, ours: Operation) -> Committed:
        proxy.forget()
        proxy.spoil(Before(lambda _: commit(other, other.load_table(IDENTIFIER), theirs)), method="POST", path=TABLE_ADDRESS)
        return commit(catalog, catalog.load_table(IDENTIFIER), ours, sleep=lambda _: None)

    def answers() -> list[int | None]:
        return [request.status for request in proxy.requests if request.method == "POST"]

    done = after(UpdateProperties(updates={"theirs": "1"}), UpdateProperties(updates={"ours": "1"}))
    assert answers() == [200]
    assert (done.table.properties["theirs"], done.table.properties["ours"]) == ("1", "1")
    with pytest.raises(ValidationError, match="schema"):
        after(added("theirs"), added("ours"))
    assert answers() == [409]
    assert [f.name for f in catalog.load_table(IDENTIFIER).schema.fields] == ["id", "data", "region", "theirs"]


def test_a_change_of_properties_that_is_lost_is_unknown(catalog: RestCatalog, proxy: FaultProxy, table: Table) -> None:
    proxy.spoil(LostRequest(), method="POST", path=TABLE_ADDRESS)
    with pytest.raises(CommitStateUnknownError, match="it was committed if the change is in the table"):
        commit(catalog, table, UpdateProperties(updates={"a": "1"}), sleep=lambda _: None)
    proxy.spoil(LostAnswer(), method="POST", path=TABLE_ADDRESS)
    assert commit(catalog, table, UpdateProperties(updates={"a": "1"}), sleep=lambda _: None).table.properties["a"] == "1"


def test_a_busy_server_is_waited_for_as_it_says(catalog: RestCatalog, proxy: FaultProxy, table: Table) -> None:
    waits: list[float] = []
    patient = RestCatalog("rest", {"uri": catalog._settings.properties["uri"]}, sleep=waits.append)
    proxy.spoil(Answer(503, b"", (("Retry-After", "7"),)), method="POST", path=TABLE_ADDRESS, times=2)
    assert commit(patient, table, AppendFiles(added=(data_file("a"),))).attempts == 1
    assert waits == [7.0, 7.0]


def test_a_server_that_has_stopped_is_unavailable() -> None:
    with pytest.raises(CatalogUnavailableError, match="was not reached: ConnectError"):
        RestCatalog("rest", {"uri": f"http://{LOOPBACK}:{free_port()}"}, sleep=lambda _: None)


def test_threads_and_clients_lose_nothing(catalog: RestCatalog, proxy: FaultProxy, table: Table) -> None:
    """Eight appends at once through two clients, while every fourth answer of a commit is lost."""
    clients = [catalog, RestCatalog("rest", {"uri": catalog._settings.properties["uri"]})]
    counted = iter(range(10_000))
    proxy.spoil(LostAnswer(), method="POST", path=TABLE_ADDRESS, when=lambda _: next(counted) % 4 == 3, times=None)
    patient = {"commit.retry.num-retries": "100", "commit.retry.min-wait-ms": "10", "commit.retry.max-wait-ms": "200"}
    commit(catalog, table, UpdateProperties(updates=patient))
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for m in range(3):
                commit(clients[n % 2], catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file(f"{n}-{m}"),)))
        except BaseException as e:  # noqa: BLE001 - shown by the test
            failures.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {f"{n}-{m}" for n in range(8) for m in range(3)}
    assert len(now.metadata.snapshots) == 24
    assert _unreferenced(now) == []


def _unreferenced(table: Table) -> list[str]:
    known = set(reachable_files(table))
    return [i.location for i in table.io.list_prefix(table.location) if i.location.endswith(".avro") and i.location not in known]
