"""The reference catalog: pointers in a dictionary of this process, swapped under a lock.

It shows the behaviour that every other catalog must have, without a store around it. Tests build on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

from iceberg_ops.catalog.base import now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.names import check_new_names
from iceberg_ops.catalog.pointer import PointerCatalog
from iceberg_ops.errors import AlreadyExistsError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.memory import MemoryFileIO


class MemoryCatalog(PointerCatalog):
    """A catalog that lives as long as this object."""

    def __init__(
        self,
        name: str = "memory",
        io: FileIO | None = None,
        *,
        warehouse: str = "memory://warehouse",
        clock: Callable[[], int] = now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, io or MemoryFileIO(name), warehouse=warehouse, clock=clock, sleep=sleep)
        self._lock = threading.Lock()
        self._pointers: dict[Identifier, str] = {}
        self._namespaces: dict[tuple[str, ...], dict[str, str]] = {}

    def _current_location(self, identifier: Identifier) -> str | None:
        with self._lock:
            return self._pointers.get(identifier)

    def _insert_pointer(self, identifier: Identifier, location: str) -> None:
        with self._lock:
            if identifier in self._pointers:
                raise AlreadyExistsError(f"table {'.'.join(identifier)} already exists in catalog {self.name}")
            self._pointers[identifier] = location

    def _swap_pointer(self, identifier: Identifier, expected: str, new: str) -> bool:
        with self._lock:
            if self._pointers.get(identifier) != expected:
                return False
            self._pointers[identifier] = new
            return True

    def _rename_pointer(self, old: Identifier, new: Identifier, expected: str) -> bool:
        with self._lock:
            if new in self._pointers:
                raise AlreadyExistsError(f"table {'.'.join(new)} already exists in catalog {self.name}")
            if self._pointers.get(old) != expected:
                return False
            self._pointers[new] = self._pointers.pop(old)
            return True

    def _remove_pointer(self, identifier: Identifier, expected: str) -> bool:
        with self._lock:
            if self._pointers.get(identifier) != expected:
                return False
            del self._pointers[identifier]
            return True

    def _namespace_exists(self, namespace: tuple[str, ...]) -> bool:
        with self._lock:
            return any(known[: len(namespace)] == namespace for known in self._namespaces)

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        self._check_namespace(namespace)
        with self._lock:
            identifiers = [i for i in self._pointers if i[:-1] == namespace]
        yield from identifiers

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        depth = len(parent)
        with self._lock:
            return sorted({n[: depth + 1] for n in self._namespaces if n[:depth] == parent and len(n) > depth})

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        check_new_names(namespace)
        with self._lock:
            if namespace in self._namespaces:
                raise AlreadyExistsError(f"namespace {'.'.join(namespace)} already exists in catalog {self.name}")
            self._namespaces[namespace] = dict(properties or {})

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        self._check_empty(namespace)
        with self._lock:
            self._namespaces.pop(namespace, None)

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        self._check_namespace(namespace)
        with self._lock:
            return dict(self._namespaces.get(namespace, {}))
