"""Removes whole data files, by value, by path or by filter (Java: DeleteFiles, StreamingDelete).

A filter removes files whose rows all match and keeps those without a match. A file of which only some rows may match is refused
with the advice to use a row-level job. Deleting rows is correct whatever others commit, so only existence is checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_ops.commit.manifests.removals import Removals
from iceberg_ops.commit.manifests.snapshot_draft import Changes, SnapshotDraft
from iceberg_ops.commit.manifests.snapshot_operation import SnapshotOperationFields
from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.errors import BadInputError
from iceberg_ops.expressions.predicates import ALWAYS_FALSE, Expression
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.snapshots import SnapshotOperation
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class DeleteFiles(SnapshotOperationFields):
    """At least one of ``filter``, ``paths`` and ``files``. ``must_exist``: a named file that is not live is an error."""

    filter: Expression | None = None
    paths: tuple[str, ...] = ()
    files: tuple[DataFile, ...] = ()
    must_exist: bool = False
    case_sensitive: bool = False
    name: str = "delete"

    def __post_init__(self) -> None:
        if self.filter is None and not self.paths and not self.files:
            raise BadInputError("delete needs a filter, paths or files")

    def validate(self, table: Table, history: History) -> None:
        return None

    def stage(self, prepared: SnapshotDraft, table: Table) -> StagedCommit:
        removals = Removals(
            files=self.files,
            paths=self.paths,
            matching=self.filter if self.filter is not None else ALWAYS_FALSE,
            case_sensitive=self.case_sensitive,
            must_exist=self.must_exist,
        )
        return prepared.stage(table, self.target, Changes(operation=SnapshotOperation.DELETE, removals=removals))
