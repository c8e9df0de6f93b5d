"""A copy of the table has its uuid, and may take its name while a job runs: no file of the original is deleted because of the copy,
and no plan for the original is committed to the copy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.groups import data_file_groups
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire, resume_expiry, write_intent
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.protocol.ledger import LEDGER_SIZE
from iceberg_ops.config.properties import LEDGER_PREFIX
from iceberg_ops.deletion.gate import delete_unreferenced
from iceberg_ops.errors import CatalogUnavailableError, CommitStateUnknownError, IncompleteError, ValidationError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.table.metadata_files import ledger_files
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.actions.lake import make_lake, numbered
from tests.actions.test_housekeeping import later
from tests.actions.test_rewrite_data_files import Meddling, Once, small_files
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import Wrapped

COPY = ("ns", "copy")
ALL = ExpireSnapshots(older_than_ms=2**60, retain_last=1)


def registered(catalog: MemoryCatalog, table: Table) -> None:
    """The same metadata file under another name, as other engines register it."""
    catalog._pointers[COPY] = table.metadata_location


def with_paths_rewritten(catalog: MemoryCatalog, table: Table) -> None:
    """As Spark's rewrite_table_path does it, of a version without snapshots."""
    nothing = {"snapshots": [], "current-snapshot-id": -1, "refs": {}, "snapshot-log": []}
    _copied_folder(catalog, table, lambda text: json.loads(text.replace(table.location, f"{table.location}_copy")) | nothing)


def with_another_location(catalog: MemoryCatalog, table: Table) -> None:
    """A copied folder, and only the location is changed in its metadata."""
    _copied_folder(catalog, table, lambda text: json.loads(text) | {"location": f"{table.location}_copy"})


def _copied_folder(catalog: MemoryCatalog, table: Table, metadata: Callable[[str], dict[str, Any]]) -> None:
    for info in list(catalog.io.list_prefix(table.location)):
        data = catalog.io.read(info.location)
        if info.location.endswith(".metadata.json"):
            data = json.dumps(metadata(data.decode())).encode()
        catalog.io.write(info.location.replace(table.location, f"{table.location}_copy"), data)
    catalog._pointers[COPY] = table.metadata_location.replace(table.location, f"{table.location}_copy")


every_copy = pytest.mark.parametrize("copied", [registered, with_paths_rewritten, with_another_location])
every_log = pytest.mark.parametrize("logged", ["100", "1"], ids=["long log", "log of one version"])
Copied = Callable[[MemoryCatalog, Table], None]


def append(catalog: Any, name: tuple[str, ...], *files: str, table: Table | None = None, **more: Any) -> Table:
    table = table or catalog.load_table(name)
    locations = [f"{table.location}/data/{file}" for file in files]
    for location in locations:
        catalog.io.write(location, b"x", overwrite=True)
    return commit(catalog, table, AppendFiles(added=tuple(map(data_file, locations)), **more), sleep=lambda _: None).table


def original(logged: str) -> MemoryCatalog:
    catalog = make_catalog()
    make_table(catalog, properties={"write.metadata.previous-versions-max": logged})
    append(catalog, IDENTIFIER, "a")
    append(catalog, IDENTIFIER, "b")
    return catalog


def diverged(copied: Copied, logged: str) -> MemoryCatalog:
    """The table and its copy, which others have committed to since."""
    catalog = original(logged)
    copied(catalog, catalog.load_table(IDENTIFIER))
    for name in "cd":
        append(catalog, IDENTIFIER, name)
    for name in "xyz":
        append(catalog, COPY, name)
    return catalog


def exchange_names(catalog: MemoryCatalog) -> None:
    pointers = catalog._pointers
    pointers[IDENTIFIER], pointers[COPY] = pointers[COPY], pointers[IDENTIFIER]


def lost(catalog: MemoryCatalog, name: tuple[str, ...]) -> list[str]:
    """Files that the table of that name needs and that are gone."""
    return [location for location in reachable_files(catalog.load_table(name)) if not catalog.io.exists(location)]


@every_copy
@every_log
def test_the_gate_deletes_nothing_that_the_copy_lacks(copied: Copied, logged: str) -> None:
    catalog = diverged(copied, logged)
    table = catalog.load_table(IDENTIFIER)
    exchange_names(catalog)
    done = delete_unreferenced(table, lambda: catalog.load_table(IDENTIFIER), [f"{table.location}/data/d"])
    assert (done.deleted, len(done.kept)) == ((), 1)
    assert done.kept[0].reason.startswith("test.ns.t is now a different table: ")
    assert lost(catalog, COPY) == []


@every_copy
@every_log
def test_what_was_planned_on_the_table_is_not_committed_to_its_copy(copied: Copied, logged: str) -> None:
    catalog = diverged(copied, logged)
    table = catalog.load_table(IDENTIFIER)
    exchange_names(catalog)
    with pytest.raises(ValidationError, match="is not the one this work was planned on: its"):
        append(catalog, IDENTIFIER, "new", table=table)


class ExchangesNames(Wrapped):
    """Right before the first commit the copy takes the name; or right after it, and the answer to the commit is lost."""

    def __init__(self, inner: Any, *, answers: bool) -> None:
        super().__init__(inner)
        self.commits, self.answers = 0, answers

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> Table:
        self.commits += 1
        if self.commits == 1 and self.answers:
            exchange_names(self.inner)
        done: Table = self.inner.commit_table(table, requirements, updates)
        if self.commits == 1 and not self.answers:
            exchange_names(self.inner)
            append(self.inner, IDENTIFIER, "w")
            raise CommitStateUnknownError("no answer")
        return done


@every_copy
@every_log
def test_a_copy_that_takes_the_name_right_before_the_swap_gets_nothing(copied: Copied, logged: str) -> None:
    catalog = diverged(copied, logged)
    with pytest.raises(ValidationError, match="is not the one this work was planned on: its"):
        append(ExchangesNames(catalog, answers=True), IDENTIFIER, "new")
    assert not any(path.endswith("/new") for name in (IDENTIFIER, COPY) for path in live_paths(catalog.load_table(name)))


@every_copy
@every_log
def test_a_swap_without_an_answer_is_not_looked_up_in_the_copy(copied: Copied, logged: str) -> None:
    """The copy has another snapshot of the sequence number: if it were treated as the table, the swap would look refused."""
    catalog = diverged(copied, logged)
    with pytest.raises(CommitStateUnknownError, match="the outcome is unknown after"):
        append(ExchangesNames(catalog, answers=False), IDENTIFIER, "new", run_key="k")
    assert any(path.endswith("/new") for path in live_paths(catalog.load_table(COPY)))
    assert lost(catalog, COPY) == []


@pytest.mark.parametrize("lost_by", ["the catalog", "the store of pointers"])
def test_a_swap_without_an_answer_is_looked_for_under_other_names_before_it_counts_as_refused(
    lost_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is registered twice in the state on which the commit builds: only that state is in either history."""
    catalog = original("100")
    registered(catalog, catalog.load_table(IDENTIFIER))
    swap, swaps = catalog._swap_pointer, list[str]()

    def without_answer(identifier: tuple[str, ...], expected: str, new: str) -> bool:
        done = swap(identifier, expected, new)
        swaps.append(new)
        if len(swaps) == 1:
            exchange_names(catalog)
            append(catalog, IDENTIFIER, "w")
            raise CatalogUnavailableError("no answer")
        return done

    committed_by: Any = ExchangesNames(catalog, answers=False)
    if lost_by == "the store of pointers":
        monkeypatch.setattr(catalog, "_swap_pointer", without_answer)
        committed_by = catalog
    with pytest.raises(CommitStateUnknownError):
        append(committed_by, IDENTIFIER, "new", run_key="k")
    assert any(path.endswith("/new") for path in live_paths(catalog.load_table(COPY)))
    assert lost(catalog, COPY) == []


@every_copy
@every_log
def test_an_expiry_whose_table_gives_its_name_to_a_copy_deletes_nothing(copied: Copied, logged: str) -> None:
    catalog = diverged(copied, logged)

    def exchanged(_: object) -> None:
        exchange_names(catalog)
        append(catalog, IDENTIFIER, "w")

    with pytest.raises(IncompleteError, match=r"test\.ns\.t is now a different table: its"):
        expire(catalog, catalog.load_table(IDENTIFIER), ALL, on_commit=exchanged)
    assert lost(catalog, COPY) == []


@every_log
def test_an_orphan_removal_whose_table_gives_its_name_to_a_copy_while_it_lists_removes_nothing(
    logged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(properties={"write.metadata.previous-versions-max": logged})
    lake.append(numbered(0, 10))
    catalog: Any = lake.catalog
    registered(catalog, lake.table)
    lake.append(numbered(10, 20))
    lake.append(numbered(20, 30))
    for name in "xyz":
        append(catalog, COPY, name)
    before = {info.location for info in catalog.io.list_prefix(lake.table.location)}
    real = catalog.load_table
    loads: list[tuple[str, ...]] = []

    def load_table(identifier: tuple[str, ...]) -> Table:
        loads.append(identifier)
        if loads.count(IDENTIFIER) == 2:
            exchange_names(catalog)
            loads.append(IDENTIFIER)
        return real(identifier)  # type: ignore[no-any-return]

    monkeypatch.setattr(catalog, "load_table", load_table)
    with pytest.raises(ValidationError, match=r"is now a different table: its .*; no file was deleted"):
        lake.run("remove_orphan_files", now=lambda: later(9))
    assert before <= {info.location for info in catalog.io.list_prefix(lake.table.location)}


def test_groups_that_met_a_conflict_are_not_planned_again_on_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake()
    small_files(lake)
    catalog: Any = lake.catalog
    registered(catalog, lake.table)
    lake.append(numbered(0, 1))
    append(catalog, COPY, "x")
    append(catalog, COPY, "y")
    before = catalog.load_table(COPY)
    plan_again = data_file_groups._DataFileStrategy.plan_again

    def exchanged(strategy: Any, conflicted: Any) -> Any:
        exchange_names(catalog)
        return plan_again(strategy, conflicted)

    monkeypatch.setattr(data_file_groups._DataFileStrategy, "plan_again", exchanged)
    removed = Once(lambda: commit(catalog, lake.table, DeleteFiles(paths=(lake.tasks()[0].file_path,))))
    with pytest.raises(ValidationError, match="is now a different table"):
        lake.run("rewrite_data_files", runner=Meddling(removed))
    assert catalog.load_table(IDENTIFIER).metadata_location == before.metadata_location


@every_copy
@every_log
def test_a_note_of_an_expiry_that_was_copied_with_the_table_is_not_the_copys_to_finish(copied: Copied, logged: str) -> None:
    catalog = original(logged)
    note = write_intent(catalog.load_table(IDENTIFIER), ALL)
    copied(catalog, catalog.load_table(IDENTIFIER))
    append(catalog, COPY, "x")
    append(catalog, COPY, "y")
    assert resume_expiry(catalog, catalog.load_table(COPY)).finished == 0
    assert lost(catalog, IDENTIFIER) == []
    assert note is not None
    assert catalog.io.exists(note)


@every_copy
@every_log
def test_a_note_that_the_original_made_later_is_not_its_copys_to_finish(copied: Copied, logged: str) -> None:
    """The copy finds it beside the metadata that both have, and lacks its snapshots because it never had them."""
    catalog = original(logged)
    copied(catalog, catalog.load_table(IDENTIFIER))
    append(catalog, IDENTIFIER, "c")
    append(catalog, IDENTIFIER, "d")
    write_intent(catalog.load_table(IDENTIFIER), ALL)
    for name in "uvwxyz":
        append(catalog, COPY, name)
    assert resume_expiry(catalog, catalog.load_table(COPY)).finished == 0
    assert lost(catalog, IDENTIFIER) == []


@pytest.mark.parametrize("known", ["the place", "the log"])
def test_a_note_of_an_earlier_release_is_believed_where_the_log_has_what_its_writer_saw(known: str) -> None:
    catalog = original("100")
    table = catalog.load_table(IDENTIFIER)
    location = write_intent(table, ALL)
    assert location is not None
    note = json.loads(catalog.io.read(location))
    for key in ("table-location", "metadata-log", *(("metadata-location",) if known == "the place" else ())):
        del note[key]
    catalog.io.write(location, json.dumps(note).encode(), overwrite=True)
    after = commit(catalog, table, ALL).table
    gone = {s.manifest_list for s in table.metadata.snapshots} - {s.manifest_list for s in after.metadata.snapshots}
    assert resume_expiry(catalog, after).finished == (known == "the log")
    assert {catalog.io.exists(location or "") for location in gone} == {known != "the log"}


def test_a_copied_folder_in_the_place_of_the_original_gets_no_commit_though_its_version_has_the_same_name(tmp_path: Path) -> None:
    """A filesystem catalog counts the names of versions."""
    clock = count(1_000).__next__
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=f"{tmp_path}/wh", sleep=lambda _: None, clock=clock)
    catalog.create_namespace(("ns",))
    folder, original_folder, copied_folder = (Path(make_table(catalog).location), tmp_path / "original", tmp_path / "copy")
    shutil.copytree(folder, copied_folder)
    append(catalog, IDENTIFIER, "a")
    table = catalog.load_table(IDENTIFIER)
    folder.rename(original_folder)
    copied_folder.rename(folder)
    append(catalog, IDENTIFIER, "x")
    assert catalog.load_table(IDENTIFIER).metadata_location == table.metadata_location
    with pytest.raises(ValidationError, match="is not the one this work was planned on: its"):
        commit(catalog, table, UpdateProperties(updates={"a": "b"}), just_loaded=True, sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {f"{folder}/data/x"}


def test_a_copy_does_not_delete_the_file_in_which_the_original_remembers_run_keys() -> None:
    """A table property names it, which no rewriting of paths changes."""
    catalog = original("100")

    def with_long_ledger(name: tuple[str, ...], first: int) -> None:
        entries = {f"{LEDGER_PREFIX}append@main:k{first + n}": f"{n}@1" for n in range(LEDGER_SIZE + 1)}
        commit(catalog, catalog.load_table(name), UpdateProperties(updates=entries))
        append(catalog, name, f"{first}", run_key=f"{first}")
        append(catalog, name, f"{first}-later")
        expire(catalog, catalog.load_table(name), ALL)

    with_long_ledger(IDENTIFIER, 0)
    with_paths_rewritten(catalog, catalog.load_table(IDENTIFIER))
    known = ledger_files(catalog.load_table(IDENTIFIER).metadata)
    moved_back = {key: file for key, file in catalog.load_table(IDENTIFIER).properties.items() if file in known}
    commit(catalog, catalog.load_table(COPY), UpdateProperties(updates=moved_back))
    with_long_ledger(COPY, 1000)
    assert ledger_files(catalog.load_table(COPY).metadata) != known
    assert [catalog.io.exists(file) for file in known] == [True]
