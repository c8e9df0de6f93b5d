"""A program that runs one job on Spark, for a test that stops it: ``python -m tests.spark.interrupted_program JOB_SPEC``.

The JVM is a child of the program, as in a notebook; it does not get the signals of the program.
"""

from __future__ import annotations

import sys

from spark_jobs.main import main

if __name__ == "__main__":
    sys.exit(main(["--job-spec", sys.argv[1]]))
