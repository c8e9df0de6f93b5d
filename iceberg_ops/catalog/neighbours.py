"""Files in one table's folder that other tables of the catalog own.

Locations of tables may lie in each other: a table at the root of a warehouse, or a ``write.data.path`` that points below another
table. If another table's folder lies in the searched folder, this table may not delete anything below it. If it lies around the
searched folder, or is the same, every file that the other table refers to is protected. Former folders of a table count as well,
because its files stay there. The same holds if another table has imported files from a folder below or around the searched one: an
import from outside the table's own folders is recorded in the table's properties (``imported_folder_property``), and an import from
a folder of another table is refused, because that table may be deleting there. If another table's metadata lies outside all its
known folders, another engine moved it, and every file that it refers to counts.

A running import is not recorded yet. Its lease names the folder, so leases of the other tables count as well. The import looks for
tables around the folder while it holds its lease, so a table that is created around the folder later finds the lease.

Every table of the catalog is read, its own namespace first, and only if something would be deleted. Each table costs two reads of
its metadata and one read of its leases, and a third read of its metadata if it may be renamed in the meantime; no more of it is
kept in memory than its claims and a few facts. In a filesystem
catalog every folder of the warehouse is read, because namespaces do not list all tables there (``warehouse_walk``). A table that
cannot be read is an error, because its files cannot be identified.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

from iceberg_ops.catalog.catalog import Catalog, Identifier, KeepsTablesInFolders
from iceberg_ops.catalog.names import shown
from iceberg_ops.config.properties import IMPORTED_FOLDER_PREFIX, OWNS_IMPORTED_FILES
from iceberg_ops.deletion.leases import REGISTRATION, active_leases
from iceberg_ops.errors import (
    CorruptTableError,
    IcebergOpsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    SharedTableError,
    UnsupportedError,
)
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import (
    Identity,
    folder_identity,
    identity_under,
    is_absolute_under,
    is_within,
    links_under,
)
from iceberg_ops.spec.table_uuid import same_uuid
from iceberg_ops.table.metadata_files import read_metadata
from iceberg_ops.table.own_folders import folder_key, folders_of, former_folders, former_locations, imported_folders
from iceberg_ops.table.reachable import metadata_files, recorded_locations
from iceberg_ops.table.same_table import logged, same_origin, same_table, share_a_snapshot
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

_Found = tuple[Table, tuple[str, ...]]
"""Another table, and the folders whose files its jobs are about to commit."""

_READ_AT_ONCE = 8
_KEPT_AT_ONCE = 128
"""The most tables in memory at a time: some have tens of megabytes of metadata, and a catalog may have ten thousand tables."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The files of another table in the searched folder. Everything below ``folders`` (identities) is claimed, among them folders
    from which the table is importing right now. Every file that the table refers to is claimed if the table lies or lay ``around``
    the searched folder, imported files from there, or may have files anywhere."""

    table: Table
    folders: tuple[str, ...]
    around: bool


def claims_of_others(catalog: Catalog, table: Table, location: str, now_ms: int | None = None) -> Iterator[Claim]:
    """Claims of the catalog's other tables on what lies below ``location``; ``now_ms`` (None: now) is when leases are in force.

    Raises CatalogUnavailableError, CorruptTableError and UnsupportedError (another table that cannot be read).
    """
    identity = identity_under(table.io, deletes=True)
    searched = folder_identity(identity, location)
    table_folder = folder_identity(identity, table.location)
    for other, leased in _with_leased_folders(catalog, table, now_ms):
        if (claim := _claim(other, leased, identity, searched, table_folder)) is not None:
            yield claim


def _claim(other: Table, leased: Sequence[str], identity: Identity, searched: str, table_folder: str) -> Claim | None:
    """``own``: the table's own location. If another table in it lies or lay around the searched folder, it owns the whole folder.
    So does a table that is importing from around the folder, because only its job knows which files it imports."""
    for folder in (*folders_of(other), *former_folders(other), *imported_folders(other)):
        forbid_relative_record(other.io, folder, other.name)
    folders = [folder_identity(identity, folder) for folder in (*folders_of(other), *former_folders(other))]
    locations = [folder_identity(identity, folder) for folder in (other.location, *former_locations(other))]
    inside = tuple(folder for folder in folders if is_within(folder, searched) and folder != searched)
    if any(
        is_within(location, table_folder) and location != table_folder and is_within(searched, location) for location in locations
    ):
        inside = (*inside, searched)
    importing = [folder_identity(identity, folder) for folder in leased]
    inside = (*inside, *(searched if is_within(searched, folder) else folder for folder in importing if _overlap(folder, searched)))
    imported = [folder_identity(identity, folder) for folder in imported_folders(other)]
    around = (
        any(is_within(searched, folder) for folder in folders)
        or any(_overlap(folder, searched) for folder in imported)
        or _was_elsewhere(other, identity, [*folders, *imported])
    )
    return Claim(other, inside, around) if inside or around else None


def _overlap(one: str, other: str) -> bool:
    return is_within(one, other) or is_within(other, one)


def _was_elsewhere(other: Table, identity: Identity, known: Sequence[str]) -> bool:
    """Whether the table has metadata outside its known folders: another engine moved it, or it was registered as a copy, so its
    files may lie anywhere. No metadata file shows a former ``write.data.path`` that another engine changed."""
    metadata = other.metadata
    files = [*metadata_files(other), *(s.manifest_list for s in metadata.snapshots if s.manifest_list is not None)]
    places = {folder for file in files if (folder := file.rpartition("/")[0])}
    return any(not any(is_within(folder_identity(identity, place), folder) for folder in known) for place in places)


def claims_of_all(catalog: Catalog, table: Table, own_folders: Sequence[str]) -> Callable[[str], str | None]:
    """Location -> the name of another table of the catalog that claims it, in ``own_folders``, of which the first is the table's
    own location; None if no table does. Of the same table in another place (a copy, with or without rewritten paths, and its
    original) every referenced file counts.

    Raises the errors of ``claims_of_others``, and SharedTableError if another name holds the same table in the same place: it was
    registered twice, or is a copy whose metadata names the files here."""
    identity, links = identity_under(table.io, deletes=True), links_under(table.io)
    folder_ids = [folder_identity(identity, folder) for folder in own_folders]
    place = folder_identity(identity, table.location)
    folders: dict[str, str] = {}
    files: dict[str, str] = {}
    for other, leased in _with_leased_folders(catalog, table):
        is_same = same_origin(other, table)
        if is_same and folder_ids[0] == place == folder_identity(identity, other.location):
            uuid = f"uuid {other.metadata.table_uuid}" if other.metadata.table_uuid else "by its history"
            raise SharedTableError(f"table {other.name} is the same table ({uuid}; it was registered twice, or copied)")
        claims = [
            claim for searched in folder_ids if (claim := _claim(other, leased, identity, searched, folder_ids[0])) is not None
        ]
        folders |= {folder: other.name for claim in claims for folder in claim.folders}
        if is_same or any(claim.around for claim in claims):
            for location in recorded_by(other):
                files |= dict.fromkeys((identity(location), *links(location)), other.name)

    def claimed(location: str) -> str | None:
        name = identity(location)
        return files.get(name) or next((owner for folder, owner in folders.items() if is_within(name, folder)), None)

    return claimed


def recorded_by(other: Table) -> Iterator[str]:
    """Every location that another table refers to. Raises UnsupportedError for a relative one, and CorruptTableError with the name
    of the table, because it may be a folder that somebody copied and forgot."""
    try:
        for location in recorded_locations(other):
            forbid_relative_record(other.io, location, other.name)
            yield location
    except CorruptTableError as e:
        raise CorruptTableError(
            f"table {other.name} may need files of this table's folder, and cannot be read: {e}. Repair that table, or drop it; if "
            f"its folder is only a copy, move it out of the warehouse"
        ) from e


def forbid_relative_record(io: FileIO, location: str, owner: str) -> None:
    """Prevents that a table's live file looks like an orphan: a recorded relative location names another file in every working
    folder. Raises UnsupportedError."""
    if not is_absolute_under(io, location):
        raise UnsupportedError(
            f"not supported: removing orphan files where table {owner} records the relative location {location!r}, because the "
            "files it means cannot be identified. Copy the table's rows into a table with absolute locations, or drop it"
        )


def imported_folder_property(table: Table, source: str) -> dict[str, str]:
    """The property that records an import from the folder ``source``; empty if no record is needed. Partition folders are recorded
    by their parent folder, so that a daily import does not add a property each day. A parent folder that also holds a folder of
    the table is not recorded: then none of the table's own files would ever be deleted."""
    identity = identity_under(table.io)
    folder_ids = [folder_identity(identity, folder) for folder in (*folders_of(table), *former_folders(table))]
    folder = source.rstrip("/") or "/"
    while "=" in folder.rpartition("/")[2] and (above := folder.rpartition("/")[0]).count("/"):
        if any(is_within(known, folder_identity(identity, above)) for known in folder_ids):
            break
        folder = above
    name = folder_identity(identity, folder)
    if any(is_within(name, folder_identity(identity, known)) for known in (*folders_of(table), *imported_folders(table))):
        return {}
    return {folder_key(IMPORTED_FOLDER_PREFIX, name): folder}


def forbid_copy(catalog: Catalog, table: Table) -> None:
    """Call this before a job changes anything. Raises UnsupportedError: see ``KeepsTablesInFolders``."""
    if isinstance(catalog, KeepsTablesInFolders):
        catalog.forbid_copy(table)


def forbid_import_from_another_table(catalog: Catalog, table: Table, source: str) -> None:
    """Raise UnsupportedError if the folder ``source`` belongs to another table of the catalog: it holds a folder of one, or lies in
    one (and not in a folder of this table further in). The same holds if both tables import from the folder and one of them is
    recorded as the owner of its imported files.

    Reads every table of the catalog; raises the errors of ``claims_of_others``.
    """
    identity = identity_under(table.io)
    searched = folder_identity(identity, source)
    folder_ids = (folder_identity(identity, folder) for folder in folders_of(table))
    innermost = max((len(folder) for folder in folder_ids if is_within(searched, folder)), default=0)
    for other in other_tables(catalog, table):
        present, known = folders_of(other), (*folders_of(other), *former_folders(other))
        for folder in known:
            theirs = folder_identity(identity, folder)
            within = is_within(searched, theirs) and len(theirs) > innermost
            if within or (is_within(theirs, searched) and len(theirs) > max(innermost, len(searched))):
                whose = "a folder" if folder in present else "a former folder"
                where = f"{'it lies in' if within else 'it holds'} {folder}, {whose} of table {other.name}, whose jobs may"
                raise _not_imported(table, source, f"{where} delete files there")
        _forbid_import_of_recorded(table, other, source, identity)
        _forbid_import_of_owned(table, other, source, identity)


def _forbid_import_of_recorded(table: Table, other: Table, source: str, identity: Identity) -> None:
    """Prevents the import of live files of a table that lay around the folder, or may have files anywhere. Files that the other
    table imported from there itself are no reason to refuse: it deletes none of them."""
    searched = folder_identity(identity, source)
    former = [folder_identity(identity, folder) for folder in former_folders(other)]
    imported = [folder_identity(identity, folder) for folder in imported_folders(other)]
    known = [*former, *imported, *(folder_identity(identity, folder) for folder in folders_of(other))]
    if not any(is_within(searched, folder) for folder in former) and not _was_elsewhere(other, identity, known):
        return
    for location in recorded_locations(other):
        name = identity(location)
        if is_within(name, searched) and not any(is_within(name, folder) for folder in imported):
            raise _not_imported(table, source, f"{location} is a file of table {other.name}, whose jobs may delete it")


def _forbid_import_of_owned(table: Table, other: Table, source: str, identity: Identity) -> None:
    """Prevents that one of two tables deletes files of a folder from which both have imported."""
    searched = folder_identity(identity, source)
    if OWNS_IMPORTED_FILES.of(other.properties):
        owner = other
    elif OWNS_IMPORTED_FILES.of(table.properties) or any(
        is_within(searched, folder_identity(identity, folder)) for folder in folders_of(table)
    ):
        owner = table
    else:
        return
    for folder in imported_folders(other):
        theirs = folder_identity(identity, folder)
        if is_within(searched, theirs) or is_within(theirs, searched):
            deletes = f"table {other.name} has imported files from {folder}, and {owner.name} deletes such files when they expire"
            raise _not_imported(table, source, deletes)


def _not_imported(table: Table, source: str, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"not supported: importing {source} into table {table.name}, because {reason}. Move the files to a folder of their own, or "
        f"copy the rows with append"
    )


def forbid_second_name(catalog: Catalog, table: Table) -> list[Table]:
    """The catalog's tables whose folders lie in or around those of ``table``. Raises UnsupportedError if the catalog has the table
    under another name, with the same files: jobs on each name would delete files that only the other name's snapshots refer to. A
    copy at another location, with its own paths, is another table.

    Reads every table of the catalog. A table that cannot be read is skipped: no job deletes its files either, and the table may be
    registered from an older metadata file exactly because of its damage."""
    identity = identity_under(table.io)
    place, same_files = folder_identity(identity, table.location), list[Table]()
    folder_ids = [folder_identity(identity, folder) for folder in (*folders_of(table), *former_folders(table))]
    for other, _ in _of_others(catalog, table, lambda name: _loaded_if_readable(catalog, name)):
        if same_origin(other, table) and (
            folder_identity(identity, other.location) == place or share_a_snapshot(other.metadata, table.metadata)
        ):
            uuid = f" (uuid {other.metadata.table_uuid})" if other.metadata.table_uuid else ""
            raise UnsupportedError(
                f"not supported: table {table.name}, because table {other.name} is the same table{uuid}, and jobs on each of the "
                f"two names would delete files that the other one needs. Drop that name without purge first; or keep an earlier "
                f"state by a tag; or copy the rows into a new table"
            )
        theirs = [folder_identity(identity, folder) for folder in (*folders_of(other), *former_folders(other))]
        if any(_overlap(one, two) for one in folder_ids for two in theirs):
            same_files.append(other)
    return same_files


def other_tables(catalog: Catalog, table: Table) -> Iterator[Table]:
    """The catalog's other tables, in their current state. A table that was dropped in the meantime is skipped. A table that was
    renamed, or whose name another table has taken, is not skipped."""
    return (other for other, _ in _of_others(catalog, table, lambda name: _loaded(catalog, name)))


def is_under_another_name(catalog: Catalog, table: Table, is_meant: Callable[[Table], bool]) -> bool:
    """Whether another name of the catalog has a table that ``is_meant``. Call this before a commit counts as refused because
    ``table`` does not contain it. Two names of one table may have been exchanged since, and its metadata does not show that.

    Reads every table of the catalog except those that cannot be read. Raises CatalogUnavailableError."""
    if isinstance(catalog, KeepsTablesInFolders):
        return False
    others = _of_others(catalog, table, lambda name: _loaded_if_readable(catalog, name))
    return any(same_origin(other, table) and is_meant(other) for other, _ in others)


def _with_leased_folders(catalog: Catalog, table: Table, now_ms: int | None = None) -> Iterator[_Found]:
    """The same tables, with the folders whose files jobs on each table are about to commit."""

    def leased(other: Table) -> tuple[str, ...]:
        try:
            leases = (lease for lease in active_leases(other, now_ms) if lease.action != REGISTRATION)
            return tuple(folder for lease in leases for folder in lease.folders)
        except UnsupportedError:
            return ()  # Its location is in a store that this catalog's jobs cannot reach.

    return _of_others(catalog, table, lambda name: _loaded(catalog, name), leased)


def _loaded(catalog: Catalog, name: Identifier) -> Table | None:
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        return None


def _loaded_if_readable(catalog: Catalog, name: Identifier) -> Table | None:
    try:
        return _loaded(catalog, name)
    except (CorruptTableError, UnsupportedError) as e:
        log.warning("it is not known whether table %s is the same table: %s", ".".join(name), e)
        return None


def _of_others(
    catalog: Catalog,
    table: Table,
    load: Callable[[Identifier], Table | None],
    leased: Callable[[Table], tuple[str, ...]] | None = None,
) -> Iterator[_Found]:
    """Each other table, with the folders that its jobs have ``leased``. A table may come more than once.

    A name may get another table in the meantime: a table is renamed, two are swapped, or one replaces a dropped one. So if tables
    can be renamed, every name is read again, also the name of ``table``, until no name has a table that was not found under it
    before."""
    is_renamable = not isinstance(catalog, KeepsTablesInFolders)
    own_name, holders = table.identifier[1:], dict[Identifier, _KnownState | None]()

    def look(name: Identifier) -> _NameState:
        """An import takes its lease before it looks for other tables, and releases it after its commit. So the leases are read
        first, then the table."""
        before = load(name)
        if before is None:
            return _NameState(None)
        holder, is_still = _KnownState.of(before), _is_still(before, holders.get(name))
        if is_still or (name == own_name and same_table(table, before)):
            return _NameState(holder)
        if leased is None:
            return _NameState(holder, (before, ()), is_still is False)
        folders = leased(before)
        now = load(name)
        return _NameState(None) if now is None else _NameState(holder, (now, folders), is_still is False)

    with ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="neighbours") as threads:
        for turn in count():
            is_new = turn == 0 and is_renamable
            for names in _names(catalog, own_name):
                for name, seen in zip(names, threads.map(look, names), strict=True):
                    is_new |= turn > 0 and (seen.is_another or name not in holders)
                    holders[name] = seen.holder
                    if seen.neighbour is not None:
                        yield seen.neighbour
            if not is_new:
                return


@dataclass(frozen=True, slots=True)
class _KnownState:
    """A state of the table that a name had: as little of it as shows later whether the name still has the table."""

    uuid: str
    location: str
    metadata_location: str
    last_updated_ms: int

    @classmethod
    def of(cls, table: Table) -> _KnownState:
        metadata = table.metadata
        return cls(metadata.table_uuid, table.location, table.metadata_location, metadata.last_updated_ms)


@dataclass(frozen=True, slots=True)
class _NameState:
    """The table that a name has. ``found``: the table with its leased folders, unless it is certain that the name had it before.
    ``is_another``: it is certain that the name did not have it before."""

    holder: _KnownState | None
    neighbour: _Found | None = None
    is_another: bool = False


def _is_still(table: Table, holder: _KnownState | None) -> bool | None:
    """Whether the name still has the table that it had when it was read before. If its metadata log does not show this, the state
    of then is read again; None if its file cannot be read: commits delete old files."""
    if holder is None or holder.location != table.location:
        return False
    if holder.uuid and table.metadata.table_uuid and not same_uuid(holder.uuid, table.metadata.table_uuid):
        return False
    if logged(table, holder.metadata_location, holder.last_updated_ms):
        return True
    if not holder.metadata_location:
        return None  # A server need not say where the metadata is.
    try:
        before = read_metadata(table.io, holder.metadata_location)
    except IcebergOpsError as e:
        log.info("it is not known whether table %s is the same table as before: %s", table.name, e)
        return None
    if before.last_updated_ms != holder.last_updated_ms:
        return None
    return same_table(Table(table.identifier, before, holder.metadata_location, table.io), table)


def _names(catalog: Catalog, own_name: Identifier) -> Iterator[list[Identifier]]:
    """Names of tables, some at a time. If namespaces list all tables, those of the namespace of ``own`` come first. ``own`` is not
    among them if it cannot be another table's name."""
    if isinstance(catalog, KeepsTablesInFolders):
        listed: Iterable[list[Identifier]] = [[name for name in catalog.all_tables() if name != own_name]]
    else:
        listed = (_tables_in(catalog, namespace) for namespace in _namespaces(catalog, own_name[:-1]))
    for names in listed:
        yield from (names[start : start + _KEPT_AT_ONCE] for start in range(0, len(names), _KEPT_AT_ONCE))


def _namespaces(catalog: Catalog, first: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every namespace: ``first``, then those below the same first level, then the others."""
    yield first
    tops = catalog.list_namespaces()
    waiting = [first[:1], *(top for top in tops if top != first[:1])]
    while waiting:
        namespace = waiting.pop(0)
        if namespace != first:
            yield namespace
        waiting = [*catalog.list_namespaces(namespace), *waiting]


def _tables_in(catalog: Catalog, namespace: tuple[str, ...]) -> list[Identifier]:
    """No tables if the namespace was dropped. Raises UnsupportedError if the catalog lists a namespace that it does not have: its
    tables are not known."""
    missing: NoSuchNamespaceError | None = None
    for _ in range(2):
        try:
            return catalog.list_tables(namespace)
        except NoSuchNamespaceError as e:
            missing = e
        if namespace not in catalog.list_namespaces(namespace[:-1]):
            return []
    raise UnsupportedError(
        f"not supported: catalog {catalog.name}, because it lists namespace {shown(namespace)}, and has no such namespace: its "
        f"tables cannot be known ({missing}). Rename or drop that namespace by another tool"
    )
