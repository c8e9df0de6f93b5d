"""The catalog on a Hive Metastore when a call is interrupted or fails: what is known of it, and what becomes of the lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pymetastore.hive_metastore.ttypes import AlreadyExistsException, InvalidOperationException, MetaException, UnlockRequest

from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.pointer import NotAppliedError
from iceberg_ops.errors import CatalogUnavailableError, CommitInterruptedError, CommitStateUnknownError, IncompleteInterruptedError
from iceberg_ops.spec.updates import SetProperties
from tests.builders import IDENTIFIER, make_table
from tests.catalog.every_catalog import hive
from tests.catalog.test_hive import Once, Watched, locks_of, watched
from tests.servers.hive_metastore import HiveMetastore

ALTER, DROP = "alter_table_with_environment_context", "drop_table"


@pytest.fixture
def catalog(hive_metastore: HiveMetastore, tmp_path: Path) -> HiveCatalog:
    return _watched(hive_metastore, tmp_path, locks=True)


@pytest.fixture
def lock_free(hive_metastore: HiveMetastore, tmp_path: Path) -> HiveCatalog:
    return _watched(hive_metastore, tmp_path, locks=False)


def _watched(server: HiveMetastore, folder: Path, *, locks: bool) -> HiveCatalog:
    made: HiveCatalog = hive(server, folder, locks=locks)
    made._metastore = Watched("hms", server.uri)
    return made


def fails(error: BaseException, *, happens: bool) -> Callable[..., Any]:
    def call(method: Callable[..., Any], *arguments: Any) -> NoReturn:
        if happens:
            method(*arguments)
        raise error

    return call


def give_back(catalog: HiveCatalog) -> None:
    (lock,) = locks_of(catalog)
    catalog._metastore.call(lambda client: client.unlock(UnlockRequest(lockid=lock.lockid)))


def names(catalog: HiveCatalog) -> list[str]:
    found: list[str] = catalog._metastore.call(lambda client: client.get_all_tables("ns"))
    return found


CHANGE = [SetProperties({"a": "1"})]


@pytest.mark.parametrize("call", ["lock", "heartbeat"])
@pytest.mark.parametrize("happens", [True, False], ids=["that happened", "that did not"])
def test_an_interrupt_before_the_change_is_a_bare_one_and_leaves_no_lock(catalog: HiveCatalog, call: str, happens: bool) -> None:
    table = make_table(catalog)
    watched(catalog).spoilt[call] = fails(KeyboardInterrupt(), happens=happens)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        catalog.commit_table(table, [], CHANGE)
    assert not isinstance(interrupted.value, CommitInterruptedError)
    assert locks_of(catalog) == []


@pytest.mark.parametrize("happens", [True, False], ids=["that happened", "that did not"])
def test_an_interrupt_in_the_change_leaves_the_lock(catalog: HiveCatalog, happens: bool) -> None:
    """The change may still arrive: the next holder of the lock would read the record before it."""
    table = make_table(catalog)
    watched(catalog).spoilt[ALTER] = fails(KeyboardInterrupt(), happens=happens)
    with pytest.raises(CommitInterruptedError):
        catalog.commit_table(table, [], CHANGE)
    give_back(catalog)


def test_a_change_that_the_metastore_answers_to_have_failed_leaves_no_lock(catalog: HiveCatalog) -> None:
    """It may have been made, but cannot arrive any more: no writer has to wait until the lock expires."""
    table = make_table(catalog)
    watched(catalog).spoilt[ALTER] = fails(MetaException("Permission denied: user has no right to alter"), happens=False)
    with pytest.raises(CommitStateUnknownError, match="Permission denied"):
        catalog.commit_table(table, [], CHANGE)
    assert locks_of(catalog) == []


def test_a_lock_without_an_answer_after_one_that_failed_stays(catalog: HiveCatalog) -> None:
    table = make_table(catalog)
    answers: list[BaseException] = [MetaException("no"), ConnectionResetError("injected"), MetaException("no"), MetaException("no")]

    def call(method: Callable[..., Any], *arguments: Any) -> NoReturn:
        raise answers.pop(0)

    watched(catalog).spoilt[ALTER] = call
    with pytest.raises(CommitStateUnknownError):
        catalog.commit_table(table, [], CHANGE)
    give_back(catalog)


def test_a_lock_is_given_back_once_more_where_the_first_try_got_no_answer(catalog: HiveCatalog) -> None:
    table = make_table(catalog)
    watched(catalog).spoilt["unlock"] = Once(happens=False)
    assert catalog.commit_table(table, [], CHANGE).properties["a"] == "1"
    assert locks_of(catalog) == []


def test_an_interrupt_after_a_drop_says_that_the_table_is_dropped(catalog: HiveCatalog) -> None:
    make_table(catalog)
    watched(catalog).spoilt["unlock"] = fails(KeyboardInterrupt(), happens=True)
    with pytest.raises(IncompleteInterruptedError, match=r"table hms\.ns\.t is dropped"):
        catalog.drop_table(IDENTIFIER)
    assert not catalog.table_exists(IDENTIFIER)


@pytest.mark.parametrize("purge", [False, True])
def test_an_interrupt_before_a_drop_leaves_no_lock(catalog: HiveCatalog, purge: bool) -> None:
    make_table(catalog)
    watched(catalog).spoilt["heartbeat"] = fails(KeyboardInterrupt(), happens=True)
    with pytest.raises(KeyboardInterrupt):
        catalog.drop_table(IDENTIFIER, purge=purge)
    assert locks_of(catalog) == []
    assert catalog.table_exists(IDENTIFIER)


def test_a_creation_that_the_metastore_has_tried_twice_by_itself_has_happened(catalog: HiveCatalog) -> None:
    watched(catalog).spoilt["create_table_with_environment_context"] = fails(AlreadyExistsException("t"), happens=True)
    assert make_table(catalog).metadata == catalog.load_table(IDENTIFIER).metadata


@pytest.mark.parametrize(
    "error", [ConnectionResetError("injected"), NotAppliedError("no connection")], ids=["no answer", "no connection"]
)
def test_a_creation_of_which_the_metastore_tells_nothing_more_is_unknown(catalog: HiveCatalog, error: Exception) -> None:
    def create(method: Callable[..., Any], *arguments: Any) -> NoReturn:
        method(*arguments)
        watched(catalog).spoilt["get_table_req"] = fails(error, happens=False)
        raise AlreadyExistsException("t")

    watched(catalog).spoilt["create_table_with_environment_context"] = create
    with pytest.raises(CommitStateUnknownError):
        make_table(catalog)
    watched(catalog).spoilt.clear()
    catalog.load_table(IDENTIFIER)


@pytest.mark.parametrize("call", ["create_table", ALTER])
@pytest.mark.parametrize(
    "error",
    [InvalidOperationException("no right"), MetaException("no right"), ConnectionResetError("no right")],
    ids=["refused", "failed", "no answer"],
)
def test_where_the_question_for_expected_parameters_fails_nothing_was_committed(
    lock_free: HiveCatalog, call: str, error: BaseException
) -> None:
    table = make_table(lock_free)
    watched(lock_free).spoilt[call] = fails(error, happens=call == "create_table")
    with pytest.raises(CatalogUnavailableError, match=r"cannot check whether .*, because no view could be created .*no right"):
        lock_free.commit_table(table, [], CHANGE)
    watched(lock_free).spoilt.clear()
    assert names(lock_free) == ["t"], "the view is gone"
    assert lock_free.load_table(IDENTIFIER).metadata_location == table.metadata_location
    assert len([i for i in lock_free.io.list_prefix(table.location) if i.location.endswith("metadata.json")]) == 1
    assert lock_free.commit_table(table, [], CHANGE).properties["a"] == "1"


def test_a_view_that_cannot_be_dropped_does_not_stop_the_commit(lock_free: HiveCatalog, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(lock_free)
    watched(lock_free).spoilt[DROP] = fails(ConnectionResetError("injected"), happens=False)
    assert lock_free.commit_table(table, [], CHANGE).properties["a"] == "1"
    assert "is left in the Hive Metastore, and can be dropped" in caplog.text
