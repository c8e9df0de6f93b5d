"""Finds the table's columns that a condition reads, as Spark resolves it: only these are read for it.

Spark prunes columns of its own reader itself; for a file that another reader reads (``runners.reading``) it would request
every column.
"""

from __future__ import annotations

from typing import Any

from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.conditions import condition
from spark_jobs.jobs.row_change import StatementRows
from spark_jobs.jobs.sql_tables import TARGET
from spark_jobs.runners.spark_schema import spark_schema


def columns_read(work: StatementRows, where: str) -> Schema:
    """The table's columns that ``where`` names, subqueries included; one column if it names none. Raises WhereError."""
    session = work.run.session
    empty = session.createDataFrame([], spark_schema(work.schema)).alias(TARGET)
    filtered = empty.filter(condition(empty, where, "WHERE", work.tables))
    names = _names(filtered._jdf.queryExecution().analyzed().references())
    fields = [f.name for f in work.schema.fields if f.name.lower() in names]
    return work.schema.select(fields or [work.schema.fields[0].name])


def _names(attributes: Any) -> set[str]:
    """In lower case: Spark keeps the spelling of the condition."""
    walk, names = attributes.iterator(), set()
    while walk.hasNext():
        names.add(str(walk.next().name()).lower())
    return names
