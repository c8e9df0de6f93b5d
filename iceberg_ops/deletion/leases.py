"""Leases: a running job records which snapshot it reads and which files it works on, where every process can see it.

A lease is a small JSON file beside the table's metadata (``places``), one per run: a retry under the same run key takes its own.
Expiry keeps a leased snapshot and everything between it and the branch heads, so that the job's conflict check can still walk its
history. No file that a lease in force covers is deleted. A lease expires at its own time, so a dead job protects nothing for ever;
a running job renews its lease.

Taking a lease does not stop an expiry that is already committing. So a job that takes a lease on a snapshot reads the table
afterwards, and a job that deletes files reads the leases after its commit. Imports and deletions inform each other about files in
the same way (``notes``).
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from urllib.parse import quote

from iceberg_ops.deletion.own_files import discard_own
from iceberg_ops.deletion.places import noted, notes_folder
from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import folder_identity, identity_under, is_within
from iceberg_ops.serde.json.json_objects import JsonObject, as_list, as_long, as_text, parse_json
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

FOLDER = "iceberg-ops/leases"
REGISTRATION = "register"
"""The action of a lease that shows jobs of one table the folders of another table, which is being registered."""
UNREADABLE_MS = 24 * 3600 * 1000
"""How long after its last change a lease that cannot be read protects every file."""
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What one run needs protected.

    ``holder`` is the job's run key, ``instance`` this run of the job, ``action`` its action (empty: not known). ``marks`` are texts
    that the locations of its uncommitted files contain (for example an operation id). ``folders`` are folders whose files it is
    about to commit. Times are milliseconds since the epoch."""

    holder: str
    snapshot_id: int | None
    expires_at_ms: int
    marks: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    instance: str = field(default_factory=lambda: str(uuid.uuid4()))
    action: str = ""

    def is_active(self, now_ms: int) -> bool:
        return now_ms < self.expires_at_ms

    def covers(self, location: str, io: FileIO) -> bool:
        """Whether the lease protects the file at ``location``."""
        if any(mark in location for mark in self.marks):
            return True
        identity = identity_under(io)
        return any(is_within(identity(location), folder_identity(identity, folder)) for folder in self.folders)


def acquire_lease(table: Table, lease: Lease) -> str:
    """Take or renew a lease; returns its location."""
    location = lease_location(table, lease)
    table.io.write(location, json.dumps(asdict(lease)).encode(), overwrite=True)
    return location


def release_lease(table: Table, lease: Lease) -> None:
    """Release the lease; it is not an error if it is already gone. A failure is logged only: the lease expires by itself, and the
    work that it protected is done."""
    location = lease_location(table, lease)
    try:
        discard_own(table.io, [location])
    except Exception as e:  # noqa: BLE001 - no error of the store may take the place of the outcome of the work
        log.warning("%s is not released, and expires by itself: %s", location, e)


def active_leases(table: Table, now_ms: int | None = None) -> list[Lease]:
    """Leases in force at ``now_ms`` (None: now), by holder. A lease that cannot be read protects every file of the table for a
    day."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    leases = []
    for info in noted(table, FOLDER):
        try:
            lease = _parsed(table.io.read(info.location))
        except FileNotFoundError:
            continue
        if lease is None:
            lease = Lease(
                holder=f"unreadable lease {info.location}",
                snapshot_id=None,
                expires_at_ms=(now if info.modified_ms is None else info.modified_ms) + UNREADABLE_MS,
                marks=("",),
                instance=info.location,
            )
        if lease.is_active(now):
            leases.append(lease)
    return sorted(leases, key=lambda lease: (lease.holder, lease.instance))


def forbid_files_of_running_jobs(table: Table, locations: Iterable[str]) -> None:
    """Raise CatalogUnavailableError if a running job wrote one of the files at ``locations``: it may commit or delete it at any
    moment. A job takes its lease before it writes. So list the files first, and call this with the table as it is after that: then
    either the lease exists, or the job has ended and its files are live or gone."""
    marked = [(mark, lease.holder) for lease in active_leases(table) for mark in lease.marks]
    for location in locations if marked else ():
        if (holder := next((holder for mark, holder in marked if mark in location), None)) is not None:
            raise CatalogUnavailableError(
                f"table {table.name}: {location} was written by run {holder}, which holds a lease on its files and has not ended; "
                f"it may commit or delete them: try again when it has ended"
            )


def without_files_of_running_jobs(table: Table, recorded: Iterable[str], listed: Iterable[str]) -> list[str]:
    """The files at ``listed`` without leases, and without files that a running job holds a lease on and that are not ``recorded``
    in the table. A job takes its lease before it writes: list the files first."""
    locations, identity = list(listed), identity_under(table.io)
    now = time.time_ns() // 1_000_000
    if not (leases := active_leases(table, now)):
        return locations
    known = {identity(location) for location in recorded}
    left: list[str] = []
    for location in locations:
        is_lease = f"/{FOLDER}/" in location and not has_run_out(table, location, now)
        holder = None if identity(location) in known else next((x.holder for x in leases if x.covers(location, table.io)), None)
        if is_lease or holder is not None:
            log.warning("table %s is dropped, but %s stays: run %s holds a lease", table.name, location, holder or "of that name")
        else:
            left.append(location)
    return left


def has_run_out(table: Table, location: str, now_ms: int) -> bool:
    """Whether the file is an expired lease: its holder died, otherwise the lease would have been given back. A lease that cannot be
    read has not expired."""
    if f"/{FOLDER}/" not in location:
        return False
    try:
        lease = _parsed(table.io.read(location))
    except FileNotFoundError:
        return False
    return lease is not None and not lease.is_active(now_ms)


def lease_location(table: Table, lease: Lease) -> str:
    """The lease's file, below the table's location when it was taken. A long holder is cut and made unique by its digest."""
    name = quote(lease.holder, safe="")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME].rstrip('%')}-{hashlib.sha256(lease.holder.encode()).hexdigest()[:16]}"
    return f"{notes_folder(table, FOLDER)}/{name}-{quote(lease.instance, safe='')}.json"


def _parsed(data: bytes) -> Lease | None:
    """The lease; None if it cannot be read."""
    try:
        document = JsonObject(parse_json(data, "lease"), "lease")
        lease = Lease(
            holder=document.get("holder", as_text),
            snapshot_id=document.maybe("snapshot_id", as_long),
            expires_at_ms=document.get("expires_at_ms", as_long),
            marks=_texts(document, "marks"),
            folders=_texts(document, "folders"),
            instance=document.maybe("instance", as_text) or "",
            action=document.maybe("action", as_text) or "",
        )
        return None if document.extra() else lease
    except CorruptTableError:
        return None


def _texts(lease: JsonObject, key: str) -> tuple[str, ...]:
    return tuple(as_text(text, key) for text in lease.maybe(key, as_list) or ())
