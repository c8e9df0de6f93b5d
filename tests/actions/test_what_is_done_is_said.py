"""A job whose work is committed, or may be, never ends with an error that claims that nothing was changed.

The store fails at one call after the swap, or at all of them: either the job succeeds, or its error code shows that a part is done
or that the outcome is unknown."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec import structs

from iceberg_ops.actions import dispatch
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.loop import committer
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import JobSpec, RowChange
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import CatalogUnavailableError, CommitStateUnknownError, IcebergOpsError, IncompleteError
from iceberg_ops.io.memory import MemoryFileIO
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_housekeeping import later, plant
from tests.actions.test_progress_options import PARTIAL, small_files, with_equality_deletes
from tests.catalog.wrappers import Wrapped

METHODS = ("read", "write", "exists", "length", "list_prefix", "delete", "delete_many")
Job = Callable[[Lake], ActionReport]


class Store:
    """The memory store: once ``begin`` was called, calls fail from the ``first`` on, ``times`` of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Callable[[str], Exception]) -> None:
        self.first, self.times, self.calls, self.begun = 10**9, 0, 0, False
        for name in METHODS:
            self._wrap(monkeypatch, name, getattr(MemoryFileIO, name), error)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, name: str, real: Any, error: Callable[[str], Exception]) -> None:
        def call(io: MemoryFileIO, *args: Any, **named: Any) -> Any:
            if self.begun:
                self.calls += 1
                if self.first <= self.calls < self.first + self.times:
                    raise error(f"{name} {args[0]}")
            return real(io, *args, **named)

        monkeypatch.setattr(MemoryFileIO, name, call)


class Swaps(Wrapped):
    """Calls ``then`` after the swaps that happened."""

    def __init__(self, inner: Any, then: Callable[[], object], *, unanswered: bool = False) -> None:
        super().__init__(inner)
        self._then, self._unanswered = then, unanswered

    def commit_table(self, *args: Any) -> Any:
        found = self.inner.commit_table(*args)
        self._then()
        if self._unanswered:
            raise CommitStateUnknownError("connection reset")
        return found


def small() -> Lake:
    lake = make_lake(properties={"commit.status-check.num-retries": "0", "commit.manifest-merge.enabled": "false"})
    for i in range(6):
        lake.append(numbered(10 * i, 5))
    return lake


def with_position_deletes() -> Lake:
    lake = make_lake(properties={"write.delete.granularity": "partition"})
    lake.append(numbered(0, 20), numbered(20, 20))
    for i in range(6):
        lake.delete_positions(*((task, [i]) for task in lake.tasks()))
    return lake


def old_snapshots() -> Lake:
    lake = small()
    lake.run("rewrite_data_files", rewrite_all=True)
    return lake


CASES: dict[str, tuple[Callable[[], Lake], dict[str, Any]]] = {
    "rewrite_data_files": (small, {"rewrite_all": True}),
    "rewrite_data_files in several commits": (small_files, PARTIAL),
    "convert_equality_deletes": (with_equality_deletes, {}),
    "convert_equality_deletes in several commits": (with_equality_deletes, PARTIAL),
    "rewrite_position_delete_files": (with_position_deletes, {"rewrite_all": True}),
    "rewrite_manifests": (small, {}),
    "expire_snapshots": (old_snapshots, {"older_than": "2100-01-01T00:00:00"}),
    "compute_table_stats": (small, {}),
    "compute_partition_stats": (small_files, {}),
    "delete": (small, {"where": "id = 3", "change": RowChange(mode="merge-on-read")}),
    "update": (small, {"where": "id = 3", "change": RowChange(mode="copy-on-write", set={"data": "'x'"})}),
}


@cache
def _made(lake_of: Callable[[], Lake]) -> Lake:
    return lake_of()


def copy_of(lake_of: Callable[[], Lake]) -> Lake:
    """The same as ``lake_of()``, which is called once only."""
    return _made(lake_of).copy()


BY_NAME = pytest.mark.parametrize(("name", "lake_of", "options"), [(n, *c) for n, c in CASES.items()], ids=list(CASES))
ERRORS = pytest.mark.parametrize("error", [CatalogUnavailableError, PermissionError, ValueError])


def end_of(job: JobSpec, catalog: Catalog) -> ActionReport | IcebergOpsError:
    """What a host gets of the job."""
    try:
        return run_job(job, catalog=catalog)
    except IcebergOpsError as e:
        return e


def job_of(lake: Lake, name: str, options: dict[str, Any]) -> JobSpec:
    change = options.get("change")
    job = lake.job(name.partition(" ")[0], **{k: v for k, v in options.items() if k != "change"})
    return job if change is None else structs.replace(job, change=change, lane="local")


@ERRORS
@BY_NAME
def test_a_call_that_fails_after_the_swap_does_not_make_it_undone(
    name: str, lake_of: Callable[[], Lake], options: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[ActionReport] = []
    monkeypatch.setattr(dispatch, "write_report", lambda job, report: written.append(report))
    store = Store(monkeypatch, error)
    first = 1
    while True:
        store.begun = False
        lake = copy_of(lake_of)
        store.first, store.times, store.calls = first, 1, 0
        head = lake.table.metadata.last_updated_ms

        def begin() -> None:
            store.begun = True

        ended = end_of(job_of(lake, name, options), Swaps(lake.catalog, begin))
        if isinstance(ended, ActionReport):
            assert ended.status in ("committed", "partially-committed"), first
        else:
            assert ended.code in ("INCOMPLETE", "COMMIT_STATE_UNKNOWN"), f"call {first}: {ended}"
            assert (written[-1].status, written[-1].error and written[-1].error.code) == ("failed", ended.code)
            assert name.startswith("expire") or "several" in name, f"call {first}: {ended}"
        store.begun = False
        assert lake.table.metadata.last_updated_ms >= head
        if store.calls < first:
            return
        first += 1 if first < 12 else 5


@pytest.mark.usefixtures("without_pauses")
@BY_NAME
def test_a_store_that_is_down_after_an_unanswered_swap_leaves_the_outcome_unknown(
    name: str, lake_of: Callable[[], Lake], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(monkeypatch, CatalogUnavailableError)
    lake = copy_of(lake_of)
    store.first, store.times = 1, 10**9

    def begin() -> None:
        store.begun = True

    written: list[ActionReport] = []
    monkeypatch.setattr(dispatch, "write_report", lambda job, report: written.append(report))
    with pytest.raises(CommitStateUnknownError, match="outcome is unknown"):
        run_job(job_of(lake, name, options), catalog=Swaps(lake.catalog, begin, unanswered=True))
    assert written[0].error is not None
    assert (written[0].error.code, "run key" in written[0].error.next_step) == ("COMMIT_STATE_UNKNOWN", True)


@pytest.mark.parametrize(
    ("action", "lake_of"), [("rewrite_data_files", small_files), ("convert_equality_deletes", with_equality_deletes)]
)
def test_a_run_that_ends_after_some_of_its_commits_names_them(
    action: str, lake_of: Callable[[], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store stays down: the groups that are left fail, in their work or in their commit, and nothing more is committed."""
    store, lake = Store(monkeypatch, CatalogUnavailableError), copy_of(lake_of)
    committer.commit(lake.catalog, lake.table, UpdateProperties(updates={"commit.retry.num-retries": "0"}))
    rows = lake.rows()
    store.first, store.times = 1, 10**9

    def begin() -> None:
        store.begun = True

    job = lake.job(action, **{**PARTIAL, "max-concurrent-file-group-rewrites": "1"})
    ended = end_of(job, Swaps(lake.catalog, begin))
    store.begun = False
    head = lake.table.metadata.current_snapshot_id
    assert isinstance(ended, ActionReport)
    assert (ended.status, ended.snapshot_ids) == ("partially-committed", [head])
    failed = [group.reason or "" for group in ended.groups if group.status != "committed"]
    assert failed
    assert all(reason.startswith("CATALOG_UNAVAILABLE") for reason in failed), failed
    assert lake.rows() == rows


def test_orphans_that_are_gone_are_not_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = small()
    for i in range(3):
        plant(lake, f"data/orphan-{i}.parquet")
    monkeypatch.setattr("iceberg_ops.actions.remove_orphan_files.DELETED_AT_ONCE", 1)
    real, calls = MemoryFileIO.delete_many, []

    def second_fails(io: MemoryFileIO, locations: Any) -> Any:
        found = list(locations)
        if any("orphan-" in f for f in found):
            calls.append(found)
            if len(calls) == 2:
                raise CatalogUnavailableError("the store does not answer")
        return real(io, found)

    monkeypatch.setattr(MemoryFileIO, "delete_many", second_fails)
    with pytest.raises(IncompleteError, match=r"a part of the work is done; .* CATALOG_UNAVAILABLE: the store does not answer"):
        lake.run("remove_orphan_files", now=lambda: later(10))
