"""Python in a process of its own: what opens catalogs and tables is kept out of the worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from iceberg_airflow.lanes import python_environment
from iceberg_airflow.outcome import error_of_line, typed_error
from iceberg_ops.config.report import ErrorReport

PLUGINS_FOLDER = Path(__file__).resolve().parents[1]


def run_python(arguments: list[str]) -> None:
    """Run this interpreter on a module of the plugins folder. Raises the typed error of its last line on standard error."""
    environment = {**os.environ, **python_environment()}
    environment["PYTHONPATH"] = os.pathsep.join([str(PLUGINS_FOLDER), environment["PYTHONPATH"]])
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise error_of_line(last_line(done.stderr)) or typed_error(ErrorReport(code="TERMINAL", message=last_line(done.stderr)))


def last_line(text: str) -> str:
    """The last line of a process's output that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "ended without a word"
