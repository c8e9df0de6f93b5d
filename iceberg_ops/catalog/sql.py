"""A catalog in a SQL database, with the layout of Iceberg's JDBC catalog (V1): Iceberg Java and pyiceberg can use the same
database.

The commit is one conditional UPDATE on ``metadata_location``. Every other change is a single statement too, so autocommit is
sufficient as transaction handling, on every database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Connection, Row, Select, and_, delete, insert, or_, select, union, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from iceberg_ops.catalog.base import now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.names import can_be_stored, check_new_names
from iceberg_ops.catalog.outcomes import reason, unknown_if_it_fails, unknown_outcome
from iceberg_ops.catalog.pointer import NotAppliedError, PointerCatalog, looking_after_a_change
from iceberg_ops.catalog.sql_errors import sql_error
from iceberg_ops.catalog.sql_schema import NAMESPACE_PROPERTIES, TABLE_TYPE, TABLES, create_missing_tables, open_engine
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CatalogUnavailableError,
    CommitStateUnknownError,
    IcebergOpsError,
)
from iceberg_ops.io.file_io import FileIO

log = logging.getLogger(__name__)

_TABLES_AT_ONCE = 1_000

EXISTS = {"exists": "true"}
"""The record of a namespace without properties (Java and pyiceberg write the same)."""


class SqlCatalog(PointerCatalog):
    """``uri`` is SQLAlchemy's, for example ``sqlite:////data/catalog.db``. Several catalogs, by name, may share a database."""

    def __init__(
        self,
        name: str,
        uri: str,
        io: FileIO,
        *,
        warehouse: str | None = None,
        clock: Callable[[], int] = now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, io, warehouse=warehouse, clock=clock, sleep=sleep)
        self._engine = open_engine(uri)
        with self._answers():
            self._typed = create_missing_tables(self._engine)

    # pointers

    def _current_location(self, identifier: Identifier) -> str | None:
        if _is_ambiguous(identifier[:-1]):
            return None
        rows = self._rows(select(TABLES.c.metadata_location).where(self._identifier_condition(identifier)))
        return str(rows[0][0]) if rows and rows[0][0] is not None else None

    def _insert_pointer(self, identifier: Identifier, location: str) -> None:
        values = {
            "catalog_name": self.name,
            "table_namespace": ".".join(identifier[:-1]),
            "table_name": identifier[-1],
            "metadata_location": location,
            "previous_metadata_location": None,
        }
        if self._typed:
            values["iceberg_type"] = TABLE_TYPE
        with self._connection() as connection:
            try:
                connection.execute(insert(TABLES).values(values))
            except IntegrityError:
                raise AlreadyExistsError(f"table {'.'.join(identifier)} already exists in catalog {self.name}") from None

    def _swap_pointer(self, identifier: Identifier, expected: str, new: str) -> bool:
        statement = (
            update(TABLES)
            .where(and_(self._identifier_condition(identifier), TABLES.c.metadata_location == expected))
            .values(metadata_location=new, previous_metadata_location=expected)
        )
        with self._connection() as connection:
            changed = connection.execute(statement).rowcount
        return self._is_done(changed, lambda: self._current_location(identifier) == new)

    def _rename_pointer(self, old: Identifier, new: Identifier, expected: str) -> bool:
        this = and_(self._identifier_condition(old), TABLES.c.metadata_location == expected)
        statement = update(TABLES).where(this).values(table_namespace=".".join(new[:-1]), table_name=new[-1])
        with self._connection() as connection:
            try:
                changed = connection.execute(statement).rowcount
            except IntegrityError:
                raise AlreadyExistsError(f"table {'.'.join(new)} already exists in catalog {self.name}") from None
        return self._is_done(changed, lambda: self._current_location(new) == expected)

    def _remove_pointer(self, identifier: Identifier, expected: str) -> bool:
        this = and_(self._identifier_condition(identifier), TABLES.c.metadata_location == expected)
        own_row, before = (self.name, ".".join(identifier[:-1]), identifier[-1]), self._names_in(_parent_folder(expected))

        def is_gone() -> bool:
            """A table that is gone from its name may have another one since."""
            if own_row not in before or self._current_location(identifier) is not None:
                return False
            return self._names_in(_parent_folder(expected)) < before

        with self._connection() as connection:
            changed = connection.execute(delete(TABLES).where(this)).rowcount
        return self._is_done(changed, is_gone)

    def _is_done(self, changed: int, is_there: Callable[[], bool]) -> bool:
        """Whether a statement has changed its row. Some drivers do not say how many rows they changed (DBAPI: a negative number):
        then ``is_there`` shows it. Raises CatalogUnavailableError if it shows nothing, or fails: the change may have happened."""
        if changed >= 0:
            return changed == 1
        with looking_after_a_change():
            if is_there():
                return True
        raise CatalogUnavailableError(f"catalog {self.name}: the driver of its database does not say whether it made a change")

    def _names_in(self, folder: str) -> set[tuple[Any, ...]]:
        """Catalog, namespace and name of the tables whose metadata is in the folder."""
        names = select(TABLES.c.catalog_name, TABLES.c.table_namespace, TABLES.c.table_name)
        rows = self._rows(names.where(TABLES.c.metadata_location.startswith(folder, autoescape=True)))
        return set(map(tuple, rows))

    # namespaces

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        """In the database's order of names."""
        condition = and_(TABLES.c.catalog_name == self.name, TABLES.c.table_namespace == ".".join(namespace), self._is_table())
        query = select(TABLES.c.table_name).order_by(TABLES.c.table_name).limit(_TABLES_AT_ONCE)
        names = [] if _is_ambiguous(namespace) or not can_be_stored(namespace) else self._rows(query.where(condition))
        if not names:
            self._check_namespace(namespace)
        while names:
            yield from ((*namespace, str(name)) for (name,) in names)
            following = and_(condition, TABLES.c.table_name > names[-1][0])
            names = self._rows(query.where(following)) if len(names) == _TABLES_AT_ONCE else []

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        depth = len(parent)
        known = [tuple(text.split(".")) for text in self._known_namespaces()]
        return sorted({n[: depth + 1] for n in known if n[:depth] == parent and len(n) > depth})

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        _check_new_namespace(namespace)
        name = ".".join(namespace)
        if name in self._known_namespaces():
            raise AlreadyExistsError(f"namespace {name} already exists in catalog {self.name}")
        rows = [
            {"catalog_name": self.name, "namespace": name, "property_key": key, "property_value": value}
            for key, value in {**EXISTS, **(properties or {})}.items()
        ]
        with self._looked_for(f"the creation of namespace {name}", lambda: self._has(namespace, dict(properties or {}))):
            with self._connection() as connection:
                try:
                    connection.execute(insert(NAMESPACE_PROPERTIES).values(rows))
                except IntegrityError:
                    raise AlreadyExistsError(f"namespace {name} already exists in catalog {self.name}") from None

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        self._check_empty(namespace)
        columns, name = NAMESPACE_PROPERTIES.c, ".".join(namespace)
        this = and_(columns.catalog_name == self.name, columns.namespace == name)
        with self._looked_for(f"the drop of namespace {name}", lambda: name not in self._known_namespaces()):
            with self._connection() as connection:
                connection.execute(delete(NAMESPACE_PROPERTIES).where(this))

    def _has(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> bool:
        return ".".join(namespace) in self._known_namespaces() and self.namespace_properties(namespace) == properties

    @contextmanager
    def _looked_for(self, what: str, happened: Callable[[], bool]) -> Iterator[None]:
        """Wraps a change of a namespace. If the database does not answer, ``happened`` checks once whether the change was made."""

        def unknown(e: BaseException) -> CommitStateUnknownError:
            return unknown_outcome(f"{what} got no answer: {reason(e)}; look whether catalog {self.name} lists it", e)

        try:
            with unknown_if_it_fails(unknown):
                yield
        except NotAppliedError:
            raise
        except CatalogUnavailableError as e:
            try:
                if happened():
                    return
            except IcebergOpsError as look:
                log.warning("catalog %s: cannot check whether %s happened: %s", self.name, what, look)
            raise unknown(e) from e

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        self._check_namespace(namespace)
        columns = NAMESPACE_PROPERTIES.c
        query = select(columns.property_key, columns.property_value).where(
            and_(columns.catalog_name == self.name, columns.namespace == ".".join(namespace))
        )
        properties = {str(key): str(value or "") for key, value in map(tuple, self._rows(query))}
        return {key: value for key, value in properties.items() if (key, value) not in EXISTS.items()}

    def _check_new(self, identifier: Identifier) -> None:
        _check_new_namespace(identifier[:-1])
        super()._check_new(identifier)

    def _namespace_exists(self, namespace: tuple[str, ...]) -> bool:
        if _is_ambiguous(namespace):
            return False
        name = ".".join(namespace)
        return any(known == name or known.startswith(name + ".") for known in self._known_namespaces())

    def _known_namespaces(self) -> set[str]:
        """Namespaces with a record, and those that occur only in names of tables."""
        with_record = select(NAMESPACE_PROPERTIES.c.namespace).where(NAMESPACE_PROPERTIES.c.catalog_name == self.name)
        in_names = select(TABLES.c.table_namespace).where(TABLES.c.catalog_name == self.name)
        return {str(row[0]) for row in self._rows(union(with_record, in_names))}

    # the database

    def _identifier_condition(self, identifier: Identifier) -> ColumnElement[bool]:
        return and_(
            TABLES.c.catalog_name == self.name,
            TABLES.c.table_namespace == ".".join(identifier[:-1]),
            TABLES.c.table_name == identifier[-1],
            self._is_table(),
        )

    def _is_table(self) -> ColumnElement[bool]:
        """Views are in the same database table in V1; a row without a type is an Iceberg table."""
        if not self._typed:
            return TABLES.c.table_name.is_not(None)
        return or_(TABLES.c.iceberg_type == TABLE_TYPE, TABLES.c.iceberg_type.is_(None))

    def _rows(self, query: Select[Any] | CompoundSelect[Any]) -> Sequence[Row[Any]]:
        """One query. It is repeated once if its connection has been lost since the last use."""
        try:
            with self._connection() as connection:
                return connection.execute(query).all()
        except CatalogUnavailableError as e:
            if not (isinstance(e.__cause__, DBAPIError) and e.__cause__.connection_invalidated):
                raise
        with self._connection() as connection:
            return connection.execute(query).all()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._answers():
            try:
                connection = self._engine.connect()
            except DBAPIError as e:
                raise NotAppliedError(f"catalog {self.name}: {e.orig or e}") from e
            except PoolTimeoutError as e:
                raise NotAppliedError(f"catalog {self.name}: all connections to its database are in use: {e}") from e
            with connection:
                yield connection

    @contextmanager
    def _answers(self) -> Iterator[Any]:
        try:
            yield
        except IntegrityError:
            raise
        except DBAPIError as e:
            raise sql_error(self.name, e) from e


def _parent_folder(location: str) -> str:
    return location.rpartition("/")[0] + "/"


def _is_ambiguous(namespace: tuple[str, ...]) -> bool:
    """The database has a namespace's levels as one text, joined by dots: a level with a dot is two levels there."""
    return any("." in level for level in namespace)


def _check_new_namespace(namespace: tuple[str, ...]) -> None:
    check_new_names(namespace)
    if level := next((level for level in namespace if "." in level), None):
        levels = ", ".join(repr(part) for part in level.split("."))
        raise BadInputError(f"name {level!r}: a level of a namespace must not have a dot in a SQL catalog: give it as {levels}")
