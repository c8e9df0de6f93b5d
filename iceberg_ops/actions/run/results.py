"""The result of an action: one frozen value, whose class shows how the job ended and whose fields the report contains.

An action that ends with an error has no result. Its work until then is in the run's ``Outcome``, and the report is made from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from iceberg_ops.commit.protocol import operation
from iceberg_ops.config.report import GroupReport, KeptSnapshot, SkippedFile, Status
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a job found, did and did not do. ``files`` are those that it names, ``skipped`` those it did not touch, ``failures``
    those that stay although they should not, ``kept_snapshots`` those that an expiry keeps, each with the reason."""

    plan_id: str | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[GroupReport, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    kept_snapshots: tuple[KeptSnapshot, ...] = ()
    files: tuple[str, ...] = ()
    failures: tuple[SkippedFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NothingToDo:
    """There is no work, and the table is unchanged."""

    findings: Findings
    status: ClassVar[Status] = "nothing-to-do"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """There is work; a dry run does none of it."""

    findings: Findings
    status: ClassVar[Status] = "planned"


@dataclass(frozen=True, kw_only=True)
class Committed:
    """All of the work is done. ``table`` is the table afterwards, ``attempts`` the number of commit attempts. There may be no
    commit, if the work was to delete files."""

    findings: Findings
    table: Table
    snapshot_ids: tuple[int, ...] = ()
    attempts: int = 0
    status: ClassVar[Status] = "committed"


@dataclass(frozen=True, kw_only=True)
class PartiallyCommitted(Committed):
    """A part of the work is done; its groups, or files that could not be removed, describe the rest."""

    status: ClassVar[Status] = "partially-committed"


@dataclass(frozen=True, kw_only=True)
class AlreadyCommitted(Committed):
    """Another process did all of the work under the same run key."""

    status: ClassVar[Status] = "already-committed"


Result = NothingToDo | Planned | Committed


def committed_earlier(findings: Findings, table: Table, snapshot_id: int | None) -> AlreadyCommitted:
    """The result of a job whose run key is in the table: ``snapshot_id`` is its snapshot, None: no longer known."""
    return AlreadyCommitted(findings=findings, table=table, snapshot_ids=() if snapshot_id is None else (snapshot_id,))


def commit_result(done: operation.Committed, findings: Findings) -> Committed:
    """The result of a job that made one commit."""
    of = AlreadyCommitted if done.already_committed else Committed
    ids = () if done.snapshot is None else (done.snapshot.snapshot_id,)
    return of(findings=findings, table=done.table, snapshot_ids=ids, attempts=done.attempts)
