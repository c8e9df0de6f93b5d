"""Tries a catalog or a store: ``python -m iceberg_airflow.connection_test TRIAL ANSWER``, for the Test button.

The steps are those of ``iceberg-ops catalog test``. It is a separate process, like all code that opens a catalog. Writes a
``ConnectionTestResult``; errors of the request are one line on standard error and exit code 1.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from iceberg_airflow.last_line import run_with_exit_code
from iceberg_airflow.work import ConnectionTest, ConnectionTestResult
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.probe import probe, probe_store, verdict
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.errors import OptionError
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.resolving import store_name


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with one line on standard error."""
    path, answer = map(Path, arguments)

    def work() -> None:
        answer.write_bytes(to_json(_tried(from_json(path.read_bytes(), ConnectionTest, path.name))))

    return run_with_exit_code(work)


def _tried(trial: ConnectionTest) -> ConnectionTestResult:
    if (config := trial.catalog) is not None:
        what, steps = f"catalog {config.name} ({config.type})", probe(partial(load_catalog, config), location=trial.folder)
    elif trial.folder is not None and store_name(trial.folder):
        what, steps = f"store of {trial.folder}", probe_store(partial(load_file_io, trial.store), trial.folder)
    else:
        raise OptionError("nothing was tried: name a folder in the store for the test, such as s3://bucket/folder")
    failed = next((step for step in steps if step.outcome == "failed"), None)
    details = [failed.detail] if failed else [f"{step.name}: {step.detail}" for step in steps]
    return ConnectionTestResult(works=failed is None, said=f"{verdict(what, steps)}: {'; '.join(details)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
