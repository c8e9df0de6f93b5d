"""A catalog in a Hive Metastore.

A commit is one ``alter_table`` that moves the parameter ``metadata_location``. As in Iceberg Java, two mechanisms prevent one
commit from overwriting another:

- The metastore's exclusive lock on the table. It is the default, and works with every metastore.
- The expected value of the parameter, which the metastore compares during the change (HIVE-26882). It is always sent. With
  ``engine.hive.lock-enabled=false``, in the table's or else the catalog's properties, it is the only protection. Then all writers
  of the table must use it, and the metastore must support it: the catalog checks this before its first such commit.

A drop cannot be made conditional. Without the lock, a commit between the last read and the drop is dropped with the table.
Hive stores names in lower case. A name with capital letters is not found, and is refused for new tables.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial

from pymetastore.hive_metastore import ThriftHiveMetastore
from pymetastore.hive_metastore.ttypes import (
    ClientCapabilities,
    ClientCapability,
    Database,
    EnvironmentContext,
    GetTableRequest,
    GetTablesRequest,
)
from pymetastore.hive_metastore.ttypes import Table as HiveTable

from iceberg_ops.catalog.base import now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.hive.hive_lock import HiveLock, locked
from iceberg_ops.catalog.hive.hive_table import (
    DO_NOT_UPDATE_STATS,
    EXTERNAL,
    ICEBERG,
    LOCK_ENABLED,
    METADATA_LOCATION,
    OWNER,
    TABLE_TYPE,
    new_hive_table,
    new_hive_view,
    set_metadata,
)
from iceberg_ops.catalog.hive.metastore import InvalidObject, Metastore, MetastoreRefusal, NoSuchObject, ObjectExists, user_name
from iceberg_ops.catalog.one_level import OneLevelCatalog
from iceberg_ops.catalog.outcomes import Tried, dropped_in_part, state_if_interrupted
from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError, looking_after_a_change
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CatalogUnavailableError,
    NoSuchNamespaceError,
)
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.table_metadata import TableMetadata

log = logging.getLogger(__name__)

_TABLES_AT_ONCE = 300
_MODIFIED = "The table has been modified"
_LOCATION = "location"
_COMMENT = "comment"
_TRIMMED = "".join(map(chr, range(0x21)))
_CAPABILITIES = ClientCapabilities(values=[ClientCapability.INSERT_ONLY_TABLES])
"""Without it the metastore refuses each request that meets such a table of Hive."""


class _OfThread(threading.local):
    """State of the commit that runs in this thread."""

    lock: HiveLock | None = None
    tried: Callable[[], None] | None = None
    """Says that the change is about to be tried: waiting for a lock and reading the record come before."""


class HiveCatalog(OneLevelCatalog):
    """``locks``: whether commits take the metastore's lock if the table's own property does not decide."""

    def __init__(
        self,
        name: str,
        metastore: Metastore,
        io: FileIO,
        *,
        warehouse: str | None = None,
        locks: bool = True,
        clock: Callable[[], int] = now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, io, warehouse=warehouse, clock=clock, sleep=sleep)
        self._metastore = metastore
        self._locks = locks
        self._here = _OfThread()
        self._compares: bool | None = None

    # pointers

    def _current_location(self, identifier: Identifier) -> str | None:
        table = self._hive_table(identifier)
        return None if table is None else _location_in(table)

    def _hive_table(self, identifier: Identifier) -> HiveTable | None:
        """The metastore's record of an Iceberg table; None if there is none, also if the table is Hive's own."""
        if not self._can_be(identifier):
            return None
        database, name = identifier
        try:
            request = GetTableRequest(dbName=database, tblName=name, capabilities=_CAPABILITIES)
            table: HiveTable = self._metastore.call(lambda client: client.get_table_req(request)).table
        except NoSuchObject:
            return None
        return None if _location_in(table) is None else table

    def _publish_next(
        self, identifier: Identifier, current_location: str, current: TableMetadata, metadata: TableMetadata, tried: Tried
    ) -> str:
        try:
            return super()._publish_next(identifier, current_location, current, metadata, partial(self._record_attempt, tried))
        finally:
            self._here.tried = None

    def _record_attempt(self, tried: Tried, location: str) -> None:
        self._here.tried = partial(tried, location)

    def _insert_pointer(self, identifier: Identifier, location: str) -> None:
        database, name = identifier
        metadata = self._published(location).metadata
        table = new_hive_table(database, name, metadata.properties.get(OWNER) or user_name())
        set_metadata(table, location, metadata, {}, None)
        try:
            self._metastore.call(lambda client: client.create_table_with_environment_context(table, _context()))
        except ObjectExists:
            with looking_after_a_change():  # The metastore itself tries again what its database did not answer.
                current = self._current_location(identifier)
            if current != location:
                raise AlreadyExistsError(f"table {database}.{name} already exists in catalog {self.name}") from None
        except (NoSuchObject, InvalidObject) as e:
            raise RefusedError(f"table {database}.{name} could not be created: {e}; nothing was changed") from e

    def _swap(self, identifier: Identifier, expected: str, new: str) -> None:
        with self._held(identifier, self._published(new).before):
            super()._swap(identifier, expected, new)

    def _swap_pointer(self, identifier: Identifier, expected: str, new: str) -> bool:
        table = self._hive_table(identifier)
        if table is None or _location_in(table) != expected:
            return False
        published = self._published(new)
        set_metadata(table, new, published.metadata, published.before, expected)
        return self._altered(identifier, table, expected)

    def _renamed(self, old: Identifier, new: Identifier, location: str) -> bool:
        with self._held(old, None):
            return super()._renamed(old, new, location)

    def _rename_pointer(self, old: Identifier, new: Identifier, expected: str) -> bool:
        table = self._hive_table(old)
        if table is None or _location_in(table) != expected:
            return False
        if table.parameters.get(EXTERNAL, "").upper() != "TRUE":
            raise RefusedError(
                f"table {'.'.join(old)} is not external in the Hive Metastore, which would move its files away with its name: set "
                f"the parameter {EXTERNAL} to TRUE there first; nothing was changed"
            )
        table.dbName, table.tableName = new
        try:
            return self._altered(old, table, expected)
        except RefusedError:
            if self._any_table(new):
                raise AlreadyExistsError(f"table {'.'.join(new)} already exists in catalog {self.name}") from None
            raise

    def _any_table(self, identifier: Identifier) -> bool:
        """Whether the metastore has a table with the name, of Hive or of Iceberg."""
        database, name = identifier
        names: list[str] = self._metastore.call(lambda client: client.get_tables(database, name))
        return name in names

    def _altered(self, identifier: Identifier, table: HiveTable, expected: str) -> bool:
        """Write the record if the table is at ``expected``; return False if it certainly is not. Raises NotAppliedError,
        RefusedError, and CatalogUnavailableError if the outcome is unknown."""
        database, name = identifier
        context = _context(expected_parameter_key=METADATA_LOCATION, expected_parameter_value=expected)
        try:
            with self._changing():
                self._metastore.call(lambda client: client.alter_table_with_environment_context(database, name, table, context))
        except NoSuchObject:
            return False
        except InvalidObject as e:
            raise RefusedError(f"table {database}.{name} could not be changed: {e}; nothing was changed") from e
        return True

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Within, the one call that changes a table: its lock is still held, and the caller that waits for the outcome is
        informed."""
        if self._here.lock is not None:
            self._here.lock.check()
        if self._here.tried is not None:
            self._here.tried()
        with nullcontext() if self._here.lock is None else self._here.lock.changing():
            yield

    def _forget(self, identifier: Identifier, location: str) -> None:
        done = dropped_in_part((self.name, *identifier))
        with state_if_interrupted(done) as happened, self._held(identifier, None):
            super()._forget(identifier, location)
            happened()

    def _remove_pointer(self, identifier: Identifier, expected: str) -> bool:
        if self._current_location(identifier) != expected:
            return False
        database, name = identifier
        try:
            with self._changing():
                self._metastore.call(lambda client: client.drop_table(database, name, False))
        except NoSuchObject:
            return False
        return True

    @contextmanager
    def _held(self, identifier: Identifier, properties: Mapping[str, str] | None) -> Iterator[None]:
        """Holds the metastore's lock if the table's properties (None: ask the metastore) or the catalog's require it."""
        if properties is None:
            table = self._hive_table(identifier)
            properties = {} if table is None else table.parameters
        setting = properties.get(LOCK_ENABLED)
        if self._locks if setting is None else setting.lower() == "true":
            database, name = identifier
            with locked(self._metastore, database, name, self._sleep) as lock:
                self._here.lock = lock
                try:
                    yield
                finally:
                    self._here.lock = None
        else:
            self._check_compares(identifier[0])
            yield

    def _check_compares(self, database: str) -> None:
        """Raise RefusedError if the metastore does not compare expected values. Checked once, with a view created for it."""
        if self._compares is None:
            try:
                self._compares = self._refuses_a_change(database)
            except (MetastoreRefusal, CatalogUnavailableError) as e:
                raise NotAppliedError(
                    f"catalog {self.name}: cannot check whether its Hive Metastore compares expected parameters, because no view "
                    f"could be created and changed for the check in {database}: {e}; with {LOCK_ENABLED}=true there is no such "
                    "check"
                ) from e
        if not self._compares:
            raise RefusedError(
                f"catalog {self.name}: its Hive Metastore does not compare expected parameters (HIVE-26882), so commits without a "
                f"lock could overwrite each other: set {LOCK_ENABLED} to true; nothing was changed"
            )

    def _refuses_a_change(self, database: str) -> bool:
        """Whether the metastore refuses to change a view that has another value than is expected."""
        name = f"iceberg_ops_probe_{uuid.uuid4().hex}"
        probe = new_hive_view(database, name)
        context = _context(expected_parameter_key=METADATA_LOCATION, expected_parameter_value="another")
        try:
            self._metastore.call(lambda client: client.create_table(probe))
            self._metastore.call(lambda client: client.alter_table_with_environment_context(database, name, probe, context))
            return False
        except CatalogUnavailableError as e:
            if _MODIFIED not in str(e):
                raise
            return True
        finally:
            self._drop_view(database, name)

    def _drop_view(self, database: str, name: str) -> None:
        try:
            self._metastore.call(lambda client: client.drop_table(database, name, False))
        except NoSuchObject:
            return
        except Exception as e:  # noqa: BLE001 - what was found out is the answer
            log.warning("view %s.%s is left in the Hive Metastore, and can be dropped: %s", database, name, e)

    # namespaces

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        """The metastore gives all names at once; whether they are Iceberg's is in its records, which are read some at a time."""
        self._check_namespace(namespace)
        (database,) = namespace
        names: list[str] = self._metastore.call(lambda client: client.get_all_tables(database))
        for start in range(0, len(names), _TABLES_AT_ONCE):
            batch = names[start : start + _TABLES_AT_ONCE]
            try:
                tables: list[HiveTable] = self._metastore.call(partial(_tables, database, batch))
            except NoSuchObject:
                raise NoSuchNamespaceError(f"catalog {self.name} has no namespace {database}") from None
            yield from ((database, str(table.tableName)) for table in tables if _location_in(table) is not None)

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        self._check_new_namespace(namespace)
        (name,) = namespace
        given = dict(properties or {})
        location = given.pop(_LOCATION, None) or (None if self._warehouse is None else f"{self._warehouse}/{name}.db")
        if location is None:
            raise BadInputError(f"catalog {self.name} has no warehouse: give namespace {name} a location")
        database = Database(
            name=name,
            description=given.pop(_COMMENT, None),
            locationUri=location,
            parameters=given,
            ownerName=user_name(),
            ownerType=1,
        )
        try:
            self._metastore.call(lambda client: client.create_database(database))
        except ObjectExists:
            raise AlreadyExistsError(f"namespace {name} already exists in catalog {self.name}") from None
        except InvalidObject as e:
            raise BadInputError(f"namespace {name}: the Hive Metastore refuses it: {e}") from e

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        self._check_empty(namespace)
        (name,) = namespace
        try:
            self._metastore.call(lambda client: client.drop_database(name, False, False))
        except NoSuchObject:
            raise NoSuchNamespaceError(f"catalog {self.name} has no namespace {name}") from None
        except InvalidObject as e:
            raise BadInputError(f"namespace {name} is not empty: {e}") from e

    _service = "a Hive Metastore"

    def _databases(self) -> list[str]:
        names: list[str] = self._metastore.call(lambda client: client.get_all_databases())
        return names

    def _database_properties(self, database: str) -> dict[str, str] | None:
        try:
            record: Database = self._metastore.call(lambda client: client.get_database(database))
        except NoSuchObject:
            return None
        properties = dict(record.parameters or {})
        if record.description:
            properties[_COMMENT] = record.description
        if record.locationUri:
            properties[_LOCATION] = record.locationUri
        return properties

    def _is_kept(self, name: str) -> bool:
        """See ``OneLevelCatalog``. The metastore finds ``t `` by ``t``; but a lock on ``t `` is not that on ``t``."""
        return bool(name) and name == name.strip(_TRIMMED).lower()

    def _check_new_name(self, name: str) -> None:
        if name != name.lower():
            raise BadInputError(f"name {name!r}: a Hive Metastore keeps names in lower case: use {name.lower()!r}")


def _tables(database: str, names: list[str], client: ThriftHiveMetastore.Client) -> list[HiveTable]:
    request = GetTablesRequest(dbName=database, tblNames=names, capabilities=_CAPABILITIES)
    tables: list[HiveTable] = client.get_table_objects_by_name_req(request).tables
    return tables


def _location_in(table: HiveTable) -> str | None:
    """The location of the table's metadata in the metastore; None if it is not an Iceberg table."""
    parameters: dict[str, str] = table.parameters or {}
    return parameters.get(METADATA_LOCATION) if parameters.get(TABLE_TYPE, "").upper() == ICEBERG else None


def _context(**more: str) -> EnvironmentContext:
    return EnvironmentContext(properties={DO_NOT_UPDATE_STATS: "true", **more})
