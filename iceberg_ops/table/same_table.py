"""Decides whether two states that were loaded under one name belong to the same table.

A table keeps its uuid (spec: "table-uuid"), in whatever case a writer spells it; but so does a copy of it: a copied folder, a
metadata file that was registered twice, paths that were rewritten for another place. A copy may take the table's name while a job
runs. What the job knows of its table is then wrong for the copy: a file that the copy lacks may be live in the table, and a swap
that the copy does not show may have happened. So ``difference`` also compares history and place:

- If the histories of two states diverge, the states belong to two tables: after the last file that both metadata logs have, each
  continues with its own files; or each has another snapshot with the same sequence number. Commits of a writer that logs no file
  look like a divergence, too. They are no divergence if both states have a snapshot that is later than that file, or if one such
  commit has the last snapshot.
- If the metadata log of one state contains the other, they belong to the same table, even if it has moved.
- If neither shows it (a log keeps few files), the place decides: a table moves by a commit, which records its former location.

An earlier state that a table and its copy have in common belongs to both: nothing in the metadata distinguishes them. When the
outcome of an unanswered swap is looked up, other names of the catalog are read as well (``neighbours.is_under_another_name``).

A v1 table may have no uuid, and may get one by any commit: then history alone must show that one state descends from the other. If
it does not, the two count as different tables: a commit is refused and files are kept.

``same_origin`` answers the wider question whether one may be a copy of the other: then they may need the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import Identity, coarse_identity, folder_identity, identity_under
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.table_uuid import same_uuid
from iceberg_ops.table.own_folders import former_locations
from iceberg_ops.table.table import Table

LoggedFile = tuple[str, int]
"""A metadata file, and when it was last updated. The time is needed because a filesystem catalog numbers its files, so another
table may have had the same file name."""
_Snapshot = tuple[int, int, str | None, tuple[str, ...] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTrace:
    """The data that distinguishes a state of a table from states of other tables. ``location`` None: it is not known. ``files``:
    those of its metadata log, followed by its own. ``snapshots``: the ids of its snapshots by their sequence numbers.
    ``snapshot_times``: the times of all snapshots, as far as known, in the order they were added."""

    uuid: str
    location: str | None
    former_locations: tuple[str, ...] = ()
    files: tuple[LoggedFile, ...] = ()
    snapshots: Mapping[int, frozenset[int]]
    snapshot_times: Mapping[int, int] = field(default_factory=dict)


def table_trace(table: Table) -> TableTrace:
    """The trace of the state. A staged table has no file yet."""
    metadata = table.metadata
    log = [(entry.metadata_file, entry.timestamp_ms) for entry in metadata.metadata_log]
    current_file = [(table.metadata_location, metadata.last_updated_ms)] if table.metadata_location else []
    return TableTrace(
        uuid=metadata.table_uuid,
        location=metadata.location,
        former_locations=tuple(former_locations(table)),
        files=(*log, *current_file),
        snapshots=ids_by_sequence_number((s.sequence_number, s.snapshot_id) for s in metadata.snapshots),
        snapshot_times={s.snapshot_id: s.timestamp_ms for s in metadata.snapshots},
    )


def ids_by_sequence_number(pairs: Iterable[tuple[int, int]]) -> Mapping[int, frozenset[int]]:
    """Grouped pairs of a sequence number and a snapshot id. Snapshots from before format version 2 have no number: theirs is 0."""
    ids: dict[int, set[int]] = {}
    for number, snapshot_id in pairs:
        if number > 0:
            ids.setdefault(number, set()).add(snapshot_id)
    return {number: frozenset(ids) for number, ids in ids.items()}


def same_table(one: Table, other: Table) -> bool:
    """Whether both are states of one table, whichever is later."""
    return difference(one, other) is None


def difference(known: Table, now: Table) -> str | None:
    """Why ``now`` is not the table of the state ``known``; None if it is, or if nothing distinguishes the two. Either may be the
    later one. Call it with the latest known state: the longer its history, the more copies are detected."""
    if _is_state_itself(known, now):
        return None
    if known.metadata.table_uuid and now.metadata.table_uuid:
        if same_uuid(known.metadata.table_uuid, now.metadata.table_uuid) and (_logs(now, known) or _logs(known, now)):
            return None
        return difference_of_traces(table_trace(known), table_trace(now), now.io)
    if not TableStates(known).lead_to(now):
        return (
            f"its uuid is {now.metadata.table_uuid}, was {known.metadata.table_uuid}, and its history does not show the one known"
        )
    return _parting(table_trace(known), table_trace(now), identity_under(now.io))


def difference_of_traces(known: TableTrace, now: TableTrace, io: FileIO) -> str | None:
    """The same for states of which only a trace is known; both have a uuid."""
    if not same_uuid(known.uuid, now.uuid):
        return f"its uuid is {now.uuid}, was {known.uuid}"
    identity = identity_under(io)
    if (parting := _parting(known, now, identity)) is not None:
        return f"{parting}; both have uuid {now.uuid}, so one is a copy of the other"
    if _one_logs_the_other(known, now, identity) or _in_one_place(known, now, identity):
        return None
    was = "" if known.location is None else f", was {known.location}"
    return f"its location is {now.location}{was}, and its metadata log does not show where it was; both have uuid {now.uuid}"


def _is_state_itself(known: Table, now: Table) -> bool:
    return (
        known.metadata_location == now.metadata_location
        and known.metadata.last_updated_ms == now.metadata.last_updated_ms
        and known.metadata.table_uuid == now.metadata.table_uuid
        and known.location == now.location
    )


def _parting(known: TableTrace, now: TableTrace, identity: Identity) -> str | None:
    """How the two histories diverge; None if they do not, as far as is known. Metadata files are compared by all spellings that
    engines use: it must be certain that a log lacks a file."""
    at = {_coarse(file, identity): i for i, file in enumerate(known.files)}
    theirs = [at.get(_coarse(file, identity)) for file in now.files]
    last = next((i for i in range(len(theirs) - 1, -1, -1) if theirs[i] is not None), None)
    if last is not None and (ours := theirs[last]) is not None and ours < len(known.files) - 1 and last < len(theirs) - 1:
        by_one_file = last == len(theirs) - 2
        if not (_share_what_came_after(known, now, ours) or (by_one_file and _contains_last_snapshot(known, now))):
            common, other, expected = known.files[ours][0], now.files[last + 1][0], known.files[ours + 1][0]
            return f"its history went on from {common} with {other}, not with {expected}"
    for number, ids in known.snapshots.items():
        if ids.isdisjoint(others := now.snapshots.get(number, ids)):
            return f"its snapshot of sequence number {number} is {min(others)}, was {min(ids)}"
    return None


def _share_what_came_after(known: TableTrace, now: TableTrace, ours: int) -> bool:
    """Whether both have a common snapshot that is later than the file at ``ours`` in the log and than all files before it: then
    they did not diverge there."""
    since = max(at for _, at in known.files[: ours + 1])
    return any(at > since and snapshot_id in now.snapshot_times for snapshot_id, at in known.snapshot_times.items())


def _contains_last_snapshot(known: TableTrace, now: TableTrace) -> bool:
    return next(reversed(known.snapshot_times), None) in now.snapshot_times


def _coarse(file: LoggedFile, identity: Identity) -> LoggedFile:
    """Names without a version number contain a uuid, so they are unique without the time."""
    location, at = file
    name = coarse_identity(identity(location))
    return name, at if name.rpartition("/")[2].startswith("v") else 0


def _one_logs_the_other(known: TableTrace, now: TableTrace, identity: Identity) -> bool:
    ours, theirs = ([(identity(location), at) for location, at in trace.files] for trace in (known, now))
    return bool(ours and theirs) and (ours[-1] in theirs or theirs[-1] in ours)


def _in_one_place(known: TableTrace, now: TableTrace, identity: Identity) -> bool:
    if known.location is None or now.location is None:
        return False
    ours, theirs = folder_identity(identity, known.location), folder_identity(identity, now.location)
    return (
        ours == theirs
        or any(folder_identity(identity, former) == ours for former in now.former_locations)
        or any(folder_identity(identity, former) == theirs for former in known.former_locations)
    )


def same_origin(one: Table, other: Table) -> bool:
    """Whether they are states of one table, or of a table and a copy of it, whatever their places and later commits."""
    if one.metadata.table_uuid and other.metadata.table_uuid:
        return same_uuid(one.metadata.table_uuid, other.metadata.table_uuid)
    return TableStates(one).lead_to(other)


class TableStates:
    """States that are known to have one origin; any number may be added."""

    def __init__(self, table: Table) -> None:
        self._identity = identity_under(table.io)
        self._files: set[LoggedFile] = set()
        self._logged: set[LoggedFile] = set()
        self._snapshots: set[_Snapshot] = set()
        self.add(table)

    def add(self, state: Table) -> None:
        self._files.add(self._logged_file(state))
        self._logged |= self._logged_files(state)
        self._snapshots |= _snapshot_identities(state.metadata)

    def lead_to(self, state: Table) -> bool:
        """Whether ``state`` is before or after one of them by their metadata logs, or has one of their snapshots."""
        return (
            self._logged_file(state) in self._files
            or self._logged_file(state) in self._logged
            or not self._files.isdisjoint(self._logged_files(state))
            or not self._snapshots.isdisjoint(_snapshot_identities(state.metadata))
        )

    def _logged_file(self, state: Table) -> LoggedFile:
        return self._identity(state.metadata_location), state.metadata.last_updated_ms

    def _logged_files(self, state: Table) -> set[LoggedFile]:
        return {(self._identity(e.metadata_file), e.timestamp_ms) for e in state.metadata.metadata_log}


def _logs(later: Table, earlier: Table) -> bool:
    return bool(earlier.metadata_location) and logged(later, earlier.metadata_location, earlier.metadata.last_updated_ms)


def share_a_snapshot(one: TableMetadata, other: TableMetadata) -> bool:
    """Ids are random, and each snapshot has its own manifest list or manifests."""
    return not _snapshot_identities(one).isdisjoint(_snapshot_identities(other))


def logged(table: Table, metadata_location: str, last_updated_ms: int) -> bool:
    """Whether the metadata file belongs to the table: it is the current one or in its log. Its time distinguishes it from a file of
    another table in the same place: a filesystem catalog numbers its files."""
    identity = identity_under(table.io)
    entry = (identity(metadata_location), last_updated_ms)
    known = [(table.metadata_location, table.metadata.last_updated_ms)]
    known += [(entry.metadata_file, entry.timestamp_ms) for entry in table.metadata.metadata_log]
    return any((identity(location), at) == entry for location, at in known)


def _snapshot_identities(metadata: TableMetadata) -> set[_Snapshot]:
    return {(s.snapshot_id, s.timestamp_ms, s.manifest_list, s.manifests) for s in metadata.snapshots}
