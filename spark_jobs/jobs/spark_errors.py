"""Errors of Spark as errors of this package: one line, without plans and stack traces.

What PySpark gives a class of its own is about the query and its rows. Others are Java exceptions: those that name a condition of
reading or of a value are about the data as well, the rest (a lost executor, no disk, no memory) are not. An error of this package
that was raised in a Python task comes as text at the end of a traceback, and becomes itself again.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from iceberg_ops import errors
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.errors import DataError, IcebergOpsError, TerminalError

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\][^\n]*")
_OF_DATA = (
    "FAILED_READ_FILE",
    "CANNOT_READ_FILE_FOOTER",
    "CAST_",
    "NUMERIC_",
    "ARITHMETIC",
    "DIVIDE_BY_ZERO",
    "MALFORMED",
    "CANNOT_MERGE_SCHEMAS",
    "INVALID_",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS",
)
_EVALUATED = re.compile(r"\[(ARITHMETIC|CAST_|DIVIDE_BY_ZERO|INTERVAL_|INVALID_ARRAY_INDEX|NUMERIC_|REMAINDER_|USER_RAISED)")
"""Conditions of evaluating an expression on a row."""
_RAISED_IN_TASK = re.compile(r"^iceberg_ops\.errors\.(\w+): ([^\n]+)", re.MULTILINE)
_SQL = re.compile(r"== SQL[^\n]*==\n")
_ORIGIN = re.compile(r"\n?== (SQL|DataFrame)\b.*", re.DOTALL)
_PLAIN = re.compile(r"[\w.`]+|'[^']*'")
"""A column or a literal, which can not fail."""
_BEFORE_PLAN = ";\n"
"""What stands between an analysis error and the plan that Spark prints after it."""
_CAUSE = re.compile(r"Caused by: [\w.$]+: ([^\n]+)")


def first_line(error: BaseException | str) -> str:
    """What a Spark error says, on one line, without its plan dump."""
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split("\n\n")[0].split(_BEFORE_PLAN)[0].split("JVM stacktrace")[0].split())[:500]


def blamed(job: JobSpec, text: str) -> str:
    """Which of the expressions of the job ``text`` is about, an error of evaluating rows: the one whose SQL Spark quotes, the only
    one there is, or those among which it must be. Empty: the job has none that Spark evaluates."""
    if job.job not in ("delete", "update", "merge"):
        return ""
    change, where = job.change, {} if job.where is None else {"WHERE": job.where}
    clauses = change.clauses if change else []
    conditions = where | ({"ON": change.on} if change and change.on else {})
    conditions |= {f"WHEN clause {i + 1}": c.condition for i, c in enumerate(clauses) if c.condition is not None}
    conditions |= {"source query": job.source.query} if job.source and job.source.query else {}
    assigned = [*(change.set.items() if change else ()), *(item for c in clauses for item in (c.assignments or {}).items())]
    found = [*conditions.items(), *((f"SET {name} =", sql) for name, sql in assigned)]
    found = [(what, sql) for what, sql in dict.fromkeys(found) if not _PLAIN.fullmatch(sql)]
    quoted = [f"{what} {sql!r}" for what, sql in found if " ".join(sql.split()) in " ".join(_quoted_sql(text).split())]
    named = quoted or [f"{what} {sql!r}" for what, sql in found]
    return ("one of " if len(named) > 1 else "") + "; ".join(named)


def _quoted_sql(text: str) -> str:
    """What Spark quotes of the SQL that failed, without its own words."""
    return "\n".join(part.split("\n\n")[0] for part in _SQL.split(text)[1:])


def spark_error(job: JobSpec, error: PySparkException | Py4JJavaError) -> IcebergOpsError:
    """The typed error for what Spark raised in ``job``."""
    name = f"{job.job} {job.table}"
    if (raised := _RAISED_IN_TASK.search(str(error))) is not None:
        raised_class: type[IcebergOpsError] = getattr(errors, raised[1])
        return raised_class(f"{name}: {raised[2]}")
    if not isinstance(error, Py4JJavaError):
        expressions = blamed(job, str(error)) if _EVALUATED.match(str(error)) else ""
        said = _ORIGIN.sub("", str(error)) if expressions else error
        return DataError(f"{name}: {expressions + ': ' if expressions else ''}{first_line(said)}")
    text = str(error)
    conditions = [m for m in _CONDITION.finditer(text) if m[1].startswith(_OF_DATA)]
    if conditions:
        causes = _CAUSE.findall(text)
        return DataError(f"{name}: {conditions[0][0].strip()}" + (f" ({causes[-1][:300]})" if causes else ""))
    said = next((m[0] for m in _CONDITION.finditer(text)), text.split(": ", 1)[-1].split("\n", maxsplit=1)[0])
    return TerminalError(f"{name}: Spark failed: {said[:500]}")
