"""Drops a table of a filesystem catalog: first the mark, then its version files.

The mark is the drop: from that moment no reader finds the table, and no writer can restore it (``versions``). So once the mark was
tried, the drop is done or its outcome is unknown. Steps that a store does not answer are retried."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from iceberg_ops.catalog.base import attempts, moved_while_dropped
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.file_creation import CREATE_ATTEMPTS, FileCreation
from iceberg_ops.catalog.outcomes import dropped_in_part, incomplete_if_interrupted, reason, unknown_outcome
from iceberg_ops.catalog.versions import HINT, DropMark, TableVersions, parse_version
from iceberg_ops.deletion.metadata_files import delete_pointers
from iceberg_ops.errors import (
    CatalogUnavailableError,
    CommitStateUnknownError,
    CorruptTableError,
    IcebergOpsError,
    NoSuchTableError,
)
from iceberg_ops.io.file_io import DeleteFailure

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableDrop:
    """The drop of the table ``identifier`` of the catalog named ``catalog``."""

    catalog: str
    identifier: Identifier
    versions: TableVersions
    creation: FileCreation

    def forget(self, location: str) -> None:
        """Mark the table as dropped: from that moment no reader finds it, and no writer can restore it. Then delete its version
        files, the current one last, and the hint, for readers that do not know marks.

        Raises NoSuchTableError, CommitFailedError (nothing was changed), and CommitStateUnknownError, also for an interrupt."""
        versions, name = self.versions, ".".join(self.identifier)
        if (newest := versions.newest()) != location:
            raise moved_while_dropped(self.identifier) if newest else self._no_table()
        before = _names(versions)
        uuid, current = versions.version_uuid(location.rpartition("/")[2]), parse_version(location) or 0
        if not uuid:
            self._delete_without_mark(self._own_names(uuid, current, before))
            return
        self._mark(uuid, current)
        try:
            mine = self._asked(lambda: self._list_in_mark(versions, uuid, current))
            own_versions = self._own_names(uuid, current, mine)
            if late := sorted({*own_versions} - before - {HINT}):
                log.warning("table %s got %s while it was dropped; the files of that commit are left in its folder", name, late)
        except BaseException as e:
            raise self._half_dropped(uuid, e) from e
        with incomplete_if_interrupted(dropped_in_part((self.catalog, *self.identifier))):
            self._delete(own_versions)

    def _own_names(self, uuid: str, current: int, mine: frozenset[str]) -> list[str]:
        """Names of the table's files among the versions ``mine``, the current one last, and of the hint if no other table of the
        name needs it."""
        owners = self._asked(self.versions.owners)
        dropped = self._asked(self.versions.dropped)
        own_versions = [
            n for n in owners if n in mine and (owners[n] == uuid or (owners[n] is None and (parse_version(n) or 0) < current))
        ]
        return [*own_versions, *([HINT] if set(owners.values()) <= {uuid, None, *dropped} else [])]

    def _delete(self, names: Sequence[str]) -> None:
        """Delete the files of the marked table in the folder of versions. Versions from before the table had its uuid are deleted
        first and separately: they count as dropped only as long as the next version exists."""
        try:
            early = [n for n in names if parse_version(n) is not None and not self._has_uuid(n)]
            failures = self._deleted(early)
            if not failures:
                failures = self._deleted([n for n in names if n not in early])
        except Exception as e:  # noqa: BLE001 - the mark is the drop
            failures = [DeleteFailure(f"{self.versions.folder}/{HINT}", str(e))]
        for failure in failures:
            log.warning("table %s is dropped, but %s stays: %s", ".".join(self.identifier), failure.location, failure.reason)

    def _delete_without_mark(self, names: Sequence[str]) -> None:
        """The same for a table without a uuid, which has no mark: it is dropped once its current version is gone. The current
        version is deleted last, so that no older state of the table ever becomes current."""
        versions = [name for name in names if name != HINT]
        for step in (versions[:-1], versions[-1:], [name for name in names if name == HINT]):
            try:
                failures = self._deleted(step)
            except BaseException as e:
                raise self._maybe_half_dropped(reason(e), e) from e
            for failure in failures:
                raise self._maybe_half_dropped(f"{failure.location}: {failure.reason}", None)

    def _maybe_half_dropped(self, what: str, why: BaseException | None) -> CommitStateUnknownError:
        """The error for a table without a mark, some of whose versions may be deleted."""
        return unknown_outcome(
            f"table {'.'.join(self.identifier)} may be partly dropped: {what}; it has no uuid, so it is dropped if no version "
            f"file is left in {self.versions.folder}. If the catalog still has the table, drop it again",
            why,
        )

    def _deleted(self, names: Sequence[str]) -> list[DeleteFailure]:
        return delete_pointers(self.versions.io, [f"{self.versions.folder}/{name}" for name in names]) if names else []

    def _has_uuid(self, name: str) -> bool:
        try:
            return self.versions.version_uuid(name) != ""
        except (CorruptTableError, FileNotFoundError):
            return True

    def _mark(self, uuid: str, current: int) -> None:
        """Mark the table as dropped. If the store does not answer, the mark is tried again. A mark that exists then is this drop's,
        because the table was not dropped right before. Raises NoSuchTableError (another process dropped it),
        CommitStateUnknownError."""
        versions = self.versions
        mark = DropMark(max(versions.listed(), default=current) + 1)
        doubt: Exception | None = None
        try:
            for _ in attempts(CREATE_ATTEMPTS, self.creation.sleep):
                try:
                    if versions.mark_dropped(uuid, mark) or (doubt is not None and versions.drop_mark(uuid) == mark):
                        return
                    raise self._no_table()
                except NoSuchTableError:
                    raise
                except Exception as e:  # after any error the mark may exist
                    if doubt is None and (refusal := self.creation.refusal(versions.mark_place(uuid), e)) is not None:
                        raise refusal from e
                    doubt = doubt or e
        except IcebergOpsError:
            raise
        except BaseException as e:
            raise self._half_dropped(uuid, e) from e
        raise self._half_dropped(uuid, doubt) from doubt

    @staticmethod
    def _list_in_mark(versions: TableVersions, uuid: str, current: int) -> frozenset[str]:
        """Mark the table once more, with the names of the version files that exist when it no longer counts; returns these names.
        A writer that finds its own file among them leaves it to the drop."""
        names = _names(versions)
        highest = max((parse_version(name) or 0 for name in names), default=current)
        versions.mark_dropped(uuid, DropMark(highest + 1, names), again=True)
        return names

    def _asked(self, question: Callable[[], T]) -> T:
        """The answer of the store to a call that is retried; repeating the call changes nothing."""
        for attempt in attempts(CREATE_ATTEMPTS, self.creation.sleep):
            try:
                return question()
            except (CatalogUnavailableError, OSError) as e:
                if attempt + 1 == CREATE_ATTEMPTS:
                    raise
                log.warning("%s; it is tried again", e)
        raise AssertionError

    def _no_table(self) -> NoSuchTableError:
        return NoSuchTableError(f"catalog {self.catalog} has no table {'.'.join(self.identifier)}")

    def _half_dropped(self, uuid: str, why: BaseException | None) -> CommitStateUnknownError:
        """The error for a mark that was tried, in a drop that ended because of ``why``."""
        return unknown_outcome(
            f"the drop of table {'.'.join(self.identifier)} got no answer: {reason(why)}; the table is dropped if there is a mark "
            f"{self.versions.mark_place(uuid)}. No file of it was deleted: to drop it with its files then, delete the mark before "
            "a new table of this name is created, and drop the table again",
            why,
        )


def _names(versions: TableVersions) -> frozenset[str]:
    return frozenset(name for names in versions.listed().values() for name in names)
