"""The proof: every table, read in three ways at every retained snapshot, compared with the result computed from the source; and the
removed files.

It does not trust reports alone: files reported as deleted are looked up on disk, and the planted orphan must be the only file
that orphan removal deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from demo.datasets import DATASETS
from demo.expected import expected_rows, ingested_flights
from demo.printing import Printer, Step, comparison, size
from demo.processes import DemoError
from demo.readers import READERS, Fingerprint, fingerprint
from demo.settings import USER
from demo.stack import Stack
from demo.table_states import reports, snapshot_ids
from iceberg_ops.config.report import TableState


@dataclass(frozen=True, slots=True)
class Proven:
    """One table's result, and how many times it was read and found equal."""

    name: str
    answer: Fingerprint
    readers: tuple[str, ...]
    snapshots: int


def prove(stack: Stack, days: list[date], planted: Path | None, step: Step) -> list[Proven]:
    """Raises DemoError with the first difference."""
    proven = []
    for name, dataset in DATASETS.items():
        step.show(dataset.table)
        wanted = expected_rows(name, days)
        columns = wanted.schema.names
        answer = fingerprint(wanted, columns)
        for reader, read in READERS.items():
            got = fingerprint(read(stack, dataset.table, None), columns)
            _must(got == answer, f"{dataset.table}: {reader} reads {got}, the source says {answer}")
        ids = snapshot_ids(stack, name)
        for snapshot_id in ids:
            _readers_agree(stack, dataset.table, snapshot_id, columns)
        proven.append(Proven(name, answer, tuple(READERS), len(ids)))
    _expired_files_are_gone(stack)
    _only_the_orphan_went(stack, planted)
    step.detail = f"{sum(p.answer.rows for p in proven):,} rows of {ingested_flights(days):,} loaded flights and 4 reference tables"
    return proven


def print_all(printer: Printer, stack: Stack, sizes: dict[str, dict[str, TableState]], proven: list[Proven]) -> None:
    """Sizes before and after, the proof, the time of each step, and what to try next."""
    printer.console.print()
    columns = ["table", "after", "data files", "delete files", "bytes", "manifests", "snapshots", "records"]
    printer.console.print(comparison("What became of the tables", columns, _changes(sizes)))
    rows = [[f"nyc.{p.name}", f"{p.answer.rows:,}", p.answer.checksum[:16], str(p.snapshots)] for p in proven]
    readers = ", ".join(proven[0].readers)
    title = f"Equal to the answer computed from the source package; read by {readers}"
    printer.console.print(comparison(title, ["table", "rows", "checksum", "snapshots on which they agree"], rows))
    rows = [[name, f"{seconds:.1f} s"] for name, seconds in printer.timings]
    rows.append(["all", f"{sum(seconds for _, seconds in printer.timings):.1f} s"])
    printer.console.print(comparison("Time", ["step", "seconds"], rows))
    ways = f"[bold]{stack.up}[/] starts Airflow again and prints address and password (user {USER}); [bold]make down[/] stops it."
    printer.console.print(f"Look around: {ways}", highlight=False)
    printer.console.print(f"Tables lie in {stack.tables}, reports in {stack.places.jobs}.", highlight=False)


def _changes(sizes: dict[str, dict[str, TableState]]) -> list[list[str]]:
    """One line for each stage that changed a table."""
    rows = []
    for name in DATASETS:
        before = None
        for stage, states in sizes.items():
            now = states[name]
            if now != before:
                label = f"nyc.{name}" if before is None else ""
                counts = [str(now.data_files), str(now.delete_files), size(now.bytes), str(now.manifests), str(now.snapshots)]
                rows.append([label, stage, *counts, f"{now.records:,}"])
            before = now
    return rows


def _readers_agree(stack: Stack, table: str, snapshot_id: int, columns: list[str]) -> None:
    answers = {reader: fingerprint(read(stack, table, snapshot_id), columns) for reader, read in READERS.items()}
    told = ", ".join(f"{reader}: {answer}" for reader, answer in answers.items())
    _must(len(set(answers.values())) == 1, f"{table} at snapshot {snapshot_id}: readers differ: {told}")


def _expired_files_are_gone(stack: Stack) -> None:
    done = [
        r.report
        for r in reports(stack.places, "table_maintenance")
        if r.report.action == "expire_snapshots" and not r.report.dry_run
    ]
    expired = [f for report in done for f in report.files]
    _must(bool(expired), "expire_snapshots removed no file")
    left = [f for f in expired if stack.file_of(f).exists()]
    _must(not left, f"{len(left)} files were reported as expired and are still there, such as {left[:1]}")


def _only_the_orphan_went(stack: Stack, planted: Path | None) -> None:
    done = [
        r.report
        for r in reports(stack.places, "table_maintenance")
        if r.report.action == "remove_orphan_files" and not r.report.dry_run
    ]
    removed = [stack.file_of(f) for report in done for f in report.files]
    _must(planted is None or removed == [planted], f"orphan removal took {removed}, planted was {planted}")
    _must(planted is None or not planted.exists(), f"the planted orphan {planted} is still there")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DemoError(otherwise, next_step="this is a bug: keep what the demo left in build and report it")
