"""What holds for a MERGE in every lane, whoever evaluates it: which clauses it may have, and when a second match is an error."""

from __future__ import annotations

from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.errors import OptionError


def check_clauses(change: RowChange | None) -> RowChange:
    """Raise OptionError for a MERGE without ON or clauses, or with an action its kind of match can not have."""
    if change is None or not change.on:
        raise OptionError("merge needs an ON condition")
    if not change.clauses:
        raise OptionError("merge needs at least one WHEN clause")
    for clause in change.clauses:
        if (clause.action == "insert") != (clause.when == "not-matched"):
            raise OptionError(f"merge: WHEN {clause.when.upper()} can not {clause.action.upper()}")
    return change


def needs_cardinality_check(change: RowChange) -> bool:
    """False only where a second match can not matter: no matched clause, or a single unconditional DELETE."""
    matched = [c for c in change.clauses if c.when == "matched"]
    return bool(matched) and not (len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None)


def repeated_matches(pairs: int) -> str:
    """What is wrong where ``pairs`` more source rows match target rows than there are such target rows."""
    return (
        f"merge: {pairs} more source rows match target rows that another source row matches already: "
        "each target row may be matched by one source row (make the source unique by the ON columns)"
    )
