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
_RAISED_IN_TASK = re.compile(r"^iceberg_ops\.errors\.(\w+): ([^\n]+)", re.MULTILINE)
_CAUSE = re.compile(r"Caused by: [\w.$]+: ([^\n]+)")


def first_line(error: BaseException) -> str:
    """What a Spark error says, on one line, without its plan dump."""
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split("\n\n")[0].split("JVM stacktrace")[0].split())[:500]


def spark_error(job: JobSpec, error: PySparkException | Py4JJavaError) -> IcebergOpsError:
    """The typed error for what Spark raised in ``job``."""
    name = f"{job.job} {job.table}"
    if (raised := _RAISED_IN_TASK.search(str(error))) is not None:
        raised_class: type[IcebergOpsError] = getattr(errors, raised[1])
        return raised_class(f"{name}: {raised[2]}")
    if not isinstance(error, Py4JJavaError):
        return DataError(f"{name}: {first_line(error)}")
    text = str(error)
    conditions = [m for m in _CONDITION.finditer(text) if m[1].startswith(_OF_DATA)]
    if conditions:
        causes = _CAUSE.findall(text)
        return DataError(f"{name}: {conditions[0][0].strip()}" + (f" ({causes[-1][:300]})" if causes else ""))
    said = next((m[0] for m in _CONDITION.finditer(text)), text.split(": ", 1)[-1].split("\n", maxsplit=1)[0])
    return TerminalError(f"{name}: Spark failed: {said[:500]}")
