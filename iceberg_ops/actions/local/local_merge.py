"""How a merge changes rows, on lane local.

The source is held in memory, and each row of the table, which is read once, is looked up in it. The first clause (in the order
written) whose kind and condition fit applies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.actions.local.local_rows import LocalRows, Positions, in_file
from iceberg_ops.actions.local.merge_terms import BoundClause, Mask, MatchOn, match_on, when_clauses
from iceberg_ops.actions.local.set_values import Sides
from iceberg_ops.actions.local.source_in_memory import SourceRows, read_source
from iceberg_ops.actions.rows.merge_checks import needs_cardinality_check
from iceberg_ops.actions.rows.row_engine import RowChanges, Statement
from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.data.columns.key_codes import KeyCodes
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.schema import Schema

Numbers = npt.NDArray[np.int64]


def merge_changes(statement: Statement, change: RowChange) -> RowChanges:
    """The rows that clauses apply to, with their new values. Raises UnsupportedError for an expression or conversion that needs
    Spark, DataError for a value that does not fit, and the errors of ``read_source``."""
    run = statement.run
    source = read_source(run, require_success_file=statement.options.require_success_file)
    sides = Sides(statement.schema, source)
    on, clauses = match_on(sides, change.on or ""), when_clauses(sides, change.clauses)
    work = LocalRows(statement)
    with work.cleared_up(), run.step("evaluate"):
        merging = _Merging(work, source, on, clauses)
        matched = [(task, merging.take(task)) for task in work.tasks]
        if not (merging.repeated and needs_cardinality_check(change)):
            merging.insert()
        return work.changes([(task, positions) for task, positions in matched if len(positions)], repeated=merging.repeated)


class _Matches:
    """The source by its keys: which source row each row of the table matches, and how many."""

    def __init__(self, source: SourceRows, on: MatchOn, schema: Schema) -> None:
        self._on, self._schema = on, schema
        self._keys = KeyCodes([_comparable(source.column(given)) for _, given in on.keys])
        self._codes = np.where(on.also.of_source(source), self._keys.of_rows, -1)
        alive = np.flatnonzero(self._codes >= 0)
        kinds = int(self._codes.max(initial=-1)) + 1
        self._counts = np.bincount(self._codes[alive], minlength=kinds)
        self._first = np.full(kinds, -1, np.int64)
        self._first[self._codes[alive[::-1]]] = alive[::-1]
        self._met = np.zeros(kinds, np.bool_)

    def of(self, rows: pa.RecordBatch) -> tuple[Numbers, Numbers]:
        """For each row of the table its first source row (-1: none), and the number of its source rows."""
        places = [self._schema.fields.index(column) for column, _ in self._on.keys]
        codes = self._keys.find([_comparable(rows.column(i)) for i in places])
        codes = np.where(self._on.also.of_target(rows, self._schema) & (codes < len(self._counts)), codes, -1)
        matched_rows = np.flatnonzero(codes >= 0)
        first, count = np.full(len(codes), -1, np.int64), np.zeros(len(codes), np.int64)
        first[matched_rows], count[matched_rows] = self._first[codes[matched_rows]], self._counts[codes[matched_rows]]
        self._met[codes[matched_rows]] = True
        return first, count

    def unmet(self) -> Mask:
        """The source rows that no row of the table has matched so far."""
        without = self._codes < 0
        met = self._met[np.maximum(self._codes, 0)] if len(self._met) else np.zeros(len(without), np.bool_)
        return without | ~met


def _comparable(column: pa.Array) -> pa.Array:
    """Integers of both sizes as the larger one."""
    return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column


class _Merging:
    """Applies the clauses to the rows of one task after another, and at last to the unmatched rows of the source."""

    def __init__(self, work: LocalRows, source: SourceRows, on: MatchOn, clauses: Sequence[BoundClause]) -> None:
        self._work, self._source, self._clauses = work, source, clauses
        self._matches = _Matches(source, on, work.schema)
        self._of_source = [when.condition.of_source(source) for when in clauses]
        self.repeated = 0

    def take(self, task: FileScanTask) -> Positions:
        """Write the task's changed rows; returns the positions of these and of the deleted rows."""
        gone = [np.empty(0, np.int64)]
        for rows, positions in self._work.matching_rows(task):
            first, count = self._matches.of(rows)
            self.repeated += int(np.maximum(count - 1, 0).sum())
            which = self._clause_numbers(rows, first)
            gone.append(positions[which >= 0])
            for number, when in enumerate(self._clauses):
                chosen = np.flatnonzero(which == number)
                if when.values is not None and len(chosen):
                    self._write(when, rows.take(pa.array(chosen)), first[chosen], in_file(task, positions[chosen]))
        return np.sort(np.concatenate(gone))

    def insert(self) -> None:
        """Write the source rows that no row of the table has matched, as the clauses say."""
        left = self._matches.unmet()
        for number, when in enumerate(self._clauses):
            if when.clause.when == "not-matched":
                chosen = np.flatnonzero(left & self._of_source[number])
                left[chosen] = False
                if len(chosen):
                    self._write(when, None, chosen, self._in_source(chosen))

    def _in_source(self, chosen: Numbers) -> Callable[[int], str]:
        return lambda row: f"row {chosen[row]} of source {self._source.name}"

    def _clause_numbers(self, rows: pa.RecordBatch, first: Numbers) -> Numbers:
        """The number of the clause that applies to each row of the table; -1: none."""
        which = np.full(len(first), -1, np.int64)
        matched = first >= 0
        for number, when in enumerate(self._clauses):
            if when.clause.when == "not-matched":
                continue
            applies = (which < 0) & when.condition.of_target(rows, self._work.schema)
            if when.clause.when == "matched":
                met = self._of_source[number][np.maximum(first, 0)] if len(self._of_source[number]) else False
                applies &= matched & met
            else:
                applies &= ~matched
            which[applies] = number
        return which

    def _write(self, when: BoundClause, old: pa.RecordBatch | None, of_source: Numbers, place: Callable[[int], str]) -> None:
        assert when.values is not None
        asked = any(v.side == "source" for v in when.values)
        new = self._source.rows.take(pa.array(of_source)) if asked else None
        self._work.write([v.of(old, new, len(of_source)) for v in when.values], old, place)
