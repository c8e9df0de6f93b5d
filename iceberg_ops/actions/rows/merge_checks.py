"""Checks of a MERGE that are the same in every lane: which clauses are allowed, and when a second match is an error."""

from __future__ import annotations

from typing import Literal

from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.errors import OptionError, WhereError

_WITHOUT_ROW: dict[str, Literal["target", "source"]] = {"not-matched": "target", "not-matched-by-source": "source"}


def check_clauses(change: RowChange | None) -> RowChange:
    """Raise OptionError for a MERGE without ON or clauses, or with an action that is not allowed for its kind of match: an
    UPDATE of rows without a match in the source must name its assignments, because there is no source row for ``*``."""
    if change is None or not change.on:
        raise OptionError("merge needs an ON condition")
    if not change.clauses:
        raise OptionError("merge needs at least one WHEN clause")
    for clause in change.clauses:
        if (clause.action == "insert") != (clause.when == "not-matched"):
            raise OptionError(f"merge: WHEN {clause.when.upper()} cannot {clause.action.upper()}")
        if clause.when == "not-matched-by-source" and clause.action == "update" and not clause.assignments:
            raise OptionError(
                "merge: WHEN NOT-MATCHED-BY-SOURCE THEN UPDATE needs assignments: there is no source row to take columns from"
            )
    return change


def side_without_row(clause: MergeClause) -> Literal["target", "source"] | None:
    """The side of a MERGE that has no row when the clause applies."""
    return _WITHOUT_ROW.get(clause.when)


def names_side_without_row(number: int, clause: MergeClause) -> WhereError:
    """The error for clause ``number`` (from 1), which names a column of ``side_without_row``."""
    side = side_without_row(clause)
    return WhereError(
        f"merge: WHEN clause {number} ({clause.when.upper()}) names a column of the {side}, which has no row there: "
        f"use columns of the {'source' if side == 'target' else 'target'}"
    )


def needs_cardinality_check(change: RowChange) -> bool:
    """False only if a second match has no effect: no matched clause, or a single unconditional DELETE."""
    matched = [c for c in change.clauses if c.when == "matched"]
    return bool(matched) and not (len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None)


def repeated_matches(pairs: int) -> str:
    """The message if ``pairs`` more source rows match target rows than there are such target rows."""
    return (
        f"merge: {pairs} more source rows match target rows that another source row matches already: "
        "each target row may be matched by one source row (make the source unique by the ON columns)"
    )
