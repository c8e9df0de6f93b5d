"""Checks whether a catalog, and the store of its tables, support this package's operations: step by step, until one fails.

Tables are not changed. The check writes one small file with a unique name, and deletes it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.deletion.own_files import discard_own
from iceberg_ops.errors import IcebergOpsError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.table import Table

NAME = "_iceberg-ops-test-{}"
_NAMESPACES_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class Step:
    """``code`` is that of the error if it failed. Steps after a failed one are not tried, and a step without anything to try is
    skipped: ``detail`` explains it."""

    name: str
    outcome: Literal["ok", "failed", "skipped"]
    detail: str
    code: str = ""


class _Skipped(Exception):
    """There is nothing to try."""


class _Probe:
    """The results of the steps so far."""

    def __init__(self, open_catalog: Callable[[], Catalog], table: Identifier | None, location: str | None) -> None:
        self._open, self._identifier, self._location = open_catalog, table, location
        self._catalog: Catalog | None = None
        self._table: Table | None = None
        self._io: FileIO | None = None
        self._written: str | None = None

    def steps(self) -> tuple[tuple[str, Callable[[], str]], ...]:
        """Each returns its finding. Raises IcebergOpsError, OSError, _Skipped."""
        return (
            ("reach and authenticate", self._reach),
            ("list namespaces", self._list),
            ("load a table", self._load),
            ("read a file", self._read),
            ("write a file", self._write),
            ("create a file only once", self._write_again),
            ("delete a file", self._delete),
        )

    @property
    def _opened(self) -> Catalog:
        assert self._catalog is not None, "the first step opens it"
        return self._catalog

    def _reach(self) -> str:
        self._catalog = self._open()
        return f"catalog {self._catalog.name} answers"

    def _list(self) -> str:
        names = [".".join(namespace) for namespace in self._opened.list_namespaces()]
        return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") or "there is none"

    def _load(self) -> str:
        identifier = self._identifier or next(self._tables(), None)
        if identifier is None:
            raise _Skipped(f"no table is in the first {_NAMESPACES_LOOKED_AT} namespaces: name one")
        self._table = self._opened.load_table(identifier)
        return f"{self._table.name} at {self._table.metadata_location}"

    def _tables(self) -> Iterator[Identifier]:
        for namespace in islice(self._namespaces(()), _NAMESPACES_LOOKED_AT):
            yield from self._opened.list_tables(namespace)

    def _namespaces(self, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for namespace in self._opened.list_namespaces(parent):
            yield namespace
            yield from self._namespaces(namespace)

    def _read(self) -> str:
        if self._table is None:
            raise _Skipped("no table was loaded")
        size = len(self._table.io.read(self._table.metadata_location))
        return f"its metadata file, {size} bytes"

    def _write(self) -> str:
        if self._location is not None:
            self._io, folder = self._opened.io, self._location.rstrip("/")
        elif self._table is not None:
            self._io, folder = self._table.io, metadata_folder(self._table.metadata)
        else:
            raise _Skipped("no table was loaded: name one, or a location")
        location = f"{folder}/{NAME.format(uuid.uuid4())}"
        self._io.write(location, b"written by iceberg-ops catalog test")
        self._written = location
        return location

    def _write_again(self) -> str:
        if self._io is None or self._written is None:
            raise _Skipped("nothing was written")
        try:
            self._io.write(self._written, b"again")
        except FileExistsError:
            return "a second creation of the same name is refused"
        raise UnsupportedError(
            "not supported: this store, because it lets a file be created twice: of two writers one would lose its work"
        )

    def _delete(self) -> str:
        if self._io is None or self._written is None:
            raise _Skipped("nothing was written")
        location, self._written = self._written, None
        discard_own(self._io, [location])
        if self._io.exists(location):
            raise UnsupportedError(f"{location} is still there after it was deleted: the log says why")
        return location

    def clean(self) -> None:
        """Delete the file that a step wrote and no later step deleted."""
        if self._io is not None and self._written is not None:
            discard_own(self._io, [self._written])


def probe(open_catalog: Callable[[], Catalog], *, table: Identifier | None = None, location: str | None = None) -> list[Step]:
    """The result of each step, in order. ``table`` None: the first in the list. ``location``: the folder to write to; None:
    the table's metadata folder."""
    found: list[Step] = []
    probe = _Probe(open_catalog, table, location)
    failed = ""
    try:
        for name, step in probe.steps():
            if failed:
                found.append(Step(name, "skipped", f"not tried, because this failed: {failed}"))
                continue
            try:
                found.append(Step(name, "ok", step()))
            except _Skipped as e:
                found.append(Step(name, "skipped", str(e)))
            except IcebergOpsError as e:
                found.append(Step(name, "failed", str(e), e.code))
                failed = name
            except OSError as e:
                found.append(Step(name, "failed", str(e), "IO"))
                failed = name
    finally:
        probe.clean()
    return found
