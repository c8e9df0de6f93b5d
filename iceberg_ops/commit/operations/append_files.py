"""Adds data files (Java: FastAppend and MergeAppend). Concurrent changes of rows cannot make an append wrong, so only columns are
validated; but files that another writer can also add (an import) may already be in the table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iceberg_ops.commit.manifests.appended_manifests import forbid_unfit
from iceberg_ops.commit.manifests.snapshot_draft import Changes, NewFile, SnapshotDraft
from iceberg_ops.commit.manifests.snapshot_operation import SnapshotOperationFields
from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.commit.validation import imported_again, schema_conflicts
from iceberg_ops.errors import BadInputError
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.requirements import same_heads
from iceberg_ops.spec.snapshots import SnapshotOperation
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class AppendFiles(SnapshotOperationFields):
    """Append ``added``, and the files of ``manifests``, which are added unchanged (``appended_manifests``). ``merge`` False
    writes one more manifest and does not change the others (fast, but the number of manifests grows)."""

    added: tuple[DataFile, ...] = ()
    manifests: tuple[ManifestFile, ...] = ()
    merge: bool = True
    only_new: bool = False
    """No file of ``added`` may have been added since the starting snapshot, to any branch."""
    name: str = "append"

    def __post_init__(self) -> None:
        if wrong := next((f for f in self.added if f.content is not FileContent.DATA), None):
            raise BadInputError(f"append takes data files only: {wrong.file_path} holds {wrong.content.name.lower()}")
        validation.no_file_twice(self.added)
        forbid_unfit(self.manifests)

    def validate(self, table: Table, history: History) -> None:
        schema_conflicts.no_files_of_other_columns(table, history, self.added, self.manifests)
        if self.only_new:
            imported_again.no_file_added_meanwhile(table, history, self.added)

    def stage(self, prepared: SnapshotDraft, table: Table) -> StagedCommit:
        changes = Changes(
            operation=SnapshotOperation.APPEND,
            data=tuple(NewFile(f) for f in self.added),
            manifests=self.manifests,
            merge=self.merge,
        )
        staged = prepared.stage(table, self.target, changes)
        return replace(staged, requirements=(*staged.requirements, *same_heads(table.metadata))) if self.only_new else staged
