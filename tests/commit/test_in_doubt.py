"""Once a swap was tried, none of its files is deleted while the swap has taken effect or may still do so, whatever exception ends
the attempt."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests.staged_files import commit_staged
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.errors import (
    CatalogUnavailableError,
    CommitFailedError,
    CommitInterruptedError,
    CommitStateUnknownError,
    CorruptTableError,
    RetryableError,
)
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table import metadata_files
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table, sql_catalog
from tests.catalog.wrappers import Meddles, Wrapped

ERRORS: dict[str, Callable[[], BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "no memory": MemoryError,
    "EIO": lambda: OSError(errno.EIO, "Input/output error"),
    "time-out": TimeoutError,
    "unavailable": lambda: CatalogUnavailableError("Injected"),
    "unknown": lambda: CommitStateUnknownError("Injected"),
    "exit": SystemExit,
    "bug": lambda: RuntimeError("Injected"),
}


class Raises:
    """Raises once, before or after the n-th step takes effect."""

    def __init__(self, error: Callable[[], BaseException], at: int, *, after: bool) -> None:
        self.error, self.left, self.after = error, at, after

    @property
    def done(self) -> bool:
        return self.left < 0

    def step(self, action: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left != -1:
            return action()
        if self.after:
            action()
        raise self.error()


class RaisingIO(LocalFileIO):
    """Every call is a step; files of data are bytes."""

    raises: Raises | None = None

    def _step(self, action: Callable[[], Any]) -> Any:
        return action() if self.raises is None else self.raises.step(action)

    def read(self, location: str) -> bytes:
        return self._step(lambda: LocalFileIO.read(self, location))  # type: ignore[no-any-return]

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._step(lambda: LocalFileIO.write(self, location, data, overwrite=overwrite))

    def exists(self, location: str) -> bool:
        return self._step(lambda: LocalFileIO.exists(self, location))  # type: ignore[no-any-return]

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        found = list(locations)
        return self._step(lambda: LocalFileIO.delete_many(self, found))  # type: ignore[no-any-return]

    def list_names(self, location: str) -> list[str]:
        return self._step(lambda: LocalFileIO.list_names(self, location))  # type: ignore[no-any-return]


class RaisingSql(SqlCatalog):
    def _current_location(self, identifier: tuple[str, ...]) -> str | None:
        io: Any = self.io
        return io._step(lambda: SqlCatalog._current_location(self, identifier))  # type: ignore[no-any-return]

    def _swap_pointer(self, identifier: tuple[str, ...], expected: str, new: str) -> bool:
        io: Any = self.io
        return io._step(lambda: SqlCatalog._swap_pointer(self, identifier, expected, new))  # type: ignore[no-any-return]


def opened(kind: str, folder: Path, io: LocalFileIO) -> Any:
    if kind == "filesystem":
        return FileSystemCatalog("c", io, warehouse=str(folder / "wh"), sleep=lambda _: None)
    return RaisingSql("c", f"sqlite:///{folder / 'c.db'}", io, warehouse=str(folder / "wh"), sleep=lambda _: None)


def prepared(kind: str, folder: Path) -> tuple[RaisingIO, Any, Table]:
    folder.mkdir(parents=True)
    io = RaisingIO()
    catalog = opened(kind, folder, io)
    catalog.create_namespace(("ns",))
    table = make_table(catalog, partitioned=True, properties={"commit.status-check.min-wait-ms": "0"})
    for name in ("a", "b"):
        table = commit(catalog, table, AppendFiles(added=(written(table, name),), merge=False)).table
    return io, catalog, table


def written(table: Table, name: str) -> Any:
    path = f"{table.location}/data/{name}"
    LocalFileIO().write(path, b"x", overwrite=True)
    return data_file(path, partition=("eu",))


def names(table: Table) -> set[str]:
    return {path.rpartition("/")[2] for path in live_paths(table)}


def missing(table: Table) -> list[str]:
    return [path for path in reachable_files(table) if not table.io.exists(path)]


OPERATIONS: dict[str, tuple[Callable[[Table, Any], Any], set[str]]] = {
    "append": (lambda t, f: AppendFiles(added=(f,)), {"a", "b", "new"}),
    "append with a key": (lambda t, f: AppendFiles(added=(f,), run_key="k"), {"a", "b", "new"}),
    "overwrite": (
        lambda t, f: OverwriteFiles(
            added=(f,),
            removed=(data_file(f"{t.location}/data/a", partition=("eu",)),),
            starting_snapshot_id=t.metadata.current_snapshot_id,
        ),
        {"b", "new"},
    ),
    "rewrite manifests": (lambda t, f: RewriteManifests(), {"a", "b"}),
    "properties": (lambda t, f: UpdateProperties(updates={"x": "1"}), {"a", "b"}),
}


def cases() -> list[tuple[str, str, str]]:
    """(operation, error, catalog): each error and each operation on one catalog, by ``make torture`` on both."""
    found = [(name, error, kind) for name in OPERATIONS for error in ERRORS for kind in ("filesystem", "sql")]
    return found if "ICEBERG_OPS_TORTURE" in os.environ else found[:: 2 * len(OPERATIONS) - 1]


@pytest.mark.parametrize(("name", "error", "kind"), cases())
def test_whatever_is_raised_at_any_step_what_is_said_is_true_and_no_live_file_goes(
    name: str, error: str, kind: str, tmp_path: Path
) -> None:
    make, wanted = OPERATIONS[name]
    ended: dict[str, int] = {}
    for at in range(60):
        for after in (False, True):
            io, catalog, table = prepared(kind, tmp_path / f"{at}-{after}")
            new = written(table, "new")
            before = table.metadata
            io.raises = raises = Raises(ERRORS[error], at, after=after)
            outcome = _commit(catalog, table, make(table, new), new.file_path, raises)
            io.raises = None
            now = opened(kind, tmp_path / f"{at}-{after}", RaisingIO()).load_table(IDENTIFIER)
            assert missing(now) == [], f"step {at}, after={after}: live files are gone"
            happened = now.metadata != before
            assert names(now) == (wanted if happened else {"a", "b"})
            assert len(now.metadata.snapshots) <= len(before.snapshots) + 1, "done twice"
            assert happened or outcome != "committed"
            assert not happened or outcome in ("committed", "unknown"), f"step {at}, after={after}: reported as {outcome}"
            ended[outcome] = ended.get(outcome, 0) + 1
        if not raises.done:
            break
    assert ended["committed"]
    assert sum(ended.values()) > 12


def _commit(catalog: Any, table: Table, operation: Any, staged: str, raises: Raises) -> str:
    try:
        commit_staged(_Slept(catalog, raises), table, operation, [staged])
    except CommitStateUnknownError:
        return "unknown"
    except RetryableError:
        return "refused"
    except BaseException:  # noqa: BLE001 - whatever was injected
        return "failed"
    return "committed"


class _Slept(Wrapped):
    """The calls of the catalog are steps as well."""

    def __init__(self, inner: Any, raises: Raises) -> None:
        super().__init__(inner)
        self.raises = raises

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        return self.raises.step(lambda: self.inner.load_table(identifier))  # type: ignore[no-any-return]

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        return self._unless_refused(lambda: self.inner.commit_table(table, requirements, updates))

    def _unless_refused(self, call: Callable[[], Table]) -> Table:
        """A refusal by the catalog itself is passed on; an error raised around it is not a refusal."""
        if self.raises.left == 0 and self.raises.error is ERRORS["unavailable"]:
            self.raises.left -= 1
            if self.raises.after:
                call()
                raise CommitStateUnknownError("Injected: no answer")
            raise CatalogUnavailableError("Injected: nothing happened")
        return self.raises.step(call)  # type: ignore[no-any-return]


def test_an_interrupt_right_after_the_swap_says_that_it_was_committed() -> None:
    class Interrupted(Wrapped):
        def commit_table(self, *a: Any) -> Table:
            self.inner.commit_table(*a)
            raise KeyboardInterrupt

    catalog = make_catalog()
    table = make_table(catalog)
    with pytest.raises(
        CommitInterruptedError, match=r"was interrupted by KeyboardInterrupt: it was committed: snapshot \d+ is in"
    ) as e:
        commit(Interrupted(catalog), table, AppendFiles(added=(data_file("a"),)))
    assert isinstance(e.value, KeyboardInterrupt), "who handles an interrupt sees one"
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


@pytest.mark.parametrize(
    ("first", "second"), [(KeyboardInterrupt, KeyboardInterrupt), (SystemExit, SystemExit), (MemoryError, KeyboardInterrupt)]
)
def test_a_second_interrupt_while_the_first_one_looks_at_the_table_leaves_the_outcome_unknown(
    first: type[BaseException], second: type[BaseException]
) -> None:
    class InterruptedTwice(Wrapped):
        swapped = False

        def commit_table(self, *a: Any) -> Table:
            self.inner.commit_table(*a)
            self.swapped = True
            raise first

        def load_table(self, *a: Any) -> Table:
            if self.swapped:
                raise second
            return self.inner.load_table(*a)  # type: ignore[no-any-return]

    catalog = make_catalog()
    table = make_table(catalog)
    with pytest.raises(
        CommitStateUnknownError, match=r"it was committed if snapshot \d+ is in the table; nothing was deleted"
    ) as e:
        commit(InterruptedTwice(catalog), table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert isinstance(e.value, KeyboardInterrupt) is (second is KeyboardInterrupt), "who handles an interrupt sees one"
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}


def test_a_version_file_that_exists_after_an_error_is_not_committed_once_more(tmp_path: Path) -> None:
    class ErrsAfterLinking(LocalFileIO):
        failing = 0

        def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
            super().write(location, data, overwrite=overwrite)
            if self.failing and location.endswith(".metadata.json"):
                raise CatalogUnavailableError(f"{location}: Input/output error")

        def read(self, location: str) -> bytes:
            if self.failing and location.endswith(".metadata.json"):
                self.failing -= 1
                raise CatalogUnavailableError(f"{location}: Input/output error")
            return super().read(location)

    io = ErrsAfterLinking()
    catalog = FileSystemCatalog("c", io, warehouse=str(tmp_path), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    table = make_table(catalog, properties={"commit.status-check.min-wait-ms": "0"})
    io.failing = 3
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),)))
    assert (done.attempts, len(catalog.load_table(IDENTIFIER).metadata.snapshots)) == (1, 1)


@pytest.mark.parametrize("keyed", [True, False])
def test_a_lost_answer_and_a_log_that_cannot_be_read_leave_the_outcome_unknown_and_all_files(
    keyed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Loses(SqlCatalog):
        meddle: Callable[[], object] | None = None

        def _swap_pointer(self, identifier: tuple[str, ...], expected: str, new: str) -> bool:
            done = super()._swap_pointer(identifier, expected, new)
            if self.meddle is None:
                return done
            meddle, self.meddle = self.meddle, None
            meddle()
            raise CatalogUnavailableError("Injected: the answer is lost")

    catalog = Loses("c", f"sqlite:///{tmp_path}/c.db", LocalFileIO(), warehouse=str(tmp_path / "wh"), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    table = make_table(catalog, properties={"commit.status-check.min-wait-ms": "0"})
    other = sql_catalog(tmp_path)

    def another_on_top() -> None:
        commit(other, other.load_table(IDENTIFIER), AppendFiles(added=(data_file("b"),)))
        from iceberg_ops.catalog import pointer

        def broken(io: Any, location: str) -> Any:
            monkeypatch.setattr(pointer, "read_metadata", metadata_files.read_metadata)
            raise CorruptTableError("Injected: the metadata file cannot be read")

        monkeypatch.setattr(pointer, "read_metadata", broken)

    catalog.meddle = another_on_top
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),), run_key="k" if keyed else None))
    now = other.load_table(IDENTIFIER)
    assert (done.attempts, live_paths(now), missing_metadata(now)) == (1, {"a", "b"}, [])


def missing_metadata(table: Table) -> list[str]:
    return [p for p in reachable_files(table) if p.endswith((".avro", ".json")) and not table.io.exists(p)]


class SaysRefused(Wrapped):
    """The first commit happens, and is reported as refused: what no catalog may do, and one did."""

    left = 1

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        done: Table = self.inner.commit_table(table, requirements, updates)
        if self.left:
            self.left -= 1
            raise CommitFailedError("Injected: refused")
        return done


@pytest.mark.parametrize("fast_forward", [True, False])
def test_a_pick_without_a_run_key_whose_refusal_did_happen_is_done_and_keeps_its_files(fast_forward: bool) -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    staged = commit(catalog, table, AppendFiles(added=(data_file("b"),), staged=True, summary={"wap.id": "w"})).table
    if not fast_forward:
        staged = commit(catalog, staged, AppendFiles(added=(data_file("c"),))).table
    done: Committed = commit(SaysRefused(catalog), staged, CherryPick(wap_id="w"), sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"a", "b"} | (set() if fast_forward else {"c"})
    assert done.table.metadata == now.metadata
    assert missing_metadata(now) == []


def test_two_commits_between_creating_a_version_and_looking_do_not_make_it_look_refused(tmp_path: Path) -> None:
    """The log holds one version: what came two commits later no longer names ours."""

    class Overtaken(LocalFileIO):
        others: tuple[Callable[[], object], ...] = ()

        def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
            super().write(location, data, overwrite=overwrite)
            if location.endswith(".metadata.json"):
                others, self.others = self.others, ()
                for other in others:
                    other()

    io = Overtaken()
    catalog = FileSystemCatalog("c", io, warehouse=str(tmp_path), sleep=lambda _: None)
    catalog.create_namespace(("ns",))
    properties = {
        "write.metadata.previous-versions-max": "1",
        "write.metadata.delete-after-commit.enabled": "true",
        "commit.status-check.min-wait-ms": "0",
    }
    table = make_table(catalog, properties=properties)
    plain = FileSystemCatalog("c", LocalFileIO(), warehouse=str(tmp_path))
    for commits in (1, 2, 3):
        table = plain.load_table(IDENTIFIER)

        def another(name: str) -> Callable[[], object]:
            return lambda: commit(plain, plain.load_table(IDENTIFIER), AppendFiles(added=(data_file(name),)))

        io.others = tuple(another(f"other-{commits}-{i}") for i in range(commits))
        done = commit(catalog, table, AppendFiles(added=(data_file(f"mine-{commits}"),)))
        now = plain.load_table(IDENTIFIER)
        assert done.attempts == 1
        assert missing_metadata(now) == []
        assert len(live_paths(now)) == sum(range(1, commits + 1)) + commits


def test_a_refused_commit_leaves_nothing_behind() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    before = {i.location for i in catalog.io.list_prefix(table.location)}

    def meddle() -> None:
        catalog.drop_table(IDENTIFIER)

    with pytest.raises(Exception, match="has no table"):
        commit(Meddles(catalog, meddle), table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    left = {i.location for i in catalog.io.list_prefix(table.location)} - before
    assert left, "the table is gone, so that nothing can be proven: what was written is left for remove_orphan_files"
