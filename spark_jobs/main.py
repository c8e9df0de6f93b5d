"""The ``spark-submit`` entry: ``spark-submit spark_jobs/main.py --job-spec FILE``.

Reads one JobSpec, runs it, writes its ActionReport, and ends with one line: the outcome on standard output, or ``error: CODE:
message`` on standard error with exit code 1, 130 after a Ctrl-C. A dry run that found work exits with 2.
"""

from __future__ import annotations

import argparse
import logging
import sys
import traceback
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[1])
if ROOT not in sys.path:
    # spark-submit adds only this file's own folder to the path; the packages are one level up.
    sys.path.insert(0, ROOT)

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.secrets import HidingFormatter, hide
from iceberg_ops.errors import IcebergOpsError, OptionError
from spark_jobs.jobs.dispatch import run
from spark_jobs.jobs.interrupts import end_with_command
from spark_jobs.session import spark_session

_LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
INTERRUPTED = 130
"""The exit code of a job that was stopped by a Ctrl-C: 128 plus the number of the signal."""


def main(arguments: list[str] | None = None) -> int:
    """Run the job of ``--job-spec``; returns the exit code."""
    parser = argparse.ArgumentParser(prog="spark_jobs", description="Run one iceberg-ops job on Spark.")
    parser.add_argument("--job-spec", required=True, metavar="FILE", help="a JobSpec document (JSON)")
    parser.add_argument(
        "--command-pipe", metavar="PIPE", help="the job is interrupted when this named pipe says so, or has no writer"
    )
    options = parser.parse_args(arguments)
    secrets: tuple[str, ...] = ()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(HidingFormatter(_LOG_LINE, secrets=lambda: secrets))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark's own report of an error that becomes one line here: a page of JSON with a stack trace.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    try:
        if options.command_pipe is not None:
            end_with_command(options.command_pipe)
        job = _job(options.job_spec)
        secrets = job.secrets()
        session = spark_session(f"iceberg-ops {job.job} {job.table}")
        try:
            report = run(session, job)
        finally:
            _stop(session)
    except IcebergOpsError as e:
        print(f"error: {e.code}: {hide(str(e), secrets)}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("error: INTERRUPTED: stopped by the user", file=sys.stderr, flush=True)
        return INTERRUPTED
    except Exception as e:  # noqa: BLE001 - whoever waits for the job must see one line at its end
        print(hide(traceback.format_exc(), secrets), flush=True)
        print(f"error: INTERNAL: {type(e).__name__}: {hide(' '.join(str(e).split()), secrets)}", file=sys.stderr, flush=True)
        return 1
    print(f"{report.action} {report.table}: {report.status} in {report.duration_ms / 1000:.1f} s", flush=True)
    return 2 if report.dry_run and report.status == "planned" else 0


def _job(path: str) -> JobSpec:
    try:
        return from_json(Path(path).read_bytes(), JobSpec, path)
    except FileNotFoundError:
        raise OptionError(f"job spec {path}: no such file") from None
    except (OSError, ValueError) as e:  # a folder, a name that is too long, a NUL in it
        raise OptionError(f"job spec {path[:200]!r} cannot be read: {e.strerror if isinstance(e, OSError) else e}") from None


def _stop(session: SparkSession) -> None:
    """The result of the job is already known: an error of stopping must not replace it."""
    try:
        session.stop()
    except (Exception, KeyboardInterrupt) as e:  # noqa: BLE001 - a JVM that died while it stopped, a late Ctrl-C
        logging.getLogger(__name__).warning("the job has ended, but Spark was not stopped: %s", e)


if __name__ == "__main__":
    sys.exit(main())
