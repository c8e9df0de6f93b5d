"""Catalogs that keep one pointer per table in a store of their own, and move it by compare-and-swap.

The next metadata is written under a fresh name, then the pointer is moved from the old location to the new one. The new location is
unique and a pointer never returns to an old one, so it is safe to send the same swap twice: it can succeed only once. So a swap is
retried if the store does not answer; the same holds for the drop and the rename of a pointer at one location. A swap counts as
refused only if that is certain: the store refused the first attempt, no attempt reached the store, or the metadata log shows
another file after the old one and no other name of the catalog has a table with our commit. Any other failure after a pointer
change was tried is an unknown outcome.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

from iceberg_ops.catalog.base import (
    BaseCatalog,
    attempts,
    metadata_version,
    moved_while_dropped,
    now_ms,
)
from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.catalog.neighbours import forbid_second_name, is_under_another_name
from iceberg_ops.catalog.outcomes import Tried, nothing_published, reason, unknown_if_it_fails, unknown_once_tried, unknown_outcome
from iceberg_ops.catalog.registration import announced
from iceberg_ops.deletion.metadata_files import discard_refused_metadata
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    IcebergOpsError,
    NoSuchTableError,
    TerminalError,
)
from iceberg_ops.io.file_io import FileIO, is_far
from iceberg_ops.io.locations import absolute_under, forbid_relative, identity_under
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import new_metadata_location, read_metadata, write_metadata
from iceberg_ops.table.reachable import metadata_files
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

SWAP_ATTEMPTS = 4
_KNOWN = 2
"""Metadata files kept in memory: some have tens of megabytes."""
RENAME_ATTEMPTS = 100
"""How often a rename restarts because a commit moved the pointer."""


class NotAppliedError(CatalogUnavailableError):
    """The store was not reached, or it reports that it did not make the change."""


class RefusedError(TerminalError):
    """The store reports that it did not make the change, for a lasting reason."""


@contextmanager
def looking_after_a_change() -> Iterator[None]:
    """Within, the store is asked what became of a change. That it is not reached, or refuses, does not say that nothing was
    changed. Raises CatalogUnavailableError."""
    try:
        yield
    except (NotAppliedError, RefusedError) as e:
        raise CatalogUnavailableError(f"what became of a change could not be looked up: {e}") from e


class PointerCatalog(BaseCatalog):
    """Subclasses keep the pointers. Every store call raises CatalogUnavailableError if the store does not answer, and
    NotAppliedError or RefusedError if it is certain that nothing was changed."""

    def __init__(
        self,
        name: str,
        io: FileIO,
        *,
        warehouse: str | None = None,
        clock: Callable[[], int] = now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, io, warehouse=warehouse, clock=clock)
        self._sleep = sleep
        self._known: dict[str, TableMetadata] = {}
        self._known_lock = threading.Lock()

    @abstractmethod
    def _insert_pointer(self, identifier: Identifier, location: str) -> None:
        """Raises AlreadyExistsError."""

    @abstractmethod
    def _swap_pointer(self, identifier: Identifier, expected: str, new: str) -> bool:
        """Move the pointer if it is at ``expected``; returns whether it was."""

    @abstractmethod
    def _rename_pointer(self, old: Identifier, new: Identifier, expected: str) -> bool:
        """Give the pointer the name ``new`` if it is at ``expected``; returns whether it was. Raises AlreadyExistsError."""

    @abstractmethod
    def _remove_pointer(self, identifier: Identifier, expected: str) -> bool:
        """Remove the pointer if it is at ``expected``; returns whether it was."""

    def register_table(self, identifier: Identifier, metadata_location: str) -> Table:
        self._check_new(identifier)
        metadata_location = absolute_under(self.io, metadata_location)
        metadata = read_metadata(self.io, metadata_location)
        forbid_relative(self.io, metadata.location, f"{metadata_location}: its table location")
        registered = self._table(identifier, metadata, metadata_location)
        around = forbid_second_name(cast("Catalog", self), registered)
        with announced(registered, around):
            read_metadata(self.io, metadata_location)  # A drop that ended in between has deleted this file as its last one.
            with unknown_once_tried(f"registering table {'.'.join(identifier)}") as tried:
                self._insert(identifier, metadata_location, "registering", tried)
                return registered

    def rename_table(self, old: Identifier, new: Identifier) -> Table:
        self._existing_location(old)
        self._check_new(new)
        for _ in range(RENAME_ATTEMPTS):
            location, metadata = self._current(old)
            with unknown_if_it_fails(partial(_unknown_rename, old, new, location)):
                if self._renamed(old, new, location):
                    return self._table(new, metadata, location)
        raise CommitFailedError(
            f"table {'.'.join(old)} changed at each of {RENAME_ATTEMPTS} tries to rename it: nothing was changed"
        )

    def _renamed(self, old: Identifier, new: Identifier, location: str) -> bool:
        """False if a commit moved the pointer in the meantime. Raises AlreadyExistsError, CommitStateUnknownError."""
        try:
            done, doubt = self._asked(lambda: self._rename_pointer(old, new, location))
        except AlreadyExistsError:
            try:
                is_refused = self._current_location(old) == location
            except IcebergOpsError as e:
                raise _unknown_rename(old, new, location, e) from e
            if is_refused or not self._was_renamed(new, location):
                raise
            return True  # The first attempt had succeeded, but its answer was lost.
        if done or doubt is None:
            return bool(done)
        if self._was_renamed(new, location):
            return True
        raise _unknown_rename(old, new, location, doubt) from doubt

    def _forget(self, identifier: Identifier, location: str) -> None:
        unknown = partial(_unknown_drop, self.name, identifier, location)
        with unknown_if_it_fails(unknown):
            done, doubt = self._asked(lambda: self._remove_pointer(identifier, location))
            if done:
                return
            if doubt is None and self._current_location(identifier) is None:
                raise NoSuchTableError(f"catalog {self.name} has no table {'.'.join(identifier)}")
            if doubt is None or (
                self._was_renamed(identifier, location) and self._pointer_or_none(identifier) not in (None, location)
            ):
                raise moved_while_dropped(identifier)
            raise unknown(doubt) from doubt

    def _asked(self, change: Callable[[], bool]) -> tuple[bool | None, CatalogUnavailableError | None]:
        """Make a change that can happen only once, and retry it if the store does not answer. Returns whether the store says that
        it happened (None: no answer), and the first doubt. With a doubt, False means that it had happened before, or cannot happen.
        Raises NotAppliedError, RefusedError."""
        doubt: CatalogUnavailableError | None = None
        not_applied: NotAppliedError | None = None
        for _ in attempts(SWAP_ATTEMPTS, self._sleep):
            try:
                return change(), doubt
            except NotAppliedError as e:
                not_applied = e
            except AlreadyExistsError:
                raise
            except CatalogUnavailableError as e:
                doubt = doubt or e
            except IcebergOpsError:  # Why the store refuses this try does not tell what became of the one before.
                if doubt is None:
                    raise
                break
        if doubt is None and not_applied is not None:
            raise not_applied
        return None, doubt

    def _was_renamed(self, identifier: Identifier, location: str) -> bool:
        """Whether the table that now has the name is or was at ``location``; False if this cannot be determined."""
        try:
            current = self._current_location(identifier)
            if current is None or current == location:
                return current is not None
            identity = identity_under(self.io)
            return any(identity(e.metadata_file) == identity(location) for e in read_metadata(self.io, current).metadata_log)
        except (IcebergOpsError, OSError) as e:
            log.warning("table %s: cannot check whether it was at %s: %s", ".".join(identifier), location, e)
            return False

    def _publish_first(self, identifier: Identifier, metadata: TableMetadata, tried: Tried) -> str:
        location = self._written(identifier, metadata, 0)
        try:
            self._insert(identifier, location, "creating", tried)
        except NotAppliedError:
            self._discard(location)
            raise
        except RefusedError:
            if self._discard_refused(identifier, location):
                raise
        except AlreadyExistsError:
            if self._discard_refused(identifier, location):
                raise
        return location

    def _insert(self, identifier: Identifier, location: str, what: str, tried: Tried) -> None:
        """Raises AlreadyExistsError, CommitStateUnknownError."""
        tried(location)
        try:
            self._insert_pointer(identifier, location)
        except NotAppliedError:
            raise
        except CatalogUnavailableError as e:
            if self._pointer_or_none(identifier) != location:
                raise CommitStateUnknownError(
                    f"{what} table {'.'.join(identifier)} got no answer: {e}; it succeeded if catalog {self.name} has {location}"
                ) from e

    def _publish_next(
        self, identifier: Identifier, current_location: str, current: TableMetadata, metadata: TableMetadata, tried: Tried
    ) -> str:
        location = self._written(identifier, metadata, metadata_version(current_location) + 1)
        tried(location)
        try:
            self._swap(identifier, current_location, location)
        except NotAppliedError:
            self._discard(location)
            raise
        except RefusedError:
            if self._discard_refused(identifier, location):
                raise
        except CommitFailedError:
            discard_refused_metadata(self.io, location)
            raise
        return location

    def _read(self, location: str) -> TableMetadata:
        """A job loads its table several times, mostly to see that nothing has changed. A file in a store that this catalog has just
        read or published is not read again: its name is never used a second time."""
        with self._known_lock:
            known = self._known.get(location)
        return self._kept(location, super()._read(location)) if known is None else known

    def _kept(self, location: str, metadata: TableMetadata) -> TableMetadata:
        if is_far(self.io, location):
            with self._known_lock:
                self._known = dict([*self._known.items(), (location, metadata)][-_KNOWN:])
        return metadata

    def _written(self, identifier: Identifier, metadata: TableMetadata, version: int) -> str:
        """Write a new metadata file; returns its location. The pointer is not touched before the file exists, so a failure here is
        certainly not a commit: raises CatalogUnavailableError, and TerminalError for a lasting reason."""
        location = new_metadata_location(metadata, version)
        try:
            with nothing_published(f"table {'.'.join(identifier)}: metadata file {location} could not be written"):
                write_metadata(self.io, location, metadata)
        except IcebergOpsError:
            self._discard(location)
            raise
        return location

    def _discard(self, location: str) -> None:
        """Delete the file of a failed write, or a file that no pointer was moved to, if it exists."""
        try:
            discard_refused_metadata(self.io, location)
        except Exception as e:  # noqa: BLE001 - the error before it is the one to see
            log.warning("%s is left for remove_orphan_files: %s", location, e)

    def _discard_refused(self, identifier: Identifier, location: str) -> bool:
        """Delete the file of a refused change. False, and no file is deleted, if the pointer is at the file: if a store reports a
        refusal although it made the change, the table must not lose its metadata."""
        try:
            if self._current_location(identifier) == location:
                log.warning("table %s is at %s, although that change was reported as refused", ".".join(identifier), location)
                return False
        except (IcebergOpsError, OSError) as e:
            log.warning("%s is left for remove_orphan_files, because the catalog does not answer: %s", location, e)
            return True
        self._discard(location)
        return True

    def _swap(self, identifier: Identifier, expected: str, new: str) -> None:
        name = ".".join(identifier)
        done, doubt = self._asked(lambda: self._swap_pointer(identifier, expected, new))
        if done:
            return
        if doubt is None:
            raise CommitFailedError(f"table {name}: the metadata location has changed from {expected}")
        if done is not None:
            match self._was_swapped(identifier, expected, new):
                case True:
                    return
                case False:
                    raise CommitFailedError(f"table {name}: another commit came first, on top of {expected}")
        raise CommitStateUnknownError(
            f"table {name}: the swap to {new} got no answer: {doubt}; it succeeded if that file is in the metadata log"
        )

    def _was_swapped(self, identifier: Identifier, expected: str, new: str) -> bool | None:
        """Whether the pointer once was at ``new``, if it is no longer at ``expected``; None if this cannot be determined."""
        try:
            current = self._current_location(identifier)
            if current is None or current == new:
                return None if current is None else True
            identity = identity_under(self.io)
            table = self._table(identifier, read_metadata(self.io, current), current)
            passed = {identity(place) for place in metadata_files(table)}
            if identity(new) in passed or identity(expected) not in passed:
                return True if identity(new) in passed else None

            def was_there(other: Table) -> bool:
                return identity(new) in {identity(place) for place in metadata_files(other)}

            return None if is_under_another_name(cast("Catalog", self), table, was_there) else False
        except (IcebergOpsError, OSError) as e:
            log.warning("table %s: cannot check whether it was at %s: %s", ".".join(identifier), new, e)
            return None

    def _pointer_or_none(self, identifier: Identifier) -> str | None:
        """None also if the store does not say it."""
        try:
            return self._current_location(identifier)
        except IcebergOpsError:
            return None


def _unknown_rename(old: Identifier, new: Identifier, location: str, why: BaseException) -> CommitStateUnknownError:
    return unknown_outcome(
        f"renaming table {'.'.join(old)} to {'.'.join(new)} got no answer: {reason(why)}; it succeeded if the table of metadata "
        f"{location} is at the new name",
        why,
    )


def _unknown_drop(catalog: str, identifier: Identifier, location: str, why: BaseException) -> CommitStateUnknownError:
    return unknown_outcome(
        f"the drop of table {'.'.join(identifier)} got no answer: {reason(why)}; it succeeded if catalog {catalog} has no such "
        f"table now. No file was deleted: to drop the table with its files then, register {location} under the name again and "
        "drop it",
        why,
    )
