"""The protocol between row operations and engines: an engine finds the rows of a statement and writes the new ones.

``append``, ``overwrite``, ``delete``, ``update``, ``merge`` and ``upsert`` are implemented here for every engine: plan, evaluate,
write, commit, report. An engine only evaluates and writes. Lane local uses Arrow in this process (``local_engine``), ``spark_jobs``
uses Spark; ``dispatch.run_job`` gets the engine as an argument.

**Input.** The ``Run`` of one evaluation: its table is the snapshot to read, its ``operation_id`` is in the name of each file that
the engine writes, and the engine adds each other table that it reads to its ``outcome.reads``. A delete, update or merge is given
as a ``Statement``, whose data files that may match are already planned.

**Output.** Values: data files that are written and not committed, positions of deleted rows, counts.

**Responsibilities**

- *Leases* belong to the run (``evaluations.run_statement``). One lease covers every file with the run's id in its name, and the
  snapshot that is read, also that of a later evaluation. An engine takes none.
- *Files.* A call of an engine that raises has deleted its files. After it returns, the files belong to the caller: they are deleted
  through ``iceberg_ops.deletion`` if no commit refers to them, and never after an unknown outcome. An engine never commits.
- *Interrupts.* A KeyboardInterrupt is handled like any other error. An engine stops its running tasks before it raises. A file that
  has no owner at the moment of an interrupt is left to orphan removal.
- *Errors.* ``opened`` turns the engine's own exceptions into those of ``iceberg_ops.errors``; an unknown outcome passes unchanged.
- *Sources* must be unchanged since the engine began to read them. The engine checks that last, before it returns: rows of a source
  that was changed while it was read are in no result.
- *Conflicts.* A refused statement is re-evaluated as a whole, source and condition included, on the then current table: the engine
  is called again with another ``Run``, and keeps nothing from the call before. An append is never refused in this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from iceberg_ops.actions.rows.changed_rows import CopyWork, Matched
from iceberg_ops.actions.rows.write_options import write_context
from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.job_spec import JobSpec, RowChange
from iceberg_ops.config.properties import WriteMode
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.config.row_options import Isolation, WriteOptions
from iceberg_ops.data.writing.upsert_keys import KeyPlan
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.expressions.predicates import Expression
from iceberg_ops.scan.planning import ScanPlan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import NestedField


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One evaluation of a delete, update or merge: ``found`` are the files that may match ``filter``, which is also the filter for
    conflicts. ``filter`` may match more rows than the job's WHERE."""

    run: Run
    options: WriteOptions
    filter: Expression
    scan_plan: ScanPlan
    mode: WriteMode
    isolation: Isolation

    @property
    def tasks(self) -> list[FileScanTask]:
        return self.scan_plan.tasks

    @property
    def schema(self) -> Schema:
        return self.run.table.schema

    @property
    def keeps_row_ids(self) -> bool:
        """Whether a row that is rewritten keeps its row id: in v3."""
        return self.run.table.metadata.format_version >= 3

    @property
    def context(self) -> WriteContext:
        """How files of the statement are written."""
        return write_context(self.run.table, self.options)

    @property
    def context_of_new_rows(self) -> WriteContext:
        """``context`` with the row ids that rows keep."""
        return replace(self.context, row_lineage=self.keeps_row_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """The result of a statement: ``matched`` are the deleted or changed rows, ``files`` hold the new rows.

    ``reads_table``: other rows of the changed table affected the result, too. ``repeated``: matches of a row beyond its first."""

    matched: Matched = ()
    files: Sequence[DataFile] = ()
    reads_table: bool = False
    repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSource:
    """A source, written as ``files`` of the table. ``schema`` is the schema that the table must have for them: its own, unless the
    source added columns. ``quarantined`` are files with the ``rows_quarantined`` rows that did not fit."""

    schema: Schema
    files: Sequence[DataFile]
    reads_table: bool = False
    quarantined: Sequence[SkippedFile] = ()
    rows_quarantined: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenUpserts:
    """New rows, and equality deletes of the older ones of their keys; ``keys`` counts the keys of the source."""

    files: Sequence[DataFile]
    deletes: Sequence[DataFile]
    keys: int
    reads_table: bool = False


class RowEvaluator(Protocol):
    """The calls of an engine for a job while it is open. Each call may also raise the errors of reading and writing files."""

    def condition(self, run: Run, text: str, *, subqueries: bool) -> Expression:
        """A WHERE, for planning and conflict checks; it may select more than the WHERE. Raises WhereError, and
        UnsupportedError for one that the engine does not evaluate."""
        ...

    def write_source(self, run: Run, options: WriteOptions) -> WrittenSource:
        """The job's source as data files, sorted within files by the table's sort order. Raises OptionError without a source,
        DataError for one that is missing, half written or does not fit, SchemaError for a column that the table does not have."""
        ...

    def write_upserts(self, run: Run, options: WriteOptions, keys: Sequence[NestedField], plan: KeyPlan) -> WrittenUpserts:
        """The job's source, with one row per key, and the deletes of ``plan``. Raises the errors of ``write_source``, and
        DataError for two rows of one key that ``order-by`` does not order."""
        ...

    def delete_changes(self, statement: Statement) -> RowChanges:
        """The rows for which the job's WHERE is true."""
        ...

    def update_changes(self, statement: Statement) -> RowChanges:
        """The rows for which the job's WHERE is true, with the values of its SET. Raises OptionError, WhereError, DataError for
        a value that does not fit."""
        ...

    def merge_changes(self, statement: Statement, change: RowChange) -> RowChanges:
        """The rows that clauses of ``change`` apply to, and the results for these and for the source's rows. Raises the errors of
        ``update_changes`` and ``write_source``. The caller checks whether ``repeated`` is an error of the statement."""
        ...

    def copy(self, statement: Statement, work: CopyWork, context: WriteContext) -> list[DataFile]:
        """New files with the rows of ``work``, besides the statement's staged ones. Raises VerificationError if the rows read,
        dropped and written do not add up."""
        ...


class RowEngine(Protocol):
    """An engine: ``local_engine.LocalEngine``, or Spark's."""

    @property
    def name(self) -> str:
        """The lane's name in reports."""
        ...

    @property
    def summary(self) -> Mapping[str, str]:
        """The keys of a snapshot's summary that name the engine."""
        ...

    def check(self, job: JobSpec) -> None:
        """Refuse a job as far as possible without reading the table. Raises UnsupportedError."""
        ...

    def opened(self, job: JobSpec) -> AbstractContextManager[RowEvaluator]:
        """The engine for this job. A failure to close it does not fail a finished job."""
        ...
