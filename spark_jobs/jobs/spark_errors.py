"""Converts errors of Spark to errors of this package: one line, without plans and stack traces.

Errors with a PySpark class of their own are about the query and its rows. Others are Java exceptions: those with an error condition
of reading or of a value are about the data as well, the rest (a lost executor, no disk, no memory) are not. An error of this
package from a Python task arrives as text at the end of a traceback, and is restored.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from iceberg_ops import errors
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.errors import CorruptTableError, DataError, IcebergOpsError, TerminalError

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
"""Error conditions of evaluating an expression on a row."""
_TRACEBACK = "Traceback (most recent call last):"
_NEXT_OF_CHAIN = ("The above exception was the direct cause", "During handling of the above exception")
_RAISED_IN_TASK = re.compile(r"iceberg_ops\.errors\.(\w+): (.+)")
_OWN_FRAME = re.compile(r'  File "[^"]*/(?:iceberg_ops|spark_jobs)/[^"]*"')
_UNREAD = re.compile(r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER)[A-Z_.]*\][^\n]*?\b((?:[a-z][a-z0-9+.-]*):/[^\s]+)")
_QUOTED_PATH = re.compile(r"`([^`]*/[^`]*)`")
_GLOB = re.compile(r"[*?\[{]")
_SQL = re.compile(r"== SQL[^\n]*==\n")
_ORIGIN = re.compile(r"\n?== (SQL|DataFrame)\b.*", re.DOTALL)
_PLAIN = re.compile(r"[\w.`]+|'[^']*'")
"""A column or a literal, whose evaluation cannot fail."""
_BEFORE_PLAN = ";\n"
"""The separator between an analysis error and the plan that Spark prints after it."""
_CAUSE = re.compile(r"Caused by: [\w.$]+: ([^\n]+)")


def first_line(error: BaseException | str) -> str:
    """The message of a Spark error, on one line, without its plan."""
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split("\n\n")[0].split(_BEFORE_PLAN)[0].split("JVM stacktrace")[0].split())[:500]


def failing_expression(job: JobSpec, text: str) -> str:
    """The expression of the job to which ``text``, an error of evaluating rows, belongs: the one whose SQL Spark quotes, the only
    one there is, or those among which it must be. Empty: the job has none that Spark evaluates."""
    if job.job not in ("delete", "update", "merge"):
        return ""
    change, where = job.change, {} if job.where is None else {"WHERE": job.where}
    clauses = change.clauses if change else []
    conditions = where | ({"ON": change.on} if change and change.on else {})
    conditions |= {f"WHEN clause {i + 1}": c.condition for i, c in enumerate(clauses) if c.condition is not None}
    conditions |= {"source query": job.source.query} if job.source and job.source.query else {}
    assigned = [*(change.set.items() if change else ()), *(item for c in clauses for item in (c.assignments or {}).items())]
    expressions = [*conditions.items(), *((f"SET {name} =", sql) for name, sql in assigned)]
    expressions = [(what, sql) for what, sql in dict.fromkeys(expressions) if not _PLAIN.fullmatch(sql)]
    quoted = [f"{what} {sql!r}" for what, sql in expressions if " ".join(sql.split()) in " ".join(_quoted_sql(text).split())]
    named = quoted or [f"{what} {sql!r}" for what, sql in expressions]
    return ("one of " if len(named) > 1 else "") + "; ".join(named)


def _quoted_sql(text: str) -> str:
    """Spark's quote of the failed SQL, without its own text."""
    return "\n".join(part.split("\n\n")[0] for part in _SQL.split(text)[1:])


def _is_of_task(error: PySparkException | Py4JJavaError) -> bool:
    """Whether a Python task raised it: the text of any other error may contain data of rows."""
    if isinstance(error, PythonException):
        return True
    return isinstance(error, Py4JJavaError) and "org.apache.spark.api.python.PythonException: " in str(error)


def _raised_in_task(text: str) -> tuple[str, bool]:
    """The last line of the Python traceback in ``text``, and whether code of this package is in it. Empty: there is no traceback.

    More lines of a message are ignored: they may contain data."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.endswith(_TRACEBACK)), None)
    raised, is_own = "", False
    while start is not None:
        end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
        is_own |= any(_OWN_FRAME.match(line) for line in lines[start + 1 : end])
        raised = lines[end] if end < len(lines) else ""
        rest = [line for line in lines[end + 1 :] if line.strip()]
        if len(rest) < 2 or not rest[0].startswith(_NEXT_OF_CHAIN) or rest[1] != _TRACEBACK:
            break
        start = lines.index(_TRACEBACK, end + 1)
    return raised, is_own


def _task_error(name: str, text: str) -> Exception | None:
    """The error with which a Python task ended: an error of the tree unchanged; any other one from this package's code is a
    defect."""
    raised, is_own = _raised_in_task(text)
    if (typed := _RAISED_IN_TASK.fullmatch(raised)) is not None:
        kind = getattr(errors, typed[1], None)
        if isinstance(kind, type) and issubclass(kind, IcebergOpsError):
            return kind(f"{name}: {typed[2]}")
    return RuntimeError(f"{name}: a Python task failed: {raised[:500]}") if raised and is_own else None


def _unread_file(job: JobSpec, name: str, text: str) -> CorruptTableError | TerminalError | None:
    """The error for a file that Spark could not read and that is not from the source. It is damaged only if Arrow cannot read it
    either, because Spark does not support every codec and encoding of Parquet."""
    match = _UNREAD.search(text)
    if match is None or _is_of_source(job, path := unquote(urlsplit(url := match[1].rstrip(".")).path)):
        return None
    causes = _CAUSE.findall(text)
    why = f" ({causes[-1][:300]})" if causes else ""
    if not _is_whole(path):
        return CorruptTableError(f"{name}: {url} is damaged or missing: Spark could not read it{why}")
    return TerminalError(
        f"{name}: Spark could not read {url}{why}, which is not damaged: Arrow reads it. Run the job with --lane local, or "
        "rewrite the file first (rewrite_data_files)"
    )


def _is_whole(path: str) -> bool:
    """Whether Arrow reads all of a local Parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                batch.validate()
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return False
    return True


def _is_of_source(job: JobSpec, path: str) -> bool:
    source = job.source
    texts = [job.where or "", source.query or "" if source else ""]
    places = [place for text in texts for place in _QUOTED_PATH.findall(text)]
    if source is not None:
        places += [*source.paths, *source.views.values()]
    return any(path.startswith(_beginning(place)) for place in places)


def _beginning(place: str) -> str:
    """A location up to its first wildcard in Spark's notation: relative paths start at the working folder, ``..`` is resolved."""
    path = _GLOB.split(unquote(urlsplit(place).path))[0]
    return os.path.join(os.path.abspath(path), "") if path.endswith("/") else os.path.abspath(path)


def spark_error(job: JobSpec, error: PySparkException | Py4JJavaError) -> Exception:
    """The typed error for an error of Spark in ``job``; a RuntimeError for a defect of this package in a Python task."""
    name = f"{job.job} {job.table}"
    in_task = _task_error(name, str(error)) if _is_of_task(error) else None
    if (cause := in_task or _unread_file(job, name, str(error))) is not None:
        return cause
    if not isinstance(error, Py4JJavaError):
        expressions = failing_expression(job, str(error)) if _EVALUATED.match(str(error)) else ""
        message = _ORIGIN.sub("", str(error)) if expressions else error
        return DataError(f"{name}: {expressions + ': ' if expressions else ''}{first_line(message)}")
    text = str(error)
    conditions = [m for m in _CONDITION.finditer(text) if m[1].startswith(_OF_DATA)]
    if conditions:
        causes = _CAUSE.findall(text)
        return DataError(f"{name}: {conditions[0][0].strip()}" + (f" ({causes[-1][:300]})" if causes else ""))
    message = next((m[0] for m in _CONDITION.finditer(text)), text.split(": ", 1)[-1].split("\n", maxsplit=1)[0])
    return TerminalError(f"{name}: Spark failed: {message[:500]}")
