"""A writer of another engine that deletes rows by copying: it removes a data file, and adds one with the rows that stay.

It is correct: the swap succeeds only on the head that it read. But it does not enter the removed file as the spec asks for: under
the snapshot that had added the file, as pyiceberg up to 0.11 does, or not at all. It may also call a snapshot that adds a file
``delete``, as iceberg-go does, and count in its summary every file of the table as deleted, as pyiceberg 0.6 to 0.8 does, or
nothing. Or it writes a copy of the manifest without the file, under the id of that manifest's snapshot, and counts the file as
deleted in the list only, as iceberg-rust does."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from iceberg_ops.errors import CommitFailedError, CommitStateUnknownError, IcebergOpsError
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import ManifestWriter, entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.torture.acts import Act
from tests.torture.foreign import MOST_SWAPS, new_id, some_branch, swap_in
from tests.torture.making import new_data
from tests.torture.rows import minus
from tests.torture.statements import Found, Pick, find
from tests.torture.stepping import Writer
from tests.torture.watched import MAIN
from tests.torture.world import World

UNDER_THE_ADDER, LEFT_OUT, AS_THE_SPEC_SAYS, IN_A_COPY = "under the adder", "left out", "as the spec says", "in a copy"
REMOVED_FILES = (UNDER_THE_ADDER, LEFT_OUT, AS_THE_SPEC_SAYS)


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How the other engine records its commit: the DELETED entry of the removed file, the name of the operation, and the number of
    deleted files in the summary (None: it is missing)."""

    removed: str
    operation: str = "overwrite"
    counts: Callable[[int], int] | None = None


def foreign_delete(world: World, w: Writer, *, habits: Habits | None = None, pick: Pick | None = None) -> None:
    """Delete rows of one file, chosen by ``pick``, by copying the others."""
    w.branch = some_branch(world, w)
    told = habits or Habits(
        removed=world.random.choice(REMOVED_FILES),
        operation=world.random.choice(["overwrite", "delete"]),
        counts=world.random.choice([None, lambda _: 1, lambda every: every]),
    )
    if habits is None and random.Random(f"{w.label} {world.tick} {world.made}").random() < world.shape.habits[0]:
        told = replace(told, removed=IN_A_COPY)  # Own random numbers, so that the schedules of existing seeds do not change.

    def work() -> None:
        for attempt in range(MOST_SWAPS):
            w.loads = []  # Each attempt is planned on the table that has the name then.
            found = find(world, w, pick or partial(one_without_deletes, world))
            if found is None or w.branch not in (MAIN, *found.table.metadata.refs):
                return
            w.effect = partial(minus, gone=found.rows)
            try:
                _swap(world, w, found, told, attempt)
            except CommitFailedError:
                continue
            except IcebergOpsError as e:
                raise CommitStateUnknownError(f"{e}") from e
            return

    world.attempt(w, Act("foreign"), work)


def one_without_deletes(world: World, tasks: list[FileScanTask]) -> list[FileScanTask]:
    """A file without deletes: this engine does not remove the deletes of a file that it removes."""
    known = [task for task in tasks if not task.deletes]
    return [world.random.choice(known)] if known else []


def _swap(world: World, w: Writer, found: Found, told: Habits, attempt: int) -> None:
    table, (gone,) = found.table, found.files
    w.committing_since = w.committing_since or w.started
    snapshot_id = new_id()
    added = new_data(world, table, found.kept) if found.kept else ()
    beside = [f for f in added if f.spec_id == gone.spec_id] if told.removed == IN_A_COPY else []
    manifests = without_files(table, manifests_of(table, found.head), snapshot_id, {gone.file_path}, told.removed, beside)
    if told.removed == IN_A_COPY:
        world.miscounted |= {m.manifest_path for m in manifests} - {m.manifest_path for m in manifests_of(table, found.head)}
    manifests = [*written(table, snapshot_id, [f for f in added if f not in beside]), *manifests]
    summary = {"operation": told.operation, "engine-name": "other"}
    if told.counts is not None:
        every = sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in _of_data(table, found.head))
        summary[summary_keys.DELETED_DATA_FILES] = str(told.counts(every))
    swap_in(w, table, snapshot_id, manifests, summary, attempt)


def written(table: Table, snapshot_id: int, added: Sequence[DataFile]) -> list[ManifestFile]:
    """A manifest of each spec's added files."""
    found: list[ManifestFile] = []
    for spec_id in sorted({f.spec_id for f in added}):
        writer = _writer(table, snapshot_id, spec_id)
        for f in added:
            if f.spec_id == spec_id:
                writer.add(f)
        found += writer.close()
    return found


def without_files(
    table: Table,
    manifests: Sequence[ManifestFile],
    snapshot_id: int,
    paths: Collection[str],
    removed: str,
    beside: Sequence[DataFile] = (),
) -> list[ManifestFile]:
    """The manifests; those with one of the files are rewritten, with its entry in the engine's form. Added files that the engine
    enters ``beside`` are in the copy too."""
    found: list[ManifestFile] = []
    for manifest in manifests:
        entries = entries_of(table, manifest, live_only=True) if manifest.content is ManifestContent.DATA else []
        gone = sum(e.data_file.file_path in paths for e in entries)
        if not gone:
            found.append(manifest)
            continue
        older = manifest.added_snapshot_id or snapshot_id
        writer = _writer(table, older if removed == IN_A_COPY else snapshot_id, manifest.partition_spec_id)
        for entry in entries_of(table, manifest) if removed == LEFT_OUT else ():
            if not entry.is_live:  # it copies what earlier snapshots removed
                writer.copy(entry)
        for entry in entries:
            if entry.data_file.file_path not in paths:
                writer.existing(entry)
            elif removed == UNDER_THE_ADDER:
                writer.copy(replace(entry, status=EntryStatus.DELETED))
            elif removed == AS_THE_SPEC_SAYS:
                writer.deleted(entry)
        for f in beside:
            writer.add(f)
        beside = ()
        found += [replace(m, deleted_files_count=gone) if removed == IN_A_COPY else m for m in writer.close()]
    return found


def _writer(table: Table, snapshot_id: int, spec_id: int) -> ManifestWriter:
    return ManifestWriter(table.metadata, table.io, spec_id=spec_id, content=ManifestContent.DATA, snapshot_id=snapshot_id)


def _of_data(table: Table, head: Snapshot) -> list[ManifestFile]:
    return [m for m in manifests_of(table, head) if m.content is ManifestContent.DATA]


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {"foreign delete": (4, foreign_delete)}
