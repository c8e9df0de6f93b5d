"""Forgetting a table of a filesystem catalog: the mark, then its version files.

The mark is the drop: from that moment no reader finds the table, and no writer can bring it back (``versions``). So once it was
tried, the drop is done or its outcome is unknown. Steps that a store does not answer are asked again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from iceberg_ops.catalog.base import attempts, moved_while_dropped
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.file_creation import CREATE_ATTEMPTS, FileCreation
from iceberg_ops.catalog.versions import HINT, DropMark, TableVersions, version_of
from iceberg_ops.deletion.metadata_files import delete_pointers
from iceberg_ops.errors import CatalogUnavailableError, CommitStateUnknownError, NoSuchTableError
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
        """Mark the table as dropped: from that moment no reader finds it, and no writer can bring it back. Then delete its version
        files, the current one last, and the hint, for readers that do not know of marks."""
        identifier, versions = self.identifier, self.versions
        name = ".".join(identifier)
        if (newest := versions.newest()) != location:
            raise moved_while_dropped(identifier) if newest else _no_table(self.catalog, identifier)
        before = _names(versions)
        uuid, current = versions.uuid_of(location.rpartition("/")[2]), version_of(location) or 0
        if uuid:
            self._mark(identifier, versions, uuid, current)
        try:
            mine = self._asked(lambda: self._list_in_mark(versions, uuid, current)) if uuid else before
            owners = self._asked(versions.owners)
            dropped = self._asked(versions.dropped)
        except Exception as e:
            if uuid:
                raise _half_dropped(versions, name, uuid, e) from e
            raise
        own = [n for n in owners if n in mine and (owners[n] == uuid or (owners[n] is None and (version_of(n) or 0) < current))]
        if late := sorted(set(own) - before):
            log.warning("table %s got %s while it was dropped; the files of that commit are left in its folder", name, late)
        gone = [f"{versions.folder}/{found}" for found in own]
        if set(owners.values()) <= {uuid, None, *dropped}:
            gone.append(f"{versions.folder}/{HINT}")
        try:
            failures = delete_pointers(versions.io, gone)
        except Exception as e:
            if not uuid:
                raise CommitStateUnknownError(f"table {name} may be half dropped: {e}") from e
            failures = [DeleteFailure(f"{versions.folder}/{HINT}", str(e))]
        for failure in failures:
            if not uuid:
                raise CommitStateUnknownError(f"table {name} is half dropped: {failure.location}: {failure.reason}")
            log.warning("table %s is dropped, but %s stays: %s", name, failure.location, failure.reason)

    def _mark(self, identifier: Identifier, versions: TableVersions, uuid: str, current: int) -> None:
        """Mark the table as dropped. A store that does not answer is asked again, and a mark that is there then is this one: the
        table was not dropped right before. Raises NoSuchTableError (somebody else dropped it), CommitStateUnknownError."""
        mark = DropMark(max(versions.listed(), default=current) + 1)
        doubt: Exception | None = None
        for _ in attempts(CREATE_ATTEMPTS, self.creation.sleep):
            try:
                if versions.mark_dropped(uuid, mark) or (doubt is not None and versions.mark_of(uuid) == mark):
                    return
                raise _no_table(self.catalog, identifier)
            except NoSuchTableError:
                raise
            except Exception as e:  # whatever it is, the mark may be there
                if doubt is None and (refusal := self.creation.refusal(versions.mark_place(uuid), e)) is not None:
                    raise refusal from e
                doubt = doubt or e
        raise _half_dropped(versions, ".".join(identifier), uuid, doubt) from doubt

    @staticmethod
    def _list_in_mark(versions: TableVersions, uuid: str, current: int) -> frozenset[str]:
        """Mark the table once more, with the version files that are there when it no longer counts; their names. Writers that find
        their own among them leave it to the drop."""
        names = _names(versions)
        highest = max((version_of(name) or 0 for name in names), default=current)
        versions.mark_dropped(uuid, DropMark(highest + 1, names), again=True)
        return names

    def _asked(self, question: Callable[[], T]) -> T:
        """The answer of a store that may have to be asked again, to a question whose repetition changes nothing."""
        for attempt in attempts(CREATE_ATTEMPTS, self.creation.sleep):
            try:
                return question()
            except (CatalogUnavailableError, OSError) as e:
                if attempt + 1 == CREATE_ATTEMPTS:
                    raise
                log.warning("%s; it is tried again", e)
        raise AssertionError


def _names(versions: TableVersions) -> frozenset[str]:
    return frozenset(name for names in versions.listed().values() for name in names)


def _no_table(catalog: str, identifier: Identifier) -> NoSuchTableError:
    return NoSuchTableError(f"catalog {catalog} has no table {'.'.join(identifier)}")


def _half_dropped(versions: TableVersions, name: str, uuid: str, why: Exception | None) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"the drop of table {name} got no answer: {why}; the table is dropped if there is a mark {versions.mark_place(uuid)}. No "
        f"file of it was deleted: to drop it with its files then, delete the mark before anybody makes a new table of the name, "
        f"and drop the table again"
    )
