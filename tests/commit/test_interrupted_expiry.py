"""An expiry that ends in the middle reports whether anything expired, and the next one deletes the files."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.commit.operations import expiry
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.errors import (
    CatalogUnavailableError,
    CommitInterruptedError,
    IncompleteError,
    IncompleteInterruptedError,
)
from tests.builders import IDENTIFIER, make_table
from tests.commit.test_expiry import ALL, Setting


@pytest.fixture
def setting() -> Setting:
    s = Setting()
    s.append("a")
    s.remove("a")
    s.append("b")
    return s


def ends_at_call(setting: Setting, monkeypatch: pytest.MonkeyPatch, at: int, error: Any) -> BaseException | None:
    """What an expiry ends with whose ``at``-th call of the store or the catalog raises ``error``; None where it ends well."""
    calls = iter(range(10_000))

    def step(real: Any) -> Any:
        def stepped(*arguments: Any, **fields: Any) -> Any:
            if next(calls) == at:
                raise error
            return real(*arguments, **fields)

        return stepped

    with monkeypatch.context() as patched:
        for target, name in ((setting.catalog, "load_table"), (setting.catalog.io, "delete_many"), (setting.catalog.io, "write")):
            patched.setattr(target, name, step(getattr(target, name)))
        try:
            expire(setting.catalog, setting.table, ALL)
        except BaseException as e:  # noqa: BLE001 - every end is looked at
            return e
    return None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, CatalogUnavailableError("no answer")], ids=repr)
@pytest.mark.parametrize("at", range(12))
def test_an_expiry_that_ends_after_its_commit_says_that_something_has_expired(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, at: int, error: Any
) -> None:
    before = len(setting.table.metadata.snapshots)
    ended = ends_at_call(setting, monkeypatch, at, error)
    setting.table = setting.catalog.load_table(IDENTIFIER)
    if len(setting.table.metadata.snapshots) < before and ended is not None:
        assert isinstance(ended, IncompleteError | CommitInterruptedError)
        assert isinstance(ended, KeyboardInterrupt) is (error is KeyboardInterrupt)
        if isinstance(ended, IncompleteInterruptedError):
            assert "snapshots of table test.ns.t have expired, but not all of their files are deleted" in str(ended)
    elif ended is not None:
        assert not isinstance(ended, IncompleteError)
    setting.expire()
    assert setting.there() == {"b"}


def test_an_expiry_of_nothing_that_is_interrupted_has_changed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Setting()
    s.append("a")

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as ended:
        expire(s.catalog, s.table, ALL, on_commit=interrupted)
    assert type(ended.value) is KeyboardInterrupt


def test_an_expiry_that_is_interrupted_right_after_its_commit_has_recorded_it(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Committed] = []

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(expiry, "_incomplete_once_expired", interrupted)
    with pytest.raises(KeyboardInterrupt):
        expire(setting.catalog, setting.table, ALL, on_commit=said.append)
    assert [done.table.metadata_location for done in said] == [setting.catalog.load_table(IDENTIFIER).metadata_location]


@pytest.mark.parametrize("how", ["renamed", "dropped", "swapped"])
def test_an_expiry_whose_table_is_renamed_dropped_or_swapped_after_its_commit_says_that_something_has_expired(
    setting: Setting, how: str
) -> None:
    catalog = setting.catalog

    def meddle(_: Any) -> None:
        if how == "dropped":
            catalog.drop_table(IDENTIFIER)
        else:
            catalog.rename_table(IDENTIFIER, ("ns", "other"))
        if how == "swapped":
            make_table(catalog)

    with pytest.raises(
        IncompleteError, match=r"snapshots of table test\.ns\.t have expired, but not all of their files are deleted"
    ):
        expire(catalog, setting.table, ALL, on_commit=meddle)
    if how != "dropped":
        expire(catalog, catalog.load_table(("ns", "other")), ALL)
        assert setting.there() == {"b"}
