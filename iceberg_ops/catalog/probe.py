"""Checks whether a catalog, and the store of its tables, support this package's operations: step by step, until one fails.

Tables are not changed. The check writes one small file with a unique name, and deletes it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
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
_CONTENT = b"written by iceberg-ops catalog test"


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


class _StoreProbe:
    """The results of the steps so far, in a folder of a store."""

    def __init__(self, open_io: Callable[[], FileIO], folder: str) -> None:
        self._open_io, self._folder = open_io, folder
        self._io: FileIO | None = None
        self._written: str | None = None

    def steps(self) -> tuple[tuple[str, Callable[[], str]], ...]:
        """Each returns its finding. Raises IcebergOpsError, OSError, _Skipped."""
        return (
            ("write a file", self._write),
            ("create a file only once", self._write_again),
            ("read a file", self._read_back),
            ("delete a file", self._delete),
        )

    def _write(self) -> str:
        return self._write_in(self._open_io(), self._folder)

    def _write_in(self, io: FileIO, folder: str) -> str:
        self._io, location = io, f"{folder.rstrip('/')}/{NAME.format(uuid.uuid4())}"
        io.write(location, _CONTENT)
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

    def _read_back(self) -> str:
        if self._io is None or self._written is None:
            raise _Skipped("nothing was written")
        if (content := self._io.read(self._written)) != _CONTENT:
            raise UnsupportedError(f"{self._written} has {len(content)} bytes: must have the {len(_CONTENT)} that were written")
        return f"{len(_CONTENT)} bytes, as written"

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


class _Probe(_StoreProbe):
    """The same of a catalog and one of its tables."""

    def __init__(self, open_catalog: Callable[[], Catalog], table: Identifier | None, location: str | None) -> None:
        super().__init__(lambda: self._opened.io, location or "")
        self._open, self._identifier, self._location = open_catalog, table, location
        self._catalog: Catalog | None = None
        self._table: Table | None = None

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
            yield from self._opened.each_table(namespace)

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
            return super()._write()
        if self._table is None:
            raise _Skipped("no table was loaded: name one, or a location")
        return self._write_in(self._table.io, metadata_folder(self._table.metadata))


def probe(open_catalog: Callable[[], Catalog], *, table: Identifier | None = None, location: str | None = None) -> list[Step]:
    """The result of each step, in order. ``table`` None: the first in the list. ``location``: the folder to write to; None:
    the table's metadata folder."""
    return _results(_Probe(open_catalog, table, location))


def probe_store(open_io: Callable[[], FileIO], folder: str) -> list[Step]:
    """The result of each step with a file in a folder of a store, in order."""
    return _results(_StoreProbe(open_io, folder))


def verdict(what: str, steps: Sequence[Step]) -> str:
    """A summary of the results for ``what``, in one line."""
    failed = next((step for step in steps if step.outcome == "failed"), None)
    return f"{what} " + ("works, as far as it was tried" if failed is None else f"fails to {failed.name} ({failed.code})")


def _results(probe: _StoreProbe) -> list[Step]:
    steps_done: list[Step] = []
    failed = ""
    try:
        for name, step in probe.steps():
            if failed:
                steps_done.append(Step(name, "skipped", f"not tried, because this failed: {failed}"))
                continue
            try:
                steps_done.append(Step(name, "ok", step()))
            except _Skipped as e:
                steps_done.append(Step(name, "skipped", str(e)))
            except IcebergOpsError as e:
                steps_done.append(Step(name, "failed", str(e), e.code))
                failed = name
            except OSError as e:
                steps_done.append(Step(name, "failed", str(e), "IO"))
                failed = name
    finally:
        probe.clean()
    return steps_done
