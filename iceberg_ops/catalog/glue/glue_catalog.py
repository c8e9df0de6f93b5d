"""A catalog in AWS Glue.

A commit is one ``UpdateTable`` for the version of the record that was read: Glue refuses it if another change came first. Deletes
and renames have no such condition in Glue. So a record is first changed into one that is not an Iceberg table, by a conditional
update, and then deleted: no commit is lost in between. A rename creates the new record before that. If it is interrupted between
these steps, both names have the table, and maintenance refuses to delete its files until one of them is dropped without purge.

Drops and renames mark the records that they change (``_ATTEMPT``). So after a lost answer it recognizes its own record, and
continues; it never uses the record of another process.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from iceberg_ops.catalog.base import now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.glue.glue_client import EntityExists, Glue, NoSuchEntity, VersionConflict
from iceberg_ops.catalog.glue.glue_table import (
    ATTEMPT,
    DESCRIPTION,
    FORMER_METADATA_LOCATION,
    METADATA_LOCATION,
    TABLE_TYPE,
    location_in,
    new_input,
    table_input,
)
from iceberg_ops.catalog.one_level import OneLevelCatalog
from iceberg_ops.catalog.outcomes import unknown_outcome
from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.errors import AlreadyExistsError, BadInputError, CatalogUnavailableError, IcebergOpsError, NoSuchNamespaceError
from iceberg_ops.io.file_io import FileIO

log = logging.getLogger(__name__)

_LOCATION = "location"
_NAME = re.compile(r"[a-z0-9_]{1,252}")


@dataclass(slots=True)
class _Attempt:
    """One drop or rename. ``before``: the record before it was retired. ``in_doubt``: one of its requests got no answer and may
    still arrive, so its changes are not reverted."""

    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    before: Mapping[str, Any] | None = None
    is_retired: bool = False
    in_doubt: bool = False

    def made(self, record: Mapping[str, Any] | None) -> bool:
        """Whether the record is one that this attempt has written."""
        return record is not None and (record.get("Parameters") or {}).get(ATTEMPT) == self.mark

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Within, one change."""
        try:
            yield
        except (NotAppliedError, RefusedError):
            raise
        except CatalogUnavailableError:
            self.in_doubt = True
            raise


class _OfThread(threading.local):
    attempt: _Attempt | None = None


class GlueCatalog(OneLevelCatalog):
    """``skip_archive``: whether Glue keeps no former version of a record (Java: ``glue.skip-archive``)."""

    def __init__(
        self,
        name: str,
        glue: Glue,
        io: FileIO,
        *,
        warehouse: str | None = None,
        skip_archive: bool = True,
        clock: Callable[[], int] = now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, io, warehouse=warehouse, clock=clock, sleep=sleep)
        self._glue = glue
        self._skip_archive = skip_archive
        self._here = _OfThread()

    # pointers

    def _current_location(self, identifier: Identifier) -> str | None:
        record = self._record(identifier)
        return None if record is None else location_in(record)

    def _record(self, identifier: Identifier) -> dict[str, Any] | None:
        """Glue's record of a table, of Iceberg or not. Glue stores names in lower case: a spelling in another case is the same
        name."""
        if not self._can_be(identifier):
            return None
        database, name = identifier
        try:
            return self._glue.read_one("GetTable", "Table", DatabaseName=database, Name=name)
        except NoSuchEntity:
            return None

    def _insert_pointer(self, identifier: Identifier, location: str) -> None:
        database, name = identifier
        self._create(database, new_input(name, location, self._published(location).metadata))

    def _create(self, database: str, record: Mapping[str, Any]) -> None:
        name = f"{database}.{record['Name']}"
        try:
            self._glue.change("CreateTable", DatabaseName=database, TableInput=record)
        except EntityExists as e:
            existing = self._record((database, record["Name"]))
            of_whom = (
                "" if existing is None or location_in(existing) else ", as a record that is not an Iceberg table: delete it in Glue"
            )
            raise AlreadyExistsError(f"table {name} already exists in catalog {self.name}{of_whom}") from e
        except NoSuchEntity as e:
            raise RefusedError(f"table {name} could not be created: {e}; nothing was changed") from e

    def _swap_pointer(self, identifier: Identifier, expected: str, new: str) -> bool:
        record = self._record(identifier)
        if record is None or location_in(record) != expected:
            return False
        metadata = self._published(new).metadata
        return self._updated(identifier, record, new_input(identifier[-1], new, metadata, record=record, expected=expected))

    def _updated(self, identifier: Identifier, record: Mapping[str, Any], following: Mapping[str, Any]) -> bool:
        """Replace the record if it still has the version that was read; whether it had."""
        if not record.get("VersionId"):
            raise RefusedError(
                f"catalog {self.name}: Glue returns no version of table {'.'.join(identifier)}, so commits could overwrite each "
                "other; nothing was changed"
            )
        try:
            self._glue.change(
                "UpdateTable",
                DatabaseName=identifier[0],
                TableInput=following,
                SkipArchive=self._skip_archive,
                VersionId=record["VersionId"],
            )
        except (VersionConflict, NoSuchEntity):
            return False
        return True

    @contextmanager
    def _attempting(self) -> Iterator[_Attempt]:
        self._here.attempt = attempt = _Attempt()
        try:
            yield attempt
        finally:
            self._here.attempt = None

    @property
    def _attempt(self) -> _Attempt:
        assert self._here.attempt is not None, "_forget and _renamed begin it"
        return self._here.attempt

    def _forget(self, identifier: Identifier, location: str) -> None:
        with self._attempting():
            super()._forget(identifier, location)

    def _remove_pointer(self, identifier: Identifier, expected: str) -> bool:
        attempt, record = self._attempt, self._record(identifier)
        if attempt.is_retired and not attempt.made(record):
            return True  # The delete whose answer was lost has happened.
        is_begun = attempt.made(record)
        if not is_begun and (record is None or location_in(record) != expected or not self._retired(identifier, record)):
            return False
        attempt.is_retired = True
        try:
            with attempt.asking():
                self._delete(identifier)
        except (NotAppliedError, RefusedError):
            self._restore(identifier, attempt)
            raise
        return True

    def _restore(self, identifier: Identifier, attempt: _Attempt) -> None:
        """Make a retired record a table again. Raises CatalogUnavailableError if it is not certain that it is one."""
        name, before = ".".join(identifier), attempt.before
        if attempt.in_doubt or before is None:
            raise CatalogUnavailableError(f"table {name}: its record in Glue is retired, and may be deleted at any moment")
        try:
            retired = self._record(identifier)
            done = (
                retired is not None
                and attempt.made(retired)
                and self._updated(identifier, retired, table_input(before, identifier[1]))
            )
        except IcebergOpsError as e:
            raise CatalogUnavailableError(f"table {name}: its record in Glue was retired, and could not be restored: {e}") from e
        if not done:
            raise CatalogUnavailableError(f"table {name}: its record in Glue was retired, and then changed by others")
        attempt.is_retired = False

    def _retired(self, identifier: Identifier, record: Mapping[str, Any]) -> bool:
        """Change the record into one that is not an Iceberg table; False if another change came first."""
        attempt, following = self._attempt, table_input(record, identifier[-1])
        parameters = {**following["Parameters"], ATTEMPT: attempt.mark}
        parameters[FORMER_METADATA_LOCATION] = parameters.pop(METADATA_LOCATION)
        parameters.pop(TABLE_TYPE)
        attempt.before = record
        with attempt.asking():
            done = self._updated(identifier, record, {**following, "Parameters": parameters})
        return done or _is_retired_by(attempt, self._record(identifier))

    def _delete(self, identifier: Identifier) -> None:
        try:
            self._glue.change("DeleteTable", DatabaseName=identifier[0], Name=identifier[1])
        except NoSuchEntity:
            return

    def _renamed(self, old: Identifier, new: Identifier, location: str) -> bool:
        with self._attempting() as attempt:
            done = super()._renamed(old, new, location)
            if done and not attempt.is_retired and self._current_location(old) == location:
                raise unknown_outcome(
                    f"renaming table {'.'.join(old)} to {'.'.join(new)} got no answer, and the table now has both names: drop one "
                    "of them without purge",
                    None,
                )
            return done

    def _rename_pointer(self, old: Identifier, new: Identifier, expected: str) -> bool:
        attempt, record = self._attempt, self._record(old)
        if not attempt.is_retired and not attempt.made(record):
            if record is None or location_in(record) != expected:
                self._take_back(new, expected)
                return False
            self._create_once(new, record)
            try:
                is_retired = self._retired(old, record)
            except (NotAppliedError, RefusedError):
                self._take_back(new, expected)
                raise
            if not is_retired:
                self._take_back(new, expected)
                return False
        attempt.is_retired = True
        try:
            self._delete(old)
        except IcebergOpsError as e:  # The table has its new name; the old record is no table any more.
            log.warning("the record of table %s is left in Glue, and can be deleted there: %s", ".".join(old), e)
        return True

    def _create_once(self, new: Identifier, record: Mapping[str, Any]) -> None:
        """Create the record of a rename, if the attempt has not created it yet. Raises AlreadyExistsError."""
        following = table_input(record, new[1])
        parameters = {**following["Parameters"], ATTEMPT: self._attempt.mark}
        try:
            self._create(new[0], {**following, "Parameters": parameters})
        except AlreadyExistsError:
            if not self._attempt.made(self._record(new)):
                raise

    def _take_back(self, new: Identifier, expected: str) -> None:
        """Delete the record that the attempt has created. Raises CatalogUnavailableError if both names may have the table now."""
        attempt, name = self._attempt, ".".join(new)
        try:
            if not attempt.made(record := self._record(new)):
                return
            if attempt.in_doubt or record is None or location_in(record) != expected:
                raise CatalogUnavailableError("the outcome of the rename is unknown, or the table has changed under its new name")
            self._delete(new)
        except IcebergOpsError as e:
            raise CatalogUnavailableError(f"table {name}: the record of a rename could not be reverted: {e}") from e

    # namespaces

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        self._check_namespace(namespace)
        (database,) = namespace
        yield from ((database, str(record["Name"])) for record in self._tables_in(database) if location_in(record) is not None)

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        self._check_new_namespace(namespace)
        given = dict(properties or {})
        database: dict[str, Any] = {"Name": namespace[0]}
        if (location := given.pop(_LOCATION, None)) is not None:
            database["LocationUri"] = location
        if (comment := given.pop(DESCRIPTION, None)) is not None:
            database["Description"] = comment
        try:
            self._glue.change("CreateDatabase", DatabaseInput={**database, "Parameters": given})
        except EntityExists:
            raise AlreadyExistsError(f"namespace {namespace[0]} already exists in catalog {self.name}") from None

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        self._check_empty(namespace)
        (database,) = namespace
        if (other := next(self._tables_in(database), None)) is not None:
            raise BadInputError(f"namespace {database} is not empty: it holds {other['Name']}, which is not an Iceberg table")
        try:
            self._glue.change("DeleteDatabase", Name=database)
        except NoSuchEntity:
            raise NoSuchNamespaceError(f"catalog {self.name} has no namespace {database}") from None

    _service = "Glue"

    def _databases(self) -> Iterator[str]:
        return (str(database["Name"]) for database in self._glue.pages("GetDatabases", "DatabaseList"))

    def _database_properties(self, database: str) -> dict[str, str] | None:
        try:
            record = self._glue.read_one("GetDatabase", "Database", Name=database)
        except NoSuchEntity:
            return None
        properties: dict[str, str] = dict(record.get("Parameters") or {})
        for key, name in ((_LOCATION, "LocationUri"), (DESCRIPTION, "Description")):
            if record.get(name):
                properties[key] = record[name]
        return properties

    def _tables_in(self, database: str) -> Iterator[dict[str, Any]]:
        """Glue's records of a database, of Iceberg or not, page by page. Raises NoSuchNamespaceError."""
        try:
            yield from self._glue.pages("GetTables", "TableList", DatabaseName=database)
        except NoSuchEntity:
            raise NoSuchNamespaceError(f"catalog {self.name} has no namespace {database}") from None

    def _is_kept(self, name: str) -> bool:
        return bool(name) and name == name.lower()

    def _check_new_name(self, name: str) -> None:
        """See ``OneLevelCatalog``. Athena's rule (Java: ``IcebergToGlueConverter``)."""
        if not _NAME.fullmatch(name):
            raise BadInputError(
                f"name {name!r}: a name in Glue must have 1 to 252 characters, which are lower-case letters, digits or underscores"
            )


def _is_retired_by(attempt: _Attempt, record: Mapping[str, Any] | None) -> bool:
    return attempt.made(record) and record is not None and location_in(record) is None
