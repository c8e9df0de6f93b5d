"""The conflicts that make a commit wrong, one function per anomaly that it prevents.

Each checks only the commits of others since the operation started (``History``) and raises a ValidationError that names the
snapshot, its operation, the file and the partition, and in ``file_paths`` our affected files. Messages begin like those of Iceberg
Java, whose check each docstring names. An unknown change counts as a conflict: one refusal too many costs a retry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from iceberg_ops.commit.manifests.removals import PartitionPruning, RowFilter
from iceberg_ops.commit.protocol.changed_entries import ManifestTest
from iceberg_ops.commit.protocol.history import (
    ADDS_DATA,
    ADDS_DELETES,
    ANY_OPERATION,
    REMOVES_DATA,
    REMOVES_ROWS,
    REPLACES,
    History,
    base_snapshot,
    conflict,
)
from iceberg_ops.commit.validation.promoted_keys import unreached_keys, why_unreached
from iceberg_ops.errors import BadInputError, PartialMatchError, ValidationError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE
from iceberg_ops.io.locations import identity_under, location_identity
from iceberg_ops.scan.delete_index import DeleteIndex, scoped_path
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partition_keys import PartitionKey, partition_key
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table

NewDelete = tuple[Snapshot, DataFile]
"""A delete file and the snapshot that added it."""
DeleteTest = Callable[[DataFile], bool]


def no_unseen_rows(history: History, rows: RowFilter) -> None:
    """Prevents write skew: rows that the operation should have seen appeared (Java: validateAddedDataFiles, by filter)."""
    for snapshot, entry in history.added_data(ADDS_DATA, rows.may_match_manifest):
        if rows.may_match(entry.data_file):
            raise conflict(
                f"Found conflicting files that can contain records matching {rows.expression}: {entry.data_file.file_path}",
                snapshot,
                entry.data_file,
            )


def no_unseen_rows_in_partitions(table: Table, history: History, partitions: frozenset[PartitionKey] | None) -> None:
    """Prevents losing rows that were added to a partition while it was being replaced (Java: validateAddedDataFiles, by partition).
    ``partitions`` None: the whole table."""
    for snapshot, entry in history.added_data(ADDS_DATA, _manifests_of_partitions(table, partitions)):
        if _is_in(entry.data_file, partitions):
            raise conflict(
                f"Found conflicting files that can contain records matching partitions: {entry.data_file.file_path}",
                snapshot,
                entry.data_file,
            )


def no_vanished_rows(history: History, rows: RowFilter) -> None:
    """Prevents bringing back rows that another commit removed with their files (Java: validateDeletedDataFiles, by filter)."""
    for snapshot, entry in history.removed_data(REMOVES_DATA, rows.may_match_manifest):
        if rows.may_match(entry.data_file):
            raise conflict(
                f"Found conflicting deleted files that can contain records matching {rows.expression}: {entry.data_file.file_path}",
                snapshot,
                entry.data_file,
            )


def no_vanished_rows_in_partitions(table: Table, history: History, partitions: frozenset[PartitionKey] | None) -> None:
    """The same for replaced partitions (Java: validateDeletedDataFiles, by partition)."""
    for snapshot, entry in history.removed_data(REMOVES_DATA, _manifests_of_partitions(table, partitions)):
        if _is_in(entry.data_file, partitions):
            raise conflict(
                f"Found conflicting deleted files that can apply to records matching partitions: {entry.data_file.file_path}",
                snapshot,
                entry.data_file,
            )


def no_lost_update(history: History, rows: RowFilter, *, except_vectors: bool = False) -> None:
    """Prevents lost updates and deletes: another commit deleted rows that this operation rewrites (Java:
    validateNoNewDeleteFiles).

    ``except_vectors``: deletion vectors are left to ``no_row_changed_twice``, which compares rows, not partitions."""
    for snapshot, entry in history.added_deletes(ADDS_DELETES, rows.may_match_manifest):
        if except_vectors and entry.data_file.is_deletion_vector:
            continue
        if rows.may_match_partition(entry.data_file):
            raise conflict(
                f"Found new conflicting delete files that can apply to records matching {rows.expression}: "
                f"{entry.data_file.file_path}",
                snapshot,
                entry.data_file,
            )


def no_lost_update_in_partitions(table: Table, history: History, partitions: frozenset[PartitionKey] | None) -> None:
    """The same for replaced partitions. A global equality delete affects every partition."""
    for snapshot, entry in history.added_deletes(ADDS_DELETES, lambda m: True):
        if _is_in(entry.data_file, partitions) or _is_global(table, entry.data_file):
            raise conflict(
                f"Found new conflicting delete files that can apply to records matching partitions: {entry.data_file.file_path}",
                snapshot,
                entry.data_file,
            )


def no_change_of_rows_read(history: History, *, additions: bool) -> None:
    """Prevents a result that no order of the two commits gives: any rows of the table may have decided this commit, and another
    commit removed or deleted some, or added some (``additions``). Example: two removals of duplicates, each of the row that the
    other one keeps. A rewrite changes no row. Java has no such check."""
    changes = chain(
        history.added_data(ADDS_DATA, lambda m: True) if additions else (),
        history.removed_data(REMOVES_ROWS, lambda m: True),
        history.added_deletes(ADDS_DELETES, lambda m: True),
    )
    for snapshot, entry in changes:
        path = entry.data_file.file_path
        raise conflict(f"Found a change of rows that the statement read: {path}", snapshot, entry.data_file)


def no_missing_references(history: History, paths: Iterable[str], rows: RowFilter, *, forgive_deletes: bool) -> None:
    """Prevents position deletes for data files that are gone: their rows are now in other files, undeleted (Java:
    validateDataFilesExist).

    ``forgive_deletes``: a file that a delete removed with all its rows needs no position deletes."""
    identity = history.identity
    identities = {identity(p) for p in paths}
    if not identities:
        return
    for snapshot, entry in history.removed_data(REPLACES if forgive_deletes else REMOVES_DATA, rows.may_match_manifest):
        if identity(entry.data_file.file_path) in identities:
            raise conflict(
                f"Cannot commit, missing data files: {entry.data_file.file_path}",
                snapshot,
                entry.data_file,
                (entry.data_file.file_path,),
            )


def no_reference_added_again(table: Table, history: History, paths: Iterable[str], deletes: Sequence[DataFile]) -> None:
    """Prevents deleting rows by position that the statement never read: another commit added a data file that ``deletes`` name
    again (a folder imported twice), and position deletes reach every entry of a file in their partition (Java has no such
    check)."""
    by_position = [f for f in deletes if f.content is FileContent.POSITION_DELETES]
    identities = {history.identity(p) for p in paths}
    if not by_position or not identities:
        return
    pruning = PartitionPruning(table.metadata, by_position)
    for snapshot, entry in history.added_data(ANY_OPERATION, pruning.may_hold):
        if history.identity(entry.data_file.file_path) in identities:
            path = entry.data_file.file_path
            message = f"Cannot commit, a data file that is deleted from by position was added again concurrently: {path}"
            raise conflict(message, snapshot, entry.data_file, (path,))


def no_resurrected_rows(table: Table, history: History, replaced: Sequence[DataFile], *, ignore_equality_deletes: bool) -> None:
    """Prevents bringing back rows: concurrent deletes against files that are replaced (Java:
    validateNoNewDeletesForDataFiles).

    Equality deletes may be ignored if the new files keep the old data sequence number, so that those deletes apply to them too.
    Memory is proportional to the deletes that may affect the replaced files, not to the window.
    """
    counts = _is_by_position if ignore_equality_deletes else _any_delete
    new_deletes = new_deletes_for(table, history, replaced, counts)
    if new_deletes:
        file, (snapshot, delete) = new_deletes[0]
        kind = "position delete" if ignore_equality_deletes else "delete"
        message = f"Cannot commit, found new {kind} for replaced data file: {file.file_path}: {delete.file_path}"
        raise conflict(message, snapshot, delete, tuple(f.file_path for f, _ in new_deletes))


def no_other_row_ids(table: Table, history: History, removed: Sequence[DataFile], paths: Sequence[str] = ()) -> None:
    """Prevents giving rows new ids: they had none when they were read, because the table was not v3 then, and a concurrent commit
    gave them ids, which the new files do not hold (Java has no such check). ``removed`` are the files, or deletes, that remove the
    old rows; ``paths`` are the data files of these deletes."""
    start = history.start
    if not removed or table.metadata.format_version < 3 or start is None or start.first_row_id is not None:
        return
    if (snapshot := next((s for s in history.snapshots if s.first_row_id is not None), None)) is not None:
        changed = tuple(paths) or tuple(f.file_path for f in removed)
        message = f"Cannot commit, rows got their ids after they were read to be written again: {changed[0]}"
        raise conflict(message, snapshot, removed[0], changed)


def no_deletes_left_behind(table: Table, history: History, moved: Sequence[DataFile]) -> None:
    """Prevents bringing back rows that a concurrent equality delete removed: it reaches only rows of its own partition spec, and
    ``moved`` files are replaced by files of another spec (Java has no such check). Global equality deletes reach every spec."""
    new_deletes = new_deletes_for(table, history, moved, lambda f: is_by_equality(f) and not _is_global(table, f))
    if new_deletes:
        file, (snapshot, delete) = new_deletes[0]
        message = "Cannot commit, found new equality delete that does not reach the new partition spec of replaced data file"
        raise conflict(
            f"{message}: {file.file_path}: {delete.file_path}", snapshot, delete, tuple(f.file_path for f, _ in new_deletes)
        )


def no_rows_caught_up(table: Table, history: History, moved: Sequence[DataFile], added: Sequence[DataFile]) -> None:
    """Prevents losing rows of ``moved`` files to a concurrent equality delete in the partition spec of the ``added`` files: it did
    not reach the rows in their old place (Java has no such check)."""
    old = {f.spec_id for f in moved}
    new = [f for f in added if old - {f.spec_id}]
    new_deletes = new_deletes_for(table, history, new, lambda f: is_by_equality(f) and not _is_global(table, f))
    if new_deletes:
        file, (snapshot, delete) = new_deletes[0]
        message = "Cannot commit, found new equality delete in the partition spec that rows are moved to"
        raise conflict(f"{message}: {file.file_path}: {delete.file_path}", snapshot, delete, tuple(f.file_path for f in moved))


def no_rows_out_of_reach(table: Table, branch: str, added_deletes: Sequence[DataFile]) -> None:
    """Prevents duplicate keys: equality deletes reach only rows of their own partition, and since the upsert was planned, live data
    files of another spec were added, or a promotion gave rows of a key another partition (Java has no such check).
    """
    equality = [f for f in added_deletes if f.content is FileContent.EQUALITY_DELETES]
    if not equality or any(_is_global(table, f) for f in equality):
        return
    reached = {f.spec_id for f in equality}
    head, metadata = base_snapshot(table.metadata, branch), table.metadata
    specs = [metadata.specs_by_id[i] for i in reached if i in metadata.specs_by_id]
    manifests = manifests_of(table, head)
    if (moved := unreached_keys(table, manifests, specs, equality)) is not None:
        raise conflict(
            f"Cannot commit equality deletes of partition specs {sorted(reached)}: {why_unreached(table, moved)}, so that "
            f"by partition field {moved.field.name!r} rows of a key may lie in another partition",
            head,
            equality[0],
            tuple(f.file_path for f in equality),
        )
    for manifest in manifests:
        if manifest.content is ManifestContent.DATA and manifest.has_live_files and manifest.partition_spec_id not in reached:
            raise conflict(
                f"Cannot commit equality deletes of partition specs {sorted(reached)}: the branch has rows of partition spec "
                f"{manifest.partition_spec_id}, in {manifest.manifest_path}",
                head,
                equality[0],
                tuple(f.file_path for f in equality),
            )


def no_deletes_that_count_again(table: Table, history: History, builds_on: Sequence[int], removed: Sequence[DataFile]) -> None:
    """Prevents rows that come back: ``removed`` deletes were not needed because earlier commits, ``builds_on``, had replaced the
    other files they apply to, and a rollback brought these files back (Java has no such check)."""
    if (lost := history.lost(builds_on)) is not None:
        message = f"Cannot commit, what was replaced was rolled back, and needs deletes again: {removed[0].file_path}"
        raise conflict(message, table.metadata.snapshots_by_id.get(lost), removed[0], tuple(f.file_path for f in removed))


def is_by_equality(delete: DataFile) -> bool:
    return delete.content is FileContent.EQUALITY_DELETES


def _is_by_position(delete: DataFile) -> bool:
    return delete.content is FileContent.POSITION_DELETES


def _any_delete(delete: DataFile) -> bool:
    return True


def new_deletes_for(
    table: Table,
    history: History,
    replaced: Sequence[DataFile],
    counts: DeleteTest = _any_delete,
    *,
    bounds_of: Collection[int] | None = None,
) -> list[tuple[DataFile, NewDelete]]:
    """Each replaced file with one delete of the window that ``counts`` and applies to it. ``bounds_of``: the columns, by field id,
    whose bounds may exclude an equality delete; None: every column."""
    if not replaced or table.metadata.format_version < 2:
        return []
    vectors, others = _relevant_deletes(table, history, replaced, counts)
    if not vectors and not others:
        return []
    identity = identity_under(table.io)
    fields = table.metadata.all_fields_by_id
    index = DeleteIndex(
        (DeleteFile(f, number) for _, f, number in others),
        specs_by_id=table.metadata.specs_by_id,
        fields_by_id=fields if bounds_of is None else {i: f for i, f in fields.items() if i in bounds_of},
        identity=identity,
    )
    snapshots = {(f.file_path, f.content_offset): s for s, f, _ in others}
    new_deletes: list[tuple[DataFile, NewDelete]] = []
    for file in replaced:
        change = vectors.get(identity(file.file_path))
        if change is None:
            for delete in index.for_data_file(file, 0):
                change = (snapshots[(delete.data_file.file_path, delete.data_file.content_offset)], delete.data_file)
                break
        if change is not None:
            new_deletes.append((file, change))
    return new_deletes


def _relevant_deletes(
    table: Table, history: History, replaced: Sequence[DataFile], counts: DeleteTest
) -> tuple[dict[str, NewDelete], list[tuple[Snapshot, DataFile, int]]]:
    """(deletion vectors by data file, other deletes) that may affect the replaced files. It is not an error if a vector is replaced
    twice in the window: the last one counts."""
    names: set[str] = set()
    own_paths: set[str] = set()
    identity = identity_under(table.io)
    pruning = PartitionPruning(table.metadata, replaced)
    partitions = pruning.partitions
    vectors: dict[str, NewDelete] = {}
    others: list[tuple[Snapshot, DataFile, int]] = []
    for snapshot, entry in history.added_deletes(ANY_OPERATION, lambda m: pruning.may_hold(m) or _may_be_global(table, m)):
        f = entry.data_file
        if history.effective_operation(snapshot) not in ADDS_DELETES and not _may_convert(snapshot):
            continue
        if not counts(f):
            continue
        if f.is_deletion_vector:
            names = names or {identity(r.file_path) for r in replaced}
            if (name := identity(f.referenced_data_file or "")) in names:
                vectors[name] = (snapshot, f)
        elif (path := scoped_path(f)) is not None:
            own_paths = own_paths or {identity(r.file_path) for r in replaced}
            if identity(path) in own_paths:
                others.append((snapshot, f, entry.sequence_number or 0))
        elif partition_key(f.spec_id, f.partition) in partitions or _is_global(table, f):
            others.append((snapshot, f, entry.sequence_number or 0))
    return vectors, others


def _may_convert(snapshot: Snapshot) -> bool:
    """Whether a rewrite of delete files may have turned equality deletes into position deletes: sequence numbers then no longer
    show what they removed, so ignoring equality deletes would lose it. (Iceberg Java has no such rewrite and does not check.)"""
    summary = snapshot.summary
    if summary_keys.ADDED_DELETE_FILES not in summary:
        return summary_keys.TOTAL_DELETE_FILES not in summary
    return any(
        summary.get(key, "0") != "0" for key in (summary_keys.REMOVED_EQUALITY_DELETE_FILES, summary_keys.REMOVED_EQUALITY_DELETES)
    )


def no_second_deletion_vector(history: History, added: Iterable[DataFile], rows: RowFilter) -> None:
    """Prevents losing the deletes of a concurrent vector for the same data file: one vector replaces the other (Java:
    validateAddedDVs)."""
    identity = history.identity
    vectors = {identity(f.referenced_data_file or ""): f for f in added if f.is_deletion_vector}
    if not vectors:
        return
    for snapshot, entry in history.added_deletes(ANY_OPERATION, rows.may_match_manifest):
        f = entry.data_file
        if f.is_deletion_vector and (mine := vectors.get(identity(f.referenced_data_file or ""))) is not None:
            raise conflict(
                f"Found concurrently added DV for {mine.referenced_data_file}: {f.file_path}",
                snapshot,
                f,
                (mine.referenced_data_file or "",),
            )


def no_row_changed_twice(
    table: Table, theirs: ManifestEntry, deleted_here: npt.NDArray[np.int64], deleted_there: npt.NDArray[np.int64]
) -> None:
    """Prevents lost updates row by row: a row that this operation rewrites is deleted by ``theirs``, a deletion vector for the same
    data file that the operation did not see (Java refuses any such vector: validateAddedDVs)."""
    twice = np.intersect1d(deleted_here, deleted_there)
    if len(twice):
        f = theirs.data_file
        raise conflict(
            f"Found concurrently added DV for {f.referenced_data_file}: {f.file_path} deletes row {int(twice[0])}, which this "
            f"commit rewrites",
            table.metadata.snapshots_by_id.get(theirs.snapshot_id or -1),
            f,
            (f.referenced_data_file or "",),
        )


def no_deletes_for_own_removals(table: Table, removed: Iterable[DataFile], added_deletes: Iterable[DataFile]) -> None:
    """Prevents a commit that removes a data file and also deletes rows of it (Java: RowDelta, "Cannot delete data files")."""
    identity = identity_under(table.io)
    gone = {identity(f.file_path) for f in removed}
    named = [f.referenced_data_file for f in added_deletes if f.referenced_data_file and identity(f.referenced_data_file) in gone]
    if named:
        raise ValidationError(
            f"Cannot delete data files {named[:10]} that are referenced by new delete files",
            file_path=named[0],
            file_paths=tuple(named),
        )


def no_foreign_rows(rows: RowFilter, added: Iterable[DataFile]) -> None:
    """Prevents an overwrite from adding rows outside its filter, which a rerun would duplicate
    (Java: validateAddedFilesMatchOverwriteFilter)."""
    for f in added:
        if not rows.matches_all(f):
            raise PartialMatchError(
                f"Cannot append file with rows that do not match filter: {rows.expression}: {f.file_path}",
                file_path=f.file_path,
                file_paths=(f.file_path,),
            )


def no_wrong_delete_format(table: Table, history: History, added: Iterable[DataFile]) -> None:
    """Prevents deletes that the table's readers do not apply; checked on every attempt. If they fit the table as the caller saw it,
    the table was upgraded since: that is a conflict."""
    now, then = table.metadata.format_version, history.callers.format_version
    for f in added:
        if wrong := _wrong_for(now, f):
            if now != then and not _wrong_for(then, f):
                message = f"Cannot commit, the table was upgraded from v{then} to v{now}: {wrong}: {f.file_path}"
                raise ValidationError(message, file_path=f.file_path, file_paths=(f.file_path,))
            raise BadInputError(f"{wrong}: {f.file_path}")


def _wrong_for(format_version: int, f: DataFile) -> str | None:
    """Why a delete file does not fit a table of the format version; None if it fits."""
    if format_version < 2:
        return f"Deletes are not supported in V{format_version}"
    if f.is_deletion_vector and format_version < 3:
        return f"Must not use DVs for position deletes in V{format_version}"
    if f.content is FileContent.POSITION_DELETES and not f.is_deletion_vector and format_version >= 3:
        return f"Must use DVs for position deletes in V{format_version}"
    if f.is_deletion_vector and (f.referenced_data_file is None or f.content_offset is None or f.content_size_in_bytes is None):
        return "A deletion vector needs its data file, offset and size"
    if (f.content is FileContent.EQUALITY_DELETES) != bool(f.equality_ids):
        return "An equality delete file, and no other, needs equality field ids"
    return None


def no_unknown_columns(table: Table, added: Iterable[DataFile]) -> None:
    """Prevents equality deletes by a column that was dropped concurrently: readers could not compare it."""
    known = table.schema.fields_by_id
    for f in added:
        if lost := [i for i in f.equality_ids or () if i not in known]:
            raise ValidationError(
                f"Cannot commit {f.file_path}: its equality field {lost[0]} is not in schema {table.schema.schema_id}",
                file_path=f.file_path,
                file_paths=(f.file_path,),
            )


def no_file_twice(added: Iterable[DataFile]) -> None:
    """Prevents adding one file twice, which would double its rows, and two deletion vectors for one data file, of which only one
    would be applied."""
    seen: set[tuple[str, str]] = set()
    for f in added:
        if f.is_deletion_vector:
            key = ("vector", location_identity(f.referenced_data_file or ""))
            what = f"a deletion vector for {f.referenced_data_file}"
        else:
            key, what = ("file", location_identity(f.file_path)), f"file {f.file_path}"
        if key in seen:
            raise BadInputError(f"{what} is added twice by one commit")
        seen.add(key)


def every_row(table: Table) -> RowFilter:
    """A filter that matches every row."""
    return RowFilter(table, ALWAYS_TRUE)


def _manifests_of_partitions(table: Table, partitions: frozenset[PartitionKey] | None) -> ManifestTest:
    pruning = PartitionPruning(table.metadata, (), partitions or ())
    return lambda m: partitions is None or pruning.may_hold(m)


def _is_in(f: DataFile, partitions: frozenset[PartitionKey] | None) -> bool:
    return partitions is None or partition_key(f.spec_id, f.partition) in partitions


def _is_global(table: Table, f: DataFile) -> bool:
    spec = table.metadata.specs_by_id.get(f.spec_id)
    return f.content is FileContent.EQUALITY_DELETES and (spec is None or spec.is_unpartitioned)


def _may_be_global(table: Table, manifest: ManifestFile) -> bool:
    spec = table.metadata.specs_by_id.get(manifest.partition_spec_id)
    return spec is None or spec.is_unpartitioned
