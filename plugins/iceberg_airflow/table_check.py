"""Checks one table: ``python -m iceberg_airflow.table_check REQUEST ANSWER``.

It is a separate process, because it opens the table. Reads a ``CheckRequest``, writes a ``CheckAnswer``; only an answer says that a
table is damaged. A process that was killed, for example for lack of memory, leaves none. Errors are one line on standard error and
exit code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from iceberg_airflow.last_line import run_with_exit_code
from iceberg_airflow.work import CheckAnswer, CheckRequest
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.config.table_name import TableName
from iceberg_ops.table.integrity import Finding, IntegrityCheck
from iceberg_ops.table.table import Table


def check(table: Table) -> CheckAnswer:
    """All findings about the table."""
    run = IntegrityCheck(table)
    findings = list(run.findings())
    seen = run.checked
    return CheckAnswer(
        looked=f"{seen.snapshots} snapshots, {seen.manifests} manifests, {seen.files} files",
        errors=[_line(f) for f in findings if f.severity == "error"],
        warnings=[_line(f) for f in findings if f.severity != "error"],
    )


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with one line on standard error."""
    request_path, answer_path = map(Path, arguments)

    def work() -> None:
        request = from_json(request_path.read_bytes(), CheckRequest, request_path.name)
        answer = check(load_catalog(request.catalog).load_table(TableName.parse(request.table).identifier))
        answer_path.write_bytes(to_json(answer))

    return run_with_exit_code(work)


def _line(finding: Finding) -> str:
    where = f" (snapshot {finding.snapshot_id})" if finding.snapshot_id is not None else ""
    return f"{finding.rule}: {finding.location}: {finding.detail}{where}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
