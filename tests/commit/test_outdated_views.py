"""A job loaded the table, and another process's expiry deletes files before the job reads them: the table is intact, so the job
loads it again. A file that is missing from the current table is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.protocol.ledger import LEDGER_SIZE
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.commit.protocol.run_keys import RunIdentity, find_run, find_run_now
from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError
from iceberg_ops.table.manifests import CACHE
from iceberg_ops.table.metadata_files import ledger_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import Wrapped

ALL = ExpireSnapshots(older_than_ms=2**60, retain_last=1)


class LoadsThen(Wrapped):
    """After each of the first ``times`` loads someone else gets a turn."""

    def __init__(self, inner: Any, meanwhile: Callable[[], object], times: int = 1) -> None:
        super().__init__(inner)
        self.meanwhile, self.times = meanwhile, times

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        found: Table = self.inner.load_table(identifier)
        if self.times > 0:
            self.times -= 1
            self.meanwhile()
            CACHE.clear()
        return found


def append_and_expire(catalog: Any, tag: str, runs: int = 1) -> Table:
    table = catalog.load_table(IDENTIFIER)
    for n in range(runs):
        append = AppendFiles(added=(data_file(f"{tag}{n}"),), run_key=f"{tag}{n}", merge=False)
        table = commit(catalog, table, append, just_loaded=True).table
    expire(catalog, table, ALL)
    return catalog.load_table(IDENTIFIER)  # type: ignore[no-any-return]


def with_a_ledger() -> tuple[Any, Table]:
    catalog = make_catalog()
    make_table(catalog)
    table = append_and_expire(catalog, "x", LEDGER_SIZE + 2)
    assert len(ledger_files(table.metadata)) == 1
    CACHE.clear()
    return catalog, table


def test_a_key_is_looked_for_in_the_ledger_that_replaced_the_one_of_the_view() -> None:
    catalog, table = with_a_ledger()
    moving = LoadsThen(catalog, lambda: append_and_expire(catalog, "y", LEDGER_SIZE + 2))
    done = commit(moving, table, AppendFiles(added=(data_file("z"),), run_key="z"), sleep=lambda _: None)
    assert not done.already_committed
    moving = LoadsThen(catalog, lambda: append_and_expire(catalog, "w", LEDGER_SIZE + 2))
    assert commit(moving, table, AppendFiles(added=(data_file("z"),), run_key="x0"), sleep=lambda _: None).already_committed


def test_a_job_looks_for_its_key_in_the_table_as_it_is_then() -> None:
    catalog, table = with_a_ledger()
    append_and_expire(catalog, "y", LEDGER_SIZE + 2)
    CACHE.clear()
    loads = LoadsThen(catalog, lambda: append_and_expire(catalog, "w", LEDGER_SIZE + 2))
    load = lambda: loads.load_table(IDENTIFIER)  # noqa: E731
    with pytest.raises(CorruptTableError):
        find_run(table, RunIdentity(key="y0", action="append"))
    assert find_run_now(load, table, RunIdentity(key="y0", action="append")) is not None
    assert find_run_now(load, table, RunIdentity(key="q", action="append")) is None


def test_a_ledger_that_is_missing_now_is_an_error() -> None:
    catalog, table = with_a_ledger()
    catalog.io.delete(ledger_files(table.metadata)[0])
    slept: list[float] = []
    with pytest.raises(CorruptTableError, match="which remembers run keys, does not exist"):
        commit(catalog, table, AppendFiles(added=(data_file("z"),), run_key="z"), sleep=slept.append)
    assert slept == []
    with pytest.raises(CorruptTableError, match="which remembers run keys, does not exist"):
        find_run_now(lambda: catalog.load_table(IDENTIFIER), table, RunIdentity(key="q", action="append"))


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_a_damaged_ledger_is_named(at: int) -> None:
    catalog, table = with_a_ledger()
    (location,) = ledger_files(table.metadata)
    data = bytearray(catalog.io.read(location))
    for damaged in (data[: at % len(data)], data[:at] + bytes([data[at] ^ 0xFF, data[at + 1] ^ 0xFF]) + data[at + 2 :]):
        CACHE.clear()
        catalog.io.write(location, bytes(damaged), overwrite=True)
        if at not in (0, 7):  # The header holds a time and flags, which do not matter.
            with pytest.raises(CorruptTableError, match=r"ledger file .* cannot be read"):
                find_run(table, RunIdentity(key="q", action="append"))


@pytest.mark.parametrize("operation", [AppendFiles(added=(data_file("z"),)), DeleteFiles(paths=("a",)), RewriteManifests()])
def test_an_attempt_on_a_base_whose_files_are_gone_is_made_again(operation: Operation) -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    meanwhile = iter(["m", "n"])
    moving = LoadsThen(catalog, lambda: append_and_expire(catalog, next(meanwhile)), 2)
    commit(moving, table, operation, sleep=lambda _: None)
    wanted = (
        {"a", "m0", "n0", "z"} - ({"z"} if operation.name != "append" else set()) - ({"a"} if operation.name == "delete" else set())
    )
    assert live_paths(catalog.load_table(IDENTIFIER)) == wanted


def test_a_catalog_that_does_not_answer_for_a_moment_does_not_make_it_an_error() -> None:
    catalog, table = with_a_ledger()
    append_and_expire(catalog, "y", LEDGER_SIZE + 2)
    CACHE.clear()

    class DownOnce(Wrapped):
        left = 1

        def load_table(self, identifier: tuple[str, ...]) -> Table:
            if self.left > 0:
                self.left -= 1
                raise CatalogUnavailableError("Injected")
            return self.inner.load_table(identifier)  # type: ignore[no-any-return]

    append = AppendFiles(added=(data_file("z"),), run_key="z")
    assert commit(DownOnce(catalog), table, append, just_loaded=True, sleep=lambda _: None).snapshot is not None
