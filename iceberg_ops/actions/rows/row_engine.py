"""The seam between row operations and engines: who finds the rows of a statement, and who writes the new ones.

``append``, ``overwrite``, ``delete``, ``update``, ``merge`` and ``upsert`` are done here for every engine: plan, evaluate, write,
commit, report. An engine does the middle only. Lane local evaluates with Arrow in this process (``local_engine``), ``spark_jobs``
with Spark; which one is an argument of ``dispatch.run_job``.

**In.** The ``Run`` of one evaluation: its table is the snapshot that is read, its ``operation_id`` is in the name of each file that
the engine writes, its ``outcome.reads`` gets each other table that is read. A delete, update or merge is given as a ``Statement``,
with the data files that may match planned already.

**Out.** Values: data files that are written and not committed, places of rows that go, counts.

**Who does what**

- *Leases* are the run's (``evaluations.run_statement``). One covers every file with the run's id in its name, and the snapshot that
  is read, also that of a later evaluation. An engine takes none.
- *Files.* An engine's call that raises has deleted what it wrote. From its return on the files are the caller's: they are deleted
  through ``iceberg_ops.deletion`` where no commit refers to them, and never after an unknown outcome. An engine never commits.
- *Interrupts.* A KeyboardInterrupt is an error like any other. An engine stops what runs for it before it raises. What an interrupt
  finds between two owners stays for orphan removal.
- *Errors.* ``opened`` turns the engine's own exceptions into those of ``iceberg_ops.errors``; an unknown outcome passes unchanged.
- *Sources* must be what they were when the engine began to read them. It checks that last, before it returns: rows of a source that
  was changed while it was read are in no answer.
- *Conflicts.* A refused statement is evaluated again as a whole, source and condition included, on the table as it is then: the
  engine is called again with another ``Run``, and keeps nothing from the call before. An append is never refused so.
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
    """One evaluation of a delete, update or merge: ``found`` are the files that may match ``filter``, which also
    decides about conflicts. ``filter`` may match more rows than the job's WHERE does."""

    run: Run
    options: WriteOptions
    filter: Expression
    found: ScanPlan
    mode: WriteMode
    isolation: Isolation

    @property
    def tasks(self) -> list[FileScanTask]:
        return self.found.tasks

    @property
    def schema(self) -> Schema:
        return self.run.table.schema

    @property
    def keeps_row_ids(self) -> bool:
        """Whether a row that is written again keeps its row id: in v3."""
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
    """What a statement does: ``matched`` are the rows that go or change, ``files`` hold the rows that come.

    ``reads_table``: other rows of the changed table decided, too. ``repeated``: matches of a row beyond its first."""

    matched: Matched = ()
    files: Sequence[DataFile] = ()
    reads_table: bool = False
    repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSource:
    """A source, written as ``files`` of the table. ``schema`` is what the table must have for them: its own, unless the source
    added to it. ``quarantined`` are files with the ``rows_quarantined`` rows that did not fit."""

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
    """What an engine does for a job while it is open. Each call may also raise what reading and writing files raises."""

    def condition(self, run: Run, text: str, *, subqueries: bool) -> Expression:
        """A WHERE, for planning and conflict checks; it may select more than the WHERE does. Raises WhereError, and
        UnsupportedError for one that the engine does not evaluate."""
        ...

    def write_source(self, run: Run, options: WriteOptions) -> WrittenSource:
        """The job's source as data files, sorted within files by the table's sort order. Raises OptionError without a source,
        DataError for one that is missing, half written or does not fit, SchemaError for a column that the table does not have."""
        ...

    def write_upserts(self, run: Run, options: WriteOptions, keys: Sequence[NestedField], plan: KeyPlan) -> WrittenUpserts:
        """The job's source, of each key the row that counts, and the deletes of ``plan``. Raises what ``write_source`` does, and
        DataError for two rows of one key that ``order-by`` does not tell apart."""
        ...

    def delete_changes(self, statement: Statement) -> RowChanges:
        """The rows for which the job's WHERE is true."""
        ...

    def update_changes(self, statement: Statement) -> RowChanges:
        """The rows for which the job's WHERE is true, and what its SET makes of them. Raises OptionError, WhereError, DataError for
        a value that does not fit."""
        ...

    def merge_changes(self, statement: Statement, change: RowChange) -> RowChanges:
        """The rows that clauses of ``change`` apply to, and what becomes of them and of the source's. Raises as ``update_changes``
        and ``write_source`` do. Where ``repeated`` is an error of the statement, it is the caller's."""
        ...

    def copy(self, statement: Statement, work: CopyWork, context: WriteContext) -> list[DataFile]:
        """New files with the rows of ``work``, beside the statement's staged ones. Raises VerificationError where rows read,
        dropped and written do not add up."""
        ...


class RowEngine(Protocol):
    """An engine: ``local_engine.LocalEngine``, or Spark's."""

    @property
    def name(self) -> str:
        """The lane that reports name."""
        ...

    @property
    def summary(self) -> Mapping[str, str]:
        """The keys of a snapshot's summary that name the engine."""
        ...

    def check(self, job: JobSpec) -> None:
        """Refuse what can be refused without looking at the table. Raises UnsupportedError."""
        ...

    def opened(self, job: JobSpec) -> AbstractContextManager[RowEvaluator]:
        """The engine for this job. A failure to close it does not fail a job that is done."""
        ...
