"""A catalog in AWS Glue.

A commit is one ``UpdateTable`` for the version of the record that was read: Glue refuses it where another change came first.
Deletes and renames have no such condition in Glue. So a record that is to go is first turned into one that is no Iceberg table,
by a conditional update, and deleted then: no commit gets lost in between. A rename makes the new record before. If it ends between
these steps, both names have the table, and maintenance refuses to delete its files until one of them is dropped without purge.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from iceberg_ops.catalog.base import now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.glue.glue_client import EntityExists, Glue, NoSuchEntity, Overtaken
from iceberg_ops.catalog.glue.glue_table import DESCRIPTION, METADATA_LOCATION, TABLE_TYPE, input_of, location_in, new_input
from iceberg_ops.catalog.names import check_new_names
from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.catalog.recording import RecordingCatalog
from iceberg_ops.errors import AlreadyExistsError, BadInputError, CatalogUnavailableError, IcebergOpsError, NoSuchNamespaceError
from iceberg_ops.io.file_io import FileIO

log = logging.getLogger(__name__)

_LOCATION = "location"
_NAME = re.compile(r"[a-z0-9_]{1,252}")
_GONE = "iceberg-ops.former_metadata_location"
"""Of a record that is about to be deleted: where its table's metadata is."""


class GlueCatalog(RecordingCatalog):
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

    # pointers

    def _current_location(self, identifier: Identifier) -> str | None:
        record = self._record(identifier)
        return None if record is None else location_in(record)

    def _record(self, identifier: Identifier) -> dict[str, Any] | None:
        """Glue's record of a table, of Iceberg or not. Glue keeps names in lower case: another spelling is no other name."""
        if len(identifier) != 2 or any(not name or name != name.lower() for name in identifier):
            return None
        database, name = identifier
        try:
            found: dict[str, Any] = self._glue.read("GetTable", DatabaseName=database, Name=name)["Table"]
        except NoSuchEntity:
            return None
        return found

    def _insert_pointer(self, identifier: Identifier, location: str) -> None:
        database, name = identifier
        self._create(database, new_input(name, location, self._published(location).metadata))

    def _create(self, database: str, record: Mapping[str, Any]) -> None:
        try:
            self._glue.change("CreateTable", DatabaseName=database, TableInput=record)
        except EntityExists:
            raise AlreadyExistsError(f"table {database}.{record['Name']} already exists in catalog {self.name}") from None
        except NoSuchEntity as e:
            raise RefusedError(f"table {database}.{record['Name']} could not be created: {e}; nothing was changed") from e

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
                f"catalog {self.name}: Glue gives no version of table {'.'.join(identifier)}, so commits could overwrite each "
                f"other; nothing was changed"
            )
        try:
            self._glue.change(
                "UpdateTable",
                DatabaseName=identifier[0],
                TableInput=following,
                SkipArchive=self._skip_archive,
                VersionId=record["VersionId"],
            )
        except (Overtaken, NoSuchEntity):
            return False
        return True

    def _remove_pointer(self, identifier: Identifier, expected: str) -> bool:
        record = self._record(identifier)
        if record is None or location_in(record) != expected or not self._retired(identifier, record):
            return False
        try:
            self._delete(identifier)
        except (NotAppliedError, RefusedError):
            self._restore(identifier, record)
            raise
        return True

    def _restore(self, identifier: Identifier, record: Mapping[str, Any]) -> None:
        """Make a retired record a table again. Raises CatalogUnavailableError if it is not certain that it is one."""
        name = ".".join(identifier)
        try:
            retired = self._record(identifier)
            done = retired is not None and self._updated(identifier, retired, input_of(record, identifier[-1]))
        except IcebergOpsError as e:
            raise CatalogUnavailableError(f"table {name}: its record in Glue was retired, and could not be restored: {e}") from e
        if not done:
            raise CatalogUnavailableError(f"table {name}: its record in Glue was retired, and then changed by others")

    def _retired(self, identifier: Identifier, record: Mapping[str, Any]) -> bool:
        """Turn the record into one that is no Iceberg table; False where another change came first."""
        following = input_of(record, identifier[-1])
        parameters = dict(following["Parameters"])
        parameters[_GONE] = parameters.pop(METADATA_LOCATION)
        parameters.pop(TABLE_TYPE)
        return self._updated(identifier, record, {**following, "Parameters": parameters})

    def _delete(self, identifier: Identifier) -> None:
        try:
            self._glue.change("DeleteTable", DatabaseName=identifier[0], Name=identifier[1])
        except NoSuchEntity:
            return

    def _rename_pointer(self, old: Identifier, new: Identifier, expected: str) -> bool:
        record = self._record(old)
        if record is None or location_in(record) != expected:
            return False
        self._create(new[0], input_of(record, new[1]))
        try:
            is_retired = self._retired(old, record)
        except (NotAppliedError, RefusedError):
            self._take_back(new)
            raise
        if not is_retired:
            self._take_back(new)
            return False
        try:
            self._delete(old)
        except IcebergOpsError as e:  # The table has its new name; the old record is no table any more.
            log.warning("the record of table %s is left in Glue, and can be deleted there: %s", ".".join(old), e)
        return True

    def _take_back(self, new: Identifier) -> None:
        """Delete the record that a rename made. Raises CatalogUnavailableError if both names may have the table now."""
        try:
            self._delete(new)
        except IcebergOpsError as e:
            raise CatalogUnavailableError(f"table {'.'.join(new)}: the record of a rename could not be taken back: {e}") from e

    # namespaces

    def list_tables(self, namespace: tuple[str, ...]) -> list[Identifier]:
        self._check_namespace(namespace)
        (database,) = namespace
        found = self._glue.pages("GetTables", "TableList", DatabaseName=database)
        return sorted((database, str(record["Name"])) for record in found if location_in(record) is not None)

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        if parent:
            return []
        return sorted((str(database["Name"]),) for database in self._glue.pages("GetDatabases", "DatabaseList"))

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        _check_new_names(namespace, namespace)
        check_new_names(namespace)
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
        if (other := next(iter(self._glue.pages("GetTables", "TableList", DatabaseName=database)), None)) is not None:
            raise BadInputError(f"namespace {database} is not empty: it holds {other['Name']}, which is no Iceberg table")
        try:
            self._glue.change("DeleteDatabase", Name=database)
        except NoSuchEntity:
            raise NoSuchNamespaceError(f"catalog {self.name} has no namespace {database}") from None

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        database = self._database(namespace)
        if database is None:
            self._check_namespace(namespace)
            return {}
        found: dict[str, str] = dict(database.get("Parameters") or {})
        for key, name in ((_LOCATION, "LocationUri"), (DESCRIPTION, "Description")):
            if database.get(name):
                found[key] = database[name]
        return found

    def _namespace_exists(self, namespace: tuple[str, ...]) -> bool:
        return self._database(namespace) is not None

    def _database(self, namespace: tuple[str, ...]) -> dict[str, Any] | None:
        if len(namespace) != 1 or not namespace[0] or namespace[0] != namespace[0].lower():
            return None
        try:
            found: dict[str, Any] = self._glue.read("GetDatabase", Name=namespace[0])["Database"]
        except NoSuchEntity:
            return None
        return found

    def _check_new(self, identifier: Identifier) -> None:
        if len(identifier) > 1:
            _check_new_names(identifier[:-1], identifier)
        super()._check_new(identifier)


def _check_new_names(namespace: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Raise BadInputError for names that Glue, or Athena, does not take (Java: ``IcebergToGlueConverter``)."""
    if len(namespace) != 1:
        raise BadInputError(f"namespace {'.'.join(namespace)}: Glue has one level of namespaces")
    if wrong := next((name for name in names if not _NAME.fullmatch(name)), None):
        raise BadInputError(
            f"name {wrong!r}: a name in Glue must have 1 to 252 characters, which are lower-case letters, digits or underscores"
        )
