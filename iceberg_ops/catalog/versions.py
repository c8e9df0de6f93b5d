"""The versions of one table of a filesystem catalog, and which of them belong to a dropped table.

A version is a file ``v<N>.metadata.json`` in the table's metadata folder. The current one is the highest, found by listing names.

A drop deletes those files, and then nothing prevents a late writer from creating the next one: it would restore the dropped table,
or hide a new table of the same name. So a drop first writes a mark: a small file, named by the table's uuid, outside the table's
folder (``<warehouse>/.iceberg-ops/<namespace>/<name>/.dropped/<uuid>``). From then on a version of that uuid does not count,
however late it is created. The mark holds the highest version that may still be created, and a new table of the name starts above
it, so that no version number is used twice.

Commits rely on the rule that a taken name stays taken. A process that reads a version and then deletes it by name may delete
another one that took the name in between. So a version of a dropped table has at most one deleter: the drop, for the names that its
mark lists; the version's own writer, for a name that the finished mark does not list; nobody else. A version that neither of them
could delete stays, and does not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import CorruptTableError, TerminalError
from iceberg_ops.io.file_io import FileIO, names_in
from iceberg_ops.io.temporary_names import is_temporary
from iceberg_ops.serde.json.metadata_json import metadata_head_from_json
from iceberg_ops.spec.table_uuid import uuid_key
from iceberg_ops.table.metadata_files import hinted_version, read_metadata
from iceberg_ops.table.same_table import share_a_snapshot
from iceberg_ops.table.stored_files import read_failure

HINT = "version-hint.text"
LOOKS = 4
"""How often a folder is listed if files vanish between listing and reading."""

_VERSION_FILE = re.compile(r"v(\d+)(\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)")

Listed = dict[int, list[str]]
"""Version -> names of its files, normally one."""


@dataclass(frozen=True, slots=True)
class DropMark:
    """The record of a drop. ``last``: the highest version that a writer of the table may still create. ``names``: the version files
    that existed when the table no longer counted, which the drop deletes; None before the drop has listed them."""

    last: int
    names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TableVersions:
    """The versions in ``folder``; ``marks`` is the folder of the marks of dropped tables of this name."""

    io: FileIO
    folder: str
    marks: str

    def listed(self) -> Listed:
        """Every version file, also of dropped tables."""
        by_version: Listed = {}
        for name in names_in(self.io, self.folder):
            if (version := parse_version(name)) is not None:
                by_version.setdefault(version, []).append(name)
        return by_version

    def dropped(self) -> frozenset[str]:
        """Keys of the uuids (``uuid_key``) of the tables of this name that were dropped."""
        return frozenset(uuid_key(unquote(name)) for name in names_in(self.io, self.marks) if not is_temporary(name))

    def living(self) -> Listed:
        """The version files without the topmost ones that belong to a dropped table: the highest remaining one is current."""
        for _ in range(LOOKS):
            # Marks are listed after versions: a drop writes its mark before it deletes a version.
            listed = self.listed()
            if not listed or not (dropped := self.dropped()):
                return listed
            try:
                return self._without(listed, dropped)
            except FileNotFoundError:
                continue
        raise CorruptTableError(f"{self.folder}: version files keep disappearing while they are read")

    def newest(self) -> str | None:
        """Location of the current version's file; None if there is no table. Raises CorruptTableError if the hint names a higher
        version, or if two files have its number."""
        for _ in range(LOOKS):
            # The hint is read first: versions only grow. If it changes in the meantime, it belongs to a table that was created just
            # now.
            hint = self.hint()
            versions = self.living()
            if not versions:
                return None
            newest = max(versions)
            if hint is None or hint <= newest:
                return self._only(versions, newest)
            if self.hint() == hint and max(self.living(), default=0) == newest:
                break
        raise CorruptTableError(
            f"{self.folder}/{HINT} says version {hint}, but the highest version there is {newest}: the metadata file of version "
            f"{hint} is missing. Restore it; or write {newest} into the hint to continue with version {newest}, without later "
            "changes"
        )

    def _only(self, versions: Listed, version: int) -> str:
        if len(names := versions[version]) > 1:
            raise CorruptTableError(
                f"{self.folder} holds version {version} twice, as {' and '.join(sorted(names))}: two writers committed it. Keep "
                "the one with the changes that you need, and move the other one away"
            )
        return f"{self.folder}/{names[0]}"

    def hint(self) -> int | None:
        """The content of ``version-hint.text``; None if it is missing, not a file, or not a version number."""
        try:
            return hinted_version(self.io.read(f"{self.folder}/{HINT}"))
        except (OSError, TerminalError):
            return None  # Any lasting failure counts as no hint: a folder, a circular link, no permission.

    def version_uuid(self, name: str) -> str:
        """The key of the uuid (``uuid_key``) of the table that the version file belongs to. Raises FileNotFoundError,
        CorruptTableError."""
        location = f"{self.folder}/{name}"
        try:
            data = self.io.read(location)
        except FileNotFoundError:
            raise
        except OSError as e:
            raise read_failure(e, location, "metadata file") from e
        return uuid_key(metadata_head_from_json(data, location).table_uuid)

    def mark_dropped(self, uuid: str, mark: DropMark, *, again: bool = False) -> bool:
        """From now on no version of the table counts. False if another process marked it before. ``again``: the caller itself
        marked it and now has more information."""
        lines = (str(mark.last), *sorted(mark.names or ()))
        try:
            self.io.write(self.mark_place(uuid), "".join(f"{line}\n" for line in lines).encode(), overwrite=again)
        except FileExistsError:
            return False
        return True

    def drop_mark(self, uuid: str) -> DropMark | None:
        """The mark of a dropped table; None if it was not dropped."""
        try:
            last, *names = self.io.read(self.mark_place(uuid)).decode("utf-8", "replace").splitlines() or ("",)
        except FileNotFoundError:
            return None
        return DropMark(parse_count(last) or 0, frozenset(names) or None)

    def last_of_dropped(self) -> int:
        """The highest version that a dropped table of this name had, or may still get; 0 if there is none."""
        return max((mark.last for uuid in self.dropped() if (mark := self.drop_mark(uuid)) is not None), default=0)

    def first_of_new_table(self) -> int:
        """A version above everything that dropped tables of this name have left, or that their late writers may still create."""
        last = self.last_of_dropped()
        highest = max((parse_version(location) or 0 for location in self.dead()), default=0)
        return (last if highest <= last else highest + 1) + 1

    def has_other_than(self, uuid: str) -> bool:
        """Whether the folder holds a version of another table that was not dropped."""
        mine = {uuid_key(uuid), *self.dropped()}
        return len(owners := self.owners()) > 1 and any(owner not in mine for owner in owners.values())

    def dead(self) -> list[str]:
        """Locations of the version files of dropped tables."""
        if not (dropped := self.dropped()):
            return []
        return [f"{self.folder}/{name}" for name, owner in self.owners().items() if owner in dropped]

    def dropped_owners(self) -> tuple[str, ...]:
        """Keys of the uuids of dropped tables that still have version files, the owner of the highest version first."""
        if not (dropped := self.dropped()):
            return ()
        return tuple(dict.fromkeys(owner for owner in reversed(self.owners().values()) if owner in dropped and owner))

    def owners(self) -> dict[str, str | None]:
        """Version file -> key of its table's uuid, lowest version first; None for a file that cannot be read, empty for a table
        without a uuid. A vanished file is skipped. A v1 table may get its uuid late: its earlier versions belong to it, too."""
        uuids: dict[str, str | None] = {}
        above: list[str] = []
        for _, names in sorted(self.listed().items(), reverse=True):
            for name in names:
                try:
                    uuids[name] = self.version_uuid(name) or self._uuid_of_later(name, above, uuids)
                except CorruptTableError:
                    uuids[name] = None
                except FileNotFoundError:
                    continue
            above = names
        return dict(reversed(uuids.items()))

    def is_dead(self, location: str) -> bool:
        """Whether the version file belongs to a dropped table."""
        if not (dropped := self.dropped()):
            return False
        name = location.rpartition("/")[2]
        try:
            return (self.version_uuid(name) or self.owners().get(name)) in dropped
        except (FileNotFoundError, CorruptTableError):
            return False

    def _uuid_of_later(self, name: str, above: Sequence[str], owners: Mapping[str, str | None]) -> str:
        """The uuid that the table of a version without one got later; empty if none of the files ``above`` was built on it."""
        return next((owner for later in above if (owner := owners.get(later)) and self._was_built_on(later, name)), "")

    def _was_built_on(self, later: str, name: str) -> bool:
        """Whether the metadata log of a later version contains this version with its update time. If versions in between are gone,
        the snapshots are compared instead."""
        early = read_metadata(self.io, f"{self.folder}/{name}")
        late = read_metadata(self.io, f"{self.folder}/{later}")
        logged = (e.timestamp_ms for e in late.metadata_log if e.metadata_file.rpartition("/")[2] == name)
        return early.last_updated_ms in logged or share_a_snapshot(early, late)

    def mark_place(self, uuid: str) -> str:
        """Location of the mark of a drop of the table."""
        return f"{self.marks}/{quote(uuid_key(uuid), safe='')}"

    def _without(self, listed: Listed, dropped: frozenset[str]) -> Listed:
        left = dict(listed)
        above: list[str] = []
        for version in sorted(listed, reverse=True):
            if alive := [name for name in listed[version] if not self._is_dead(name, above, dropped)]:
                left[version] = alive
                return left
            above = left.pop(version)
        return left

    def _is_dead(self, name: str, above: Sequence[str], dropped: frozenset[str]) -> bool:
        """``above``: dead files of the next version. A file that cannot be read is not dead: loading it raises the error."""
        try:
            return (self.version_uuid(name) or self._uuid_of_later(name, above, dict.fromkeys(above, "dead"))) in {*dropped, "dead"}
        except CorruptTableError:
            return False


def parse_version(location: str) -> int | None:
    """The version of a metadata file by its name; None for any other file."""
    m = _VERSION_FILE.fullmatch(location.rpartition("/")[2])
    return parse_count(m[1]) if m else None


def is_pointer(location: str) -> bool:
    """Whether a file is a version or the hint: such a file makes a folder a table."""
    return location.rpartition("/")[2] == HINT or parse_version(location) is not None
