"""A program that runs jobs on Spark in one JVM, one after the other, for tests that stop them: ``python -m
tests.spark.interrupted_program``. It reads a job spec's path per line, says how each job ended, and ends as the last one did.

The JVM is a child of the program, as in a notebook; it does not get the signals of the program.
"""

from __future__ import annotations

import sys

from spark_jobs.main import main

if __name__ == "__main__":
    code = 0
    while path := sys.stdin.readline().strip():
        code = main(["--job-spec", path])
        print(f"ended with {code}", flush=True)
    sys.exit(code)
