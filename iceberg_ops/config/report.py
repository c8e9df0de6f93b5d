"""The action report: what a job found, did and verified, as one document.

Written beside the job spec; the command line, the Airflow operators, the health page and the audit table read only
this document. Counts have the names of Iceberg's own procedures, in kebab case (``rewritten-data-files-count``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from iceberg_ops.config.document import Document

Status = Literal["nothing-to-do", "planned", "committed", "partially-committed", "already-committed", "failed"]
GroupStatus = Literal["planned", "committed", "carried-over", "re-planned", "dropped", "failed"]


class TableState(Document, frozen=True, kw_only=True, omit_defaults=False):
    """A table's size at one snapshot, from its manifest list and summary; bytes are those of live files."""

    snapshot_id: int | None = None
    snapshots: int = 0
    data_files: int = 0
    delete_files: int = 0
    manifests: int = 0
    records: int = 0
    bytes: int = 0


class Certificate(Document, frozen=True, kw_only=True):
    """The proof that a group kept its rows: live rows in (after deletes), rows out, columns with equal null counts; for a sort,
    also the number of output rows whose order was verified, which must be all of them."""

    rows_in: int
    rows_out: int
    deleted_rows_applied: int = 0
    columns_checked: int = 0
    rows_in_order: int = 0


class GroupReport(Document, frozen=True, kw_only=True):
    """One file group of a rewrite. ``reason`` says why it was selected, or why it was dropped or planned again.

    ``carried-over``: committed, with deletes of ``carried_over_rows`` rows that were committed during the rewrite. ``re-planned``:
    a conflict dropped it, and the rest of its files was planned again as the group named in ``reason``."""

    group_id: str
    status: GroupStatus
    partition: str = ""
    reason: str = ""
    input_files: int = 0
    input_bytes: int = 0
    output_files: int = 0
    output_bytes: int = 0
    carried_over_rows: int = 0
    certificate: Certificate | None = None


class SkippedFile(Document, frozen=True, kw_only=True):
    """A file that the plan does not rewrite, and the rule for that."""

    file_path: str
    reason: str


class KeptSnapshot(Document, frozen=True, kw_only=True):
    """A snapshot that an expiry keeps, and the rule for that."""

    snapshot_id: int
    reason: str


class Step(Document, frozen=True, kw_only=True):
    """One step (plan, run, commit, verify, clean) and how long it took."""

    name: str
    duration_ms: int
    detail: str = ""


INTERRUPTED = "INTERRUPTED"
"""The code of a Ctrl-C that changed nothing: no exception of the tree has it."""


class ErrorReport(Document, frozen=True, kw_only=True):
    """``code`` of the exception tree, its one-line message, and the next step."""

    code: str
    message: str
    next_step: str = ""


class ActionReport(Document, frozen=True, kw_only=True, omit_defaults=False):
    """The result of one job. Times are milliseconds; ``started_at`` is ISO 8601 UTC. Its JSON has every field."""

    action: str
    table: str
    status: Status
    started_at: str
    duration_ms: int
    version: Literal[1] = 1
    run_key: str | None = None
    job_id: str | None = None
    plan_id: str | None = None
    lane: str = "local"
    lane_reason: str = ""
    dry_run: bool = False
    branch: str = "main"
    starting_snapshot_id: int | None = None
    snapshot_ids: list[int] = []
    attempts: int = 0
    metrics: dict[str, int] = {}
    before: TableState | None = None
    after: TableState | None = None
    steps: list[Step] = []
    groups: list[GroupReport] = []
    skipped: list[SkippedFile] = []
    kept_snapshots: list[KeptSnapshot] = []
    """For an expiry: the snapshots that stay, at most the newest 1,000 of them."""
    files: list[str] = []
    """For dry runs and removals: the affected files (expired, orphaned), at most 1,000 of them."""
    failures: list[SkippedFile] = []
    error: ErrorReport | None = None


class _Marks(msgspec.Struct, rename="kebab"):
    """Fields that the reports of every release have."""

    action: str
    table: str
    status: str
    started_at: str
    duration_ms: int


def is_report(data: bytes) -> bool:
    """Whether these bytes are a report, of this release or another."""
    try:
        msgspec.json.decode(data, type=_Marks)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
