"""A writer of another engine: it validates nothing, and continues with the partition spec and schema that it started with, like a
streaming upsert that was not restarted after the table was evolved.

It writes manifests and lists with the encoders of ``table``, reuses the parent's manifests unchanged, and swaps; if it is refused,
it repeats this on the new head. By the spec its equality deletes apply to files of their partition spec and partition. Sometimes it
adds its files to a copy of an older manifest, which keeps that manifest's snapshot id, and calls a snapshot of delete files an
``append``, as versions of iceberg-rust do.
"""

from __future__ import annotations

import dataclasses
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iceberg_ops.errors import CommitFailedError, CommitStateUnknownError, IcebergOpsError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_ops.spec.requirements import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
)
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import AddSnapshot, SetSnapshotRef, TableUpdate
from iceberg_ops.table.manifests import ManifestWriter, entries_of, manifests_of, write_manifest_list
from iceberg_ops.table.table import Table
from tests.torture.acts import Act
from tests.torture.making import as_orc, held, new_data, new_keys, some_rows
from tests.torture.rows import KIND, Row
from tests.torture.stepping import Writer
from tests.torture.watched import MAIN
from tests.torture.world import World

MOST_SWAPS = 6
COUNTS = tuple(f"{status}_{what}_count" for status in ("added", "existing", "deleted") for what in ("files", "rows"))


@dataclass(frozen=True, kw_only=True)
class Additions:
    """How the other engine enters the files that it adds (``in_copies``: of older manifests), the name of the operation (None: the
    spec's), and whether the manifest list of a v1 table has no counts."""

    in_copies: bool = False
    operation: str | None = None
    without_counts: bool = False


AS_THE_SPEC_SAYS = Additions()


def some_additions(world: World, w: Writer) -> Additions:
    """Uses its own random numbers, so that the schedules of existing seeds do not change."""
    dice, (in_copies, appends) = random.Random(f"{w.label} {world.tick} {world.made}"), world.shape.habits
    copies, operation = dice.random() < in_copies, "append" if dice.random() < appends else None
    return Additions(in_copies=copies, operation=operation, without_counts=world.shape.more_foreign and dice.random() < 0.5)


def begun_with(world: World, w: Writer) -> Table:
    """The table as the other engine's job loaded it at its start; sometimes the job is started again."""
    table = world.load(w)
    uuid = world.key_of(table)
    known = world.foreign.get(uuid)
    if known is None or world.random.random() < 0.15 or not is_read_by(known.schema, table.schema):
        world.foreign[uuid] = table
    return world.foreign[uuid]


def some_branch(world: World, w: Writer) -> str:
    """Main, or now and then another branch that is there."""
    dice, table = random.Random(f"branch {w.label} {world.tick} {world.made}"), world.table(w)
    others = [name for name in ("audit",) if world.shape.more_foreign and table is not None and name in table.models]
    return dice.choice(others) if others and dice.random() < 0.5 else MAIN


def foreign_append(world: World, w: Writer) -> None:
    w.branch = some_branch(world, w)
    old = begun_with(world, w)
    rows = some_rows(world, old)
    w.effect = lambda model: (*model, *rows)
    _commit(world, w, old, some_additions(world, w), its_data(world, w, old, rows))


def foreign_upsert(world: World, w: Writer, columns: Sequence[str] = (), additions: Additions | None = None) -> None:
    w.branch = some_branch(world, w)
    old = begun_with(world, w)
    if old.metadata.format_version < 2:
        return
    watched = world.of(old)
    rows = some_rows(world, old, 2)
    known = watched.rows(w.branch)
    kind = old.schema.find(KIND)
    for i, there in enumerate(world.random.sample(known, min(len(known), 2))):
        rows[i] = Row(there.region, there.id, 1000 * (1 + world.made) + i, held(kind, there.text))
    columns = columns or world.random.choice([["id"], ["region", "id"], ["id", KIND]])
    keys = new_keys(world, old, rows, columns, old.metadata.default_spec_id)
    w.effect = lambda model: keys.replaced(watched, rows)
    _commit(world, w, old, additions or some_additions(world, w), its_data(world, w, old, rows), keys.files)


def its_data(world: World, w: Writer, table: Table, rows: Sequence[Row]) -> tuple[DataFile, ...]:
    """Files of these rows, in a world with ORC often ORC."""
    files = new_data(world, table, rows)
    is_orc = world.shape.orc and random.Random(f"orc {w.label} {world.tick}").random() < 0.6
    return as_orc(world, files) if is_orc and all(f.file_path.endswith(".parquet") for f in files) else files


def _commit(
    world: World, w: Writer, old: Table, additions: Additions, data: Sequence[DataFile], deletes: Sequence[DataFile] = ()
) -> None:
    act = Act("foreign")
    world.attempt(w, act, lambda: _swap(w, old, additions, data, deletes), planned=old)


def _swap(w: Writer, old: Table, additions: Additions, data: Sequence[DataFile], deletes: Sequence[DataFile]) -> None:
    for attempt in range(MOST_SWAPS):
        now = w.catalog.load_table(old.identifier[1:])
        known = now.metadata.specs_by_id.keys() | {None}
        uuids = {table.metadata.table_uuid.lower() for table in (old, now)} - {""}
        if w.branch not in (MAIN, *now.metadata.refs):
            return
        if len(uuids) > 1 or old.metadata.default_spec_id not in known or not is_read_by(old.schema, now.schema):
            return
        try:
            swap_once(w, now, data, deletes, attempt, additions=additions)
        except CommitFailedError:
            continue
        except IcebergOpsError as e:
            raise CommitStateUnknownError(f"{e}") from e
        return


def is_read_by(old: Schema, now: Schema) -> bool:
    """Whether no column has another type now: the job is started again if its table was replaced."""
    return all(now.fields_by_id[i].type == f.type for i, f in old.fields_by_id.items() if i in now.fields_by_id)


def swap_once(
    w: Writer,
    now: Table,
    data: Sequence[DataFile],
    deletes: Sequence[DataFile],
    attempt: int,
    replacement: tuple[TableMetadata, Sequence[TableUpdate]] | None = None,
    *,
    additions: Additions = AS_THE_SPEC_SAYS,
) -> None:
    """Commit a snapshot of the table, or the first one of its ``replacement`` (the new metadata, and the updates to it)."""
    metadata = now.metadata if replacement is None else replacement[0]
    w.committing_since = w.committing_since or w.started
    snapshot_id = new_id()
    table = now if replacement is None else dataclasses.replace(now, metadata=metadata)
    found = with_files(table, snapshot_id, manifests_of(now, head_of(metadata, w.branch)), data, deletes, additions)
    summary = {"operation": additions.operation or ("overwrite" if deletes else "append"), "engine-name": "other"}
    swap_in(w, now, snapshot_id, found, summary, attempt, replacement, without_counts=additions.without_counts)


def with_files(
    table: Table,
    snapshot_id: int,
    manifests: Sequence[ManifestFile],
    data: Sequence[DataFile],
    deletes: Sequence[DataFile],
    additions: Additions,
) -> list[ManifestFile]:
    """The manifests, and those that add the files."""
    found = list(manifests)
    for content, files in ((ManifestContent.DATA, data), (ManifestContent.DELETES, deletes)):
        if files:
            older = older_manifest(found, content, files[0].spec_id) if additions.in_copies else None
            mine = snapshot_id if older is None else older.added_snapshot_id
            writer = ManifestWriter(table.metadata, table.io, spec_id=files[0].spec_id, content=content, snapshot_id=mine)
            for entry in () if older is None else entries_of(table, older, live_only=True):
                writer.existing(entry)
            for f in files:
                writer.add(f)
            found = [*writer.close(), *(m for m in found if m is not older)]
    return found


def older_manifest(manifests: Sequence[ManifestFile], content: ManifestContent, spec_id: int) -> ManifestFile | None:
    """One to which files of the spec may be added."""
    return next((m for m in manifests if (m.content, m.partition_spec_id) == (content, spec_id)), None)


def head_of(metadata: TableMetadata, branch: str) -> Snapshot | None:
    return metadata.current_snapshot if branch == MAIN else metadata.branch_head(branch)


def new_id() -> int:
    return secrets.randbits(62) + 1


def swap_in(
    w: Writer,
    now: Table,
    snapshot_id: int,
    manifests: Sequence[ManifestFile],
    summary: Mapping[str, str],
    attempt: int,
    replacement: tuple[TableMetadata, Sequence[TableUpdate]] | None = None,
    *,
    staged: bool = False,
    without_counts: bool = False,
    more: Sequence[TableUpdate] = (),
) -> None:
    """Commit a snapshot of these manifests on the writer's branch, or beside it (``staged``); a v1 list may be
    ``without_counts``, or there is none. ``more``: updates that come first."""
    if without_counts and now.metadata.format_version == 1:
        manifests = [dataclasses.replace(m, **dict.fromkeys(COUNTS)) for m in manifests]
    elif w.unknowing and now.metadata.format_version > 1:
        manifests = [without_numbers(m, now.metadata.format_version) for m in manifests]
    metadata, io = now.metadata if replacement is None else replacement[0], now.io
    parent = head_of(metadata, w.branch)
    head = None if parent is None else parent.snapshot_id
    number = 0 if metadata.format_version < 2 else metadata.last_sequence_number + 1
    embeds = w.embeds and metadata.format_version == 1 and bool(manifests)
    written = (
        None
        if embeds
        else write_manifest_list(
            metadata, io, manifests, snapshot_id=snapshot_id, parent_snapshot_id=head, sequence_number=number, attempt=attempt
        )
    )
    first_row_id = (metadata.next_row_id or 0) if metadata.format_version >= 3 else None
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head,
        sequence_number=number,
        timestamp_ms=metadata.last_updated_ms,
        manifest_list=None if written is None else written.location,
        manifests=tuple(m.manifest_path for m in manifests) if embeds else None,
        summary=summary,
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=None if first_row_id is None or written is None else (written.next_row_id or 0) - first_row_id,
    )
    ref = None if w.branch == MAIN else metadata.ref(w.branch)
    ref = SnapshotRef(snapshot_id=snapshot_id) if ref is None else dataclasses.replace(ref, snapshot_id=snapshot_id)
    moved = () if staged else (SetSnapshotRef(w.branch, ref),)
    updates = (*more, AddSnapshot(snapshot), *moved)
    if replacement is None:
        w.catalog.commit_table(now, (*same_uuid(now), AssertRefSnapshotId(w.branch, head)), updates)
    else:
        w.catalog.commit_table(now, as_loaded(now), (*replacement[1], *updates))


def without_numbers(m: ManifestFile, version: int) -> ManifestFile:
    """As iceberg-go and DuckDB list a manifest of earlier commits of which they do not know the numbers; row ids need those of
    rows."""
    if m.sequence_number == UNASSIGNED:
        return m
    names = [name for name in COUNTS if "files" in name or version < 3 or m.first_row_id is not None]
    return dataclasses.replace(m, min_sequence_number=UNASSIGNED, **dict.fromkeys(names, -1))


def as_loaded(table: Table) -> tuple[TableRequirement, ...]:
    """The base of a replacement: its ids continue from this one's."""
    metadata = table.metadata
    head = metadata.current_snapshot
    return (
        *same_uuid(table),
        AssertCurrentSchemaId(metadata.current_schema_id),
        AssertDefaultSpecId(metadata.default_spec_id),
        AssertLastAssignedFieldId(metadata.last_column_id),
        AssertLastAssignedPartitionId(metadata.last_partition_id),
        AssertRefSnapshotId(MAIN, None if head is None else head.snapshot_id),
    )


def same_uuid(table: Table) -> tuple[TableRequirement, ...]:
    return (AssertTableUUID(table.metadata.table_uuid),) if table.metadata.table_uuid else ()


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "foreign append": (2, foreign_append),
    "foreign upsert": (5, foreign_upsert),
}
