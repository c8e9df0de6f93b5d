"""Catalogs whose namespaces are the databases of a service: they have one level, and names in lower case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.names import check_new_names
from iceberg_ops.catalog.recording import RecordingCatalog
from iceberg_ops.errors import BadInputError


class OneLevelCatalog(RecordingCatalog, ABC):
    """A subclass gets the databases from the service, and defines its rules about names."""

    @abstractmethod
    def _databases(self) -> Iterable[str]:
        """The names of all databases."""

    @abstractmethod
    def _database_properties(self, database: str) -> dict[str, str] | None:
        """The properties of a database; None if there is none of this name."""

    @abstractmethod
    def _is_kept(self, name: str) -> bool:
        """Whether the service stores the name unchanged: it may find a table or database by other spellings, which are the same
        name."""

    @abstractmethod
    def _check_new_name(self, name: str) -> None:
        """Raise BadInputError for a name that the service does not accept for a new object."""

    @property
    @abstractmethod
    def _service(self) -> str:
        """The service, for messages."""

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return [] if parent else sorted((name,) for name in self._databases())

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        if (properties := self._find_properties(namespace)) is None:
            self._check_namespace(namespace)
            return {}
        return properties

    def _namespace_exists(self, namespace: tuple[str, ...]) -> bool:
        return self._find_properties(namespace) is not None

    def _find_properties(self, namespace: tuple[str, ...]) -> dict[str, str] | None:
        return self._database_properties(namespace[0]) if len(namespace) == 1 and self._is_kept(namespace[0]) else None

    def _can_be(self, identifier: Identifier) -> bool:
        """Whether the service can have a table of this name."""
        return len(identifier) == 2 and all(map(self._is_kept, identifier))

    def _check_new_namespace(self, namespace: tuple[str, ...]) -> None:
        """Raises BadInputError."""
        self._check_new_in(namespace, namespace)
        check_new_names(namespace)

    def _check_new(self, identifier: Identifier) -> None:
        if len(identifier) > 1:
            self._check_new_in(identifier[:-1], identifier)
        super()._check_new(identifier)

    def _check_new_in(self, namespace: tuple[str, ...], names: tuple[str, ...]) -> None:
        if len(namespace) != 1:
            raise BadInputError(f"namespace {'.'.join(namespace)}: {self._service} has one level of namespaces")
        for name in names:
            self._check_new_name(name)
