"""Leases: a running job says which snapshot it reads and which files it is writing, where every process can see it.

A lease is a small JSON file below the table's metadata folder. Expiry keeps a leased snapshot and everything between it and the
branch heads, so that the job's conflict check can still walk its history; orphan removal keeps files whose location holds one of
the lease's marks. A lease runs out by its own time, so a dead job protects nothing for ever; a living one renews it.

Taking a lease does not stop an expiry that is already swapping: ``acquire`` therefore is followed by a look at the table, and
expiry looks at the leases once more before it deletes files.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from urllib.parse import quote

from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.table import Table

FOLDER = "iceberg-ops/leases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """``holder`` is the job's run key; ``marks`` are texts that the locations of its uncommitted files hold (an operation id,
    say)."""

    holder: str
    snapshot_id: int | None
    expires_at_ms: int
    marks: tuple[str, ...] = ()

    def is_active(self, now_ms: int) -> bool:
        return now_ms < self.expires_at_ms

    def covers(self, location: str) -> bool:
        return any(mark in location for mark in self.marks)


def acquire_lease(table: Table, lease: Lease) -> str:
    """Take or renew the holder's lease; its location."""
    location = _location(table.metadata, lease.holder)
    table.io.write(location, json.dumps(asdict(lease)).encode(), overwrite=True)
    return location


def release_lease(table: Table, holder: str) -> None:
    """Give the lease back; one that is gone is not an error."""
    table.io.delete(_location(table.metadata, holder))


def active_leases(table: Table, now_ms: int) -> list[Lease]:
    """Leases in force. One that can not be read counts for nothing only once it is gone; a broken one is skipped, as is one whose
    time is over."""
    found = []
    for info in table.io.list_prefix(f"{metadata_folder(table.metadata)}/{FOLDER}"):
        try:
            text = json.loads(table.io.read(info.location))
            lease = Lease(**{**text, "marks": tuple(text.get("marks", ()))})
        except (FileNotFoundError, ValueError, TypeError):
            continue
        if lease.is_active(now_ms):
            found.append(lease)
    return sorted(found, key=lambda lease: lease.holder)


def has_run_out(table: Table, location: str, now_ms: int) -> bool:
    """Whether the file is a lease whose time is over: its holder died, or it would have been given back. One that can not be read
    has not."""
    if f"/{FOLDER}/" not in location:
        return False
    try:
        text = json.loads(table.io.read(location))
        return now_ms >= int(text["expires_at_ms"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return False


def _location(metadata: TableMetadata, holder: str) -> str:
    return f"{metadata_folder(metadata)}/{FOLDER}/{quote(holder, safe='')}.json"
