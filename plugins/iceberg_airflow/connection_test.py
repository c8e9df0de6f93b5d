"""Tests whether a catalog can be opened: ``python -m iceberg_airflow.connection_test CATALOG ANSWER``, for the Test button.

It is a separate process, like all code that opens a catalog. Writes one line; errors are one line on standard error and exit code
1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from iceberg_airflow.last_line import exit_code_of
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import CatalogConfig


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with one line on standard error."""
    path, answer = map(Path, arguments)

    def work() -> None:
        config = from_json(path.read_bytes(), CatalogConfig, path.name)
        names = [".".join(namespace) for namespace in load_catalog(config).list_namespaces()]
        answer.write_text(f"catalog {config.name} ({config.type}) answers; namespaces: {', '.join(names[:20]) or 'none'}")

    return exit_code_of(work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
