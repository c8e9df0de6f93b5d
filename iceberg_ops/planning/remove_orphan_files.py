"""Finds the files below a table's location that belong to no table.

A file is an orphan if no snapshot, log entry, statistics entry or catalog pointer of the table refers to it, it was last changed
before the cut-off, it is not hidden, and it is not the checksum (``.name.crc``) of a file that is kept. Locations are compared by
identity (``iceberg_ops.io.locations``), so that ``file:/p`` and ``/p`` are one file. If a path is recorded under another scheme or
authority, the caller decides (``prefix-mismatch-mode``); if it is recorded only in another spelling, the file stays.

The guards, each against a known way to lose a table: the location must be the table's own; a metadata file of another table below
it stops everything; files are listed *before* the table is read, so files committed in between count as reachable; a recorded file
that the listing does not contain stops everything, because then listing and metadata describe different files (``MissingFile``). A
file with the name of one that is recorded in another place (``RecordedElsewhere``) stays: it may be that file by a path that
locations do not show (a router of HDFS, a mounted bucket). In doubt, a file stays.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from iceberg_ops.config.options import RemoveOrphanFilesOptions
from iceberg_ops.errors import CorruptTableError, OptionError, UnsupportedError
from iceberg_ops.io.file_io import FileInfo, FileIO
from iceberg_ops.io.locations import Identity, below, folder_identity, identity_under, is_absolute, is_within, path_part
from iceberg_ops.io.temporary_names import is_temporary
from iceberg_ops.planning.file_groups import Skipped
from iceberg_ops.planning.orphan_records import PathRecords, by_path, is_checksum, records_by_path
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.table_uuid import same_uuid, uuid_key
from iceberg_ops.table.metadata_files import is_ledger_file, parse_version, read_metadata
from iceberg_ops.table.same_table import TableStates
from iceberg_ops.table.second_lines import KnownMetadataFiles, second_catalog
from iceberg_ops.table.table import Table

_METADATA_FILE = re.compile(r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$")
_NO_METADATA_FILE = ".moved"
_VERSION_HINT = "version-hint.text"
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that may be removed."""

    info: FileInfo


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A recorded file in the searched folder that the listing does not contain."""

    location: str


@dataclass(frozen=True, slots=True)
class RecordedElsewhere:
    """A recorded file that lies outside the table's location, or outside a searched folder that is not in it, as far as locations
    show. The listing has no file of its path."""

    location: str


@dataclass(frozen=True, slots=True)
class UndecidedFile:
    """A metadata file whose table is known only after all of them are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Information about ``table`` besides its files. ``partition_names`` are names of partition fields of every spec, ``dropped``
    keys of the uuids of earlier tables with the table's name and folder. ``version`` is the number of the table's current
    metadata file."""

    table: Table
    partition_names: Collection[str] = ()
    dropped: Collection[str] = ()
    version: int = 0


def search_location(table_location: str, properties: Mapping[str, str], asked: str | None, identity: Identity) -> str:
    """The folder to search. Raises OptionError if it is not at or below one of the table's own locations.

    A trailing slash is ignored: ``/wh/t`` never covers ``/wh/t_backup``.
    """
    if asked is None:
        return table_location
    stated = (properties.get(key) for key in ("write.data.path", "write.metadata.path"))
    folders = [table_location, *(below(table_location, path) for path in stated if path)]
    if any(_is_within(asked, folder, identity) for folder in folders):
        return asked.rstrip("/") or "/"
    raise OptionError(
        f"remove_orphan_files: option location = {asked!r}: must be at or below the table's own, {', '.join(folders)}"
    )


def check_quarantine(folders: Iterable[str], quarantine: str | None, identity: Identity) -> None:
    """Raise OptionError for a quarantine inside one of the table's ``folders``: the next run would take its files for orphans
    again."""
    if quarantine is None:
        return
    for folder in folders:
        if _is_within(quarantine, folder, identity) or _is_within(folder, quarantine, identity):
            raise OptionError(
                f"remove_orphan_files: option quarantine-path = {quarantine!r}: must be neither below nor above the table, {folder}"
            )


def quarantine_root(folder: str, run_key: str) -> str:
    """The quarantine of one run: a folder named by its run key; if that is too long for a file name, or ``.`` or ``..``, by its
    beginning and a digest."""
    name = quote(run_key, safe="")
    if len(name) > _LONGEST_NAME or name in (".", ".."):
        name = f"{name[:_LONGEST_NAME].strip('.')}-{hashlib.sha256(run_key.encode()).hexdigest()[:16]}"
    return f"{folder.rstrip('/')}/{name}"


def quarantine_place(location: str, table_location: str, root: str) -> str:
    """The new place of an orphan: below the run's root, at its path below the table; at its whole path if it lies elsewhere. A
    metadata file gets another name: a folder that holds one is a table of a filesystem catalog, and a sign of one to other jobs."""
    table_prefix = path_part(table_location).rstrip("/") + "/"
    ending = _NO_METADATA_FILE if _METADATA_FILE.search(location) else ""
    return f"{root}/files/{path_part(location).removeprefix(table_prefix).lstrip('/')}{ending}"


def partition_names(metadata: TableMetadata) -> frozenset[str]:
    """Names of partition fields in every spec: folders ``_name=value`` are not hidden."""
    return frozenset(f.name for spec in metadata.partition_specs for f in spec.fields)


class OldMetadata:
    """Metadata files below the location that the table does not know: old ones of its own, or another table's."""

    def __init__(self, owned: Ownership, io: FileIO) -> None:
        self._owned, self._io = owned, io
        self._own, self._line = TableStates(owned.table), KnownMetadataFiles(owned.table)
        self._waiting: list[Table] = []

    def classify(self, info: FileInfo) -> Skipped | UndecidedFile | None:
        """None for a file of another kind, or an old one of the table itself or of a dropped table before it. If the file or the
        table has no uuid, history shows the owner; this needs the other files, so ``decide`` answers later.

        Raises UnsupportedError if it belongs to another table, or to a second catalog that also commits to this one. A file that
        does not parse is kept. So is a dropped table's file whose name the table may still use for a version: it could be that
        version when it is deleted."""
        if not _METADATA_FILE.search(info.location):
            return None
        try:
            metadata = read_metadata(self._io, info.location)
        except (CorruptTableError, FileNotFoundError) as e:
            return Skipped(info.location, f"metadata file that cannot be read: {e}")
        if uuid_key(metadata.table_uuid) in self._owned.dropped:
            passed = (parse_version(info.location) or 0) < self._owned.version
            return None if passed else Skipped(info.location, "it is a version of a table of this name that was dropped")
        state, uuid = replace(self._owned.table, metadata=metadata, metadata_location=info.location), self._uuid
        if not metadata.table_uuid or not uuid:
            self._waiting.append(state)
            return UndecidedFile()
        if not same_uuid(metadata.table_uuid, uuid):
            raise self._foreign(state)
        if self._line.is_left_by(state):
            raise second_catalog(self._owned.table, info.location)
        self._own.add(state)
        return None

    def decide(self) -> None:
        """Raise UnsupportedError if a file without a uuid is not shown to be the table's."""
        found = True
        while found and self._waiting:
            mine, others = list[Table](), list[Table]()
            for state in self._waiting:
                (mine if self._own.lead_to(state) else others).append(state)
            for state in mine:
                self._own.add(state)
            found, self._waiting = bool(mine), others
        if self._waiting:
            raise self._foreign(self._waiting[0])

    @property
    def _uuid(self) -> str:
        return self._owned.table.metadata.table_uuid

    def _foreign(self, state: Table) -> UnsupportedError:
        theirs = state.metadata.table_uuid
        if theirs and self._uuid:
            what = f"is metadata of table {theirs}, not of {self._uuid}"
        else:
            what = f"is not shown to be the table's by its log or snapshots, and {'the table' if theirs else 'it'} has no uuid"
        return UnsupportedError(
            f"not supported: removing orphan files below a location that holds another table: {state.metadata_location} {what}"
        )


def find_orphans(
    lines: Iterable[str], owned: Ownership, options: RemoveOrphanFilesOptions, location: str, io: FileIO
) -> Iterator[Orphan | Skipped | MissingFile | RecordedElsewhere]:
    """Separate orphans from other files, in the order of the sorted ``lines`` (``orphan_records``); the table's own files and its
    version hint are left out. ``location`` is the searched folder. An orphan may still be a file that is ``RecordedElsewhere``: see
    ``orphans_by_name``.

    Raises OptionError in prefix-mismatch-mode error if a listed and a recorded location differ only in scheme or authority, and
    UnsupportedError for metadata of another table.
    """
    identity = identity_under(io)
    searched, table_folder = folder_identity(identity, location), folder_identity(identity, owned.table.location)
    around = table_folder if is_within(searched, table_folder) else searched
    old, waiting = OldMetadata(owned, io), list[tuple[FileInfo, PathRecords]]()
    for meeting in records_by_path(lines):
        listed = {identity(info.location) for info in meeting.listed}
        recorded = {name: r for r in meeting.recorded if (name := identity(r))}
        for name, r in recorded.items():
            if name not in listed and is_within(name, searched):
                yield MissingFile(r)
            elif not listed and not is_within(name, around):
                yield RecordedElsewhere(r)
        for info in meeting.listed:
            if identity(info.location) in recorded or _is_checksum_of_kept(info.location, recorded, identity):
                continue
            verdict = old.classify(info)
            if isinstance(verdict, UndecidedFile):
                waiting.append((info, meeting))
            elif (result := verdict or _unowned(info, meeting, owned, options, location, identity)) is not None:
                yield result
    old.decide()
    for info, meeting in waiting:
        if (result := _unowned(info, meeting, owned, options, location, identity)) is not None:
            yield result


def _unowned(
    info: FileInfo, meeting: PathRecords, owned: Ownership, options: RemoveOrphanFilesOptions, location: str, identity: Identity
) -> Orphan | Skipped | None:
    """The result for a file that no recorded location names; None if it is not reported."""
    reason = _reason_to_keep(info, owned, options, location)
    if reason is None and meeting.recorded:
        path = path_part(identity(info.location))
        prefixes = {_scheme_and_authority(r) for r in meeting.recorded if path_part(identity(r)) == path}
        if prefixes:
            reason = _mismatch(info.location, prefixes, options)
        else:
            reason = f"it may be the file that is recorded as {next(iter(meeting.recorded))}"
    if reason is None:
        return Orphan(info)
    return Skipped(info.location, reason) if reason else None


def orphans_by_name(lines: Iterable[str]) -> Iterator[Orphan | Skipped]:
    """The orphans that have no name of a file elsewhere; the sorted ``lines`` hold both under their names (``file_name``). Writers
    of other formats give the name ``000000_0`` to a file of each partition, so the files of a name are not gathered."""
    for rows in by_path(lines):
        elsewhere: str | None = None
        for row in rows:
            if isinstance(row, str):
                elsewhere = elsewhere or row
            elif elsewhere is not None:
                yield Skipped(row.location, f"it has the name of {elsewhere}, and may be that file")
            else:
                yield Orphan(row)


def owned_elsewhere(lines: Iterable[str], io: FileIO) -> Iterator[Orphan | Skipped]:
    """Orphans that another table refers to are kept; ``lines`` hold that table's locations under its name."""
    identity = identity_under(io)
    for meeting in records_by_path(lines):
        owners = {identity(recorded): owner for recorded, owner in meeting.recorded.items()}
        for info in meeting.listed:
            owner = owners.get(identity(info.location))
            yield Orphan(info) if owner is None else Skipped(info.location, f"it is stored with the files of table {owner}")


def _reason_to_keep(info: FileInfo, owned: Ownership, options: RemoveOrphanFilesOptions, location: str) -> str | None:
    """Why a file that nothing refers to stays; None if it may be removed."""
    name = info.location.rsplit("/", 1)[-1]
    if name in (_VERSION_HINT, f".{_VERSION_HINT}.crc"):
        return ""
    if info.modified_ms is None:
        return "the store does not say when it was last changed"
    if info.modified_ms >= options.older_than_ms:
        return "it was changed after older-than"
    if _is_hidden(info.location, location, owned.partition_names) and not _is_own(info.location):
        return "hidden: a name on its path begins with _ or ."
    return None


def _is_own(location: str) -> bool:
    """Whether the file has a name that this package uses to hide files from others."""
    return is_temporary(location) or is_ledger_file(location)


def _is_hidden(location: str, root: str, names: Collection[str]) -> bool:
    below = path_part(location).removeprefix(path_part(root).rstrip("/")).strip("/")
    parts = below.split("/")
    *folders, name = parts
    if any(part[:1] in ("_", ".") and part.partition("=")[0] not in names for part in folders):
        return True
    return name[:1] in ("_", ".") and not is_checksum(name)


def _is_checksum_of_kept(location: str, reachable: Collection[str], identity: Callable[[str], str]) -> bool:
    folder, _, name = location.rpartition("/")
    return is_checksum(name) and identity(f"{folder}/{name[1:-4]}") in reachable


def _mismatch(location: str, prefixes: Collection[tuple[str, str]], options: RemoveOrphanFilesOptions) -> str | None:
    """Why a file stays whose path is recorded under another scheme or authority; None if it counts as an orphan."""
    prefix_of_file = _scheme_and_authority(location)
    if any(_same_prefix(prefix_of_file, prefix, options) for prefix in prefixes):
        return ""
    recorded = ", ".join("://".join(prefix) for prefix in sorted(prefixes))
    if options.prefix_mismatch_mode == "ignore":
        return f"its path is recorded under {recorded}"
    if options.prefix_mismatch_mode == "delete":
        return None
    raise OptionError(
        f"remove_orphan_files: {location} is recorded under {recorded}: say they are equal (equal-schemes, equal-authorities), or "
        "set prefix-mismatch-mode to ignore or delete"
    )


def _same_prefix(a: tuple[str, str], b: tuple[str, str], options: RemoveOrphanFilesOptions) -> bool:
    def normal(prefix: tuple[str, str]) -> tuple[str, str]:
        scheme, authority = prefix
        return options.equal_schemes.get(scheme, scheme), options.equal_authorities.get(authority, authority)

    (scheme_a, authority_a), (scheme_b, authority_b) = normal(a), normal(b)
    return (not scheme_a or not scheme_b or scheme_a == scheme_b) and (
        not authority_a or not authority_b or authority_a == authority_b
    )


def _scheme_and_authority(location: str) -> tuple[str, str]:
    parts = urlsplit(location) if is_absolute(location) and not location.startswith("/") else None
    return (parts.scheme, parts.netloc) if parts else ("", "")


def _is_within(location: str, folder: str, identity: Identity) -> bool:
    at = folder_identity(identity, location)
    return is_within(at, folder_identity(identity, folder)) and ".." not in at.split("/")
