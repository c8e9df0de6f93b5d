"""A catalog in Nessie, with the layout of Iceberg Java's NessieCatalog.

A table is the content of a key on a branch: the location of its metadata, and the current ids in it. A commit names the hash of the
branch that it has seen, so Nessie refuses it if the table has changed since; commits to other tables do not matter. Create, rename
and drop are one commit each. A tag, and a commit named by its hash, can be read only.

Nessie keeps former states: another branch, a tag and every retained commit may refer to files that the current state does not need.
So no file of a table that was ever committed is deleted (``nessie_table.kept``): expiry, orphan removal and purge are refused as
for ``gc.enabled=false``, and old metadata files are kept.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.catalog.base import now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.names import can_be_stored, check_new_names
from iceberg_ops.catalog.nessie.nessie_client import BRANCH, Conflict, Contents, Key, Nessie, State, delete, put
from iceberg_ops.catalog.nessie.nessie_table import NAMESPACE, TABLE, check_agree, commit_message, kept, location_in, table_content
from iceberg_ops.catalog.nessie.references import Reference, split_name
from iceberg_ops.catalog.outcomes import Tried
from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.catalog.recording import RecordingCatalog
from iceberg_ops.config.properties import GC_ENABLED, METADATA_DELETE_AFTER_COMMIT
from iceberg_ops.deletion.gate import Deletion
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CatalogUnavailableError,
    CommitFailedError,
    GcDisabledError,
    IcebergOpsError,
    NoSuchNamespaceError,
    UnsupportedError,
)
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import SetProperties, TableUpdate
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

_LOCATION = "location"
_LONGEST_KEY, _MOST_LEVELS = 500, 20
_NAMESPACE_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a table is: a key on a reference."""

    reference: Reference
    key: Key


class _OfThread(threading.local):
    content: Mapping[str, Any] | None = None
    """The table's content, as it was read last."""


class NessieCatalog(RecordingCatalog):
    """Tables of ``nessie.reference``, and by names such as ``table@branch`` of others."""

    def __init__(
        self,
        name: str,
        nessie: Nessie,
        io: FileIO,
        *,
        warehouse: str | None = None,
        clock: Callable[[], int] = now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, io, warehouse=warehouse, clock=clock, sleep=sleep)
        self._nessie = nessie
        self._here = _OfThread()

    # tables whose files stay

    def stage_table(
        self,
        identifier: Identifier,
        schema: Schema,
        *,
        spec: PartitionSpec = UNPARTITIONED,
        sort_order: SortOrder = UNSORTED,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        _check_kept(self.name, properties or {})
        return super().stage_table(identifier, schema, spec=spec, sort_order=sort_order, location=location, properties=properties)

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        for update in updates:
            if isinstance(update, SetProperties):
                _check_kept(self.name, update.updates)
        return super().commit_table(table, requirements, updates)

    def drop_table(self, identifier: Identifier, purge: bool = False) -> Deletion:
        if purge:
            self._existing_location(identifier)
            raise GcDisabledError(
                f"cannot drop table {'.'.join(identifier)} with its files: other branches, tags and former commits of Nessie may "
                f"need them. Drop it without purge: then only the name goes, and nessie-gc deletes what no reference needs"
            )
        return super().drop_table(identifier)

    def _current(self, identifier: Identifier, known: Table | None = None) -> tuple[str, TableMetadata]:
        location, metadata = super()._current(identifier, known)
        content = self._here.content
        if location_in(content) == location and content is not None:
            check_agree(".".join((self.name, *identifier)), content, metadata)
        return location, kept(metadata)

    def _table(self, identifier: Identifier, metadata: TableMetadata, location: str) -> Table:
        return super()._table(identifier, kept(metadata), location)

    def _publish_first(self, identifier: Identifier, metadata: TableMetadata, tried: Tried) -> str:
        return super()._publish_first(identifier, kept(metadata), tried)

    def _publish_next(
        self, identifier: Identifier, current_location: str, current: TableMetadata, metadata: TableMetadata, tried: Tried
    ) -> str:
        return super()._publish_next(identifier, current_location, current, kept(metadata), tried)

    # pointers

    def _place(self, identifier: Identifier) -> _Place:
        """Raises BadInputError for a name with ``@`` or ``#`` that names no reference."""
        name, reference = split_name(identifier[-1])
        if reference is None:
            reference = self._nessie.reference
        elif reference.name is None:
            reference = Reference(self._nessie.reference.name, reference.hash)
        return _Place(reference, (*identifier[:-1], name))

    def _content(self, place: _Place) -> Mapping[str, Any] | None:
        """What the key has, of whatever type."""
        return self._nessie.contents(place.reference, [place.key]).by_key.get(place.key)

    def _to_change(self, reference: Reference, *keys: Key) -> Contents:
        """What the keys have, for a commit on top of it. Raises NotAppliedError if Nessie does not answer: nothing is sent yet."""
        try:
            contents = self._nessie.contents(reference, keys)
        except CatalogUnavailableError as e:
            raise NotAppliedError(str(e)) from e
        self._check_can_change(contents.state, reference)
        return contents

    def _current_location(self, identifier: Identifier) -> str | None:
        place = self._place(identifier) if identifier else None
        if place is None or not _can_be_key(place.key):
            return None
        content = self._here.content = self._content(place)
        return location_in(content)

    def _insert_pointer(self, identifier: Identifier, location: str) -> None:
        place, metadata = self._place(identifier), self._published(location).metadata
        there = self._to_change(place.reference, place.key)
        state, content = there.state, there.by_key.get(place.key)
        exists = f"table {'.'.join(identifier)} already exists in catalog {self.name}"
        if content is not None:
            raise AlreadyExistsError(exists if content.get("type") == TABLE else f"{exists}, as {content.get('type')}")
        message, properties = commit_message(".".join(place.key), metadata, None)
        try:
            self._nessie.commit(state, message, [put(place.key, table_content(location, metadata, None))], properties)
        except Conflict as e:
            if "KEY_EXISTS" in e.kinds:
                raise AlreadyExistsError(exists) from None
            if "NAMESPACE_ABSENT" in e.kinds:
                raise RefusedError(f"table {'.'.join(identifier)} could not be created: {e}; nothing was changed") from e
            raise NotAppliedError(str(e)) from e

    def _swap_pointer(self, identifier: Identifier, expected: str, new: str) -> bool:
        place, published = self._place(identifier), self._published(new)
        there = self._to_change(place.reference, place.key)
        state, content = there.state, there.by_key.get(place.key)
        if content is None or location_in(content) != expected:
            return False
        message, properties = commit_message(".".join(place.key), published.metadata, published.former)
        following = table_content(new, published.metadata, str(content["id"]))
        return self._committed(state, message, [put(place.key, following)], properties)

    def _rename_pointer(self, old: Identifier, new: Identifier, expected: str) -> bool:
        place, target = self._place(old), self._place(new)
        contents = self._to_change(place.reference, place.key, target.key)
        if self._nessie.reference_name(target.reference) != contents.state.name or target.reference.hash:
            raise RefusedError(
                f"table {'.'.join(old)} cannot be renamed to {'.'.join(new)}, which is on another reference: merge references in "
                f"Nessie; nothing was changed"
            )
        content = contents.by_key.get(place.key)
        if content is None or location_in(content) != expected:
            return False
        if target.key in contents.by_key:
            raise AlreadyExistsError(f"table {'.'.join(new)} already exists in catalog {self.name}")
        message = f"Iceberg rename table from '{'.'.join(place.key)}' to '{'.'.join(target.key)}'"
        return self._committed(contents.state, message, [delete(place.key), put(target.key, content)])

    def _remove_pointer(self, identifier: Identifier, expected: str) -> bool:
        place = self._place(identifier)
        there = self._to_change(place.reference, place.key)
        if location_in(there.by_key.get(place.key)) != expected:
            return False
        return self._committed(there.state, f"Iceberg delete table {'.'.join(place.key)}", [delete(place.key)])

    def _was_swapped(self, identifier: Identifier, expected: str, new: str) -> bool | None:
        """By the branch's history: for a table in Nessie, Iceberg Java does not write former metadata files into the metadata
        log."""
        try:
            for places in self._nessie.placed(self._place(identifier).reference):
                if new in places or expected in places:
                    return new in places
        except IcebergOpsError as e:
            log.warning("table %s: cannot check whether it was at %s: %s", ".".join(identifier), new, e)
        return None

    def _committed(
        self, state: State, message: str, operations: Sequence[Mapping[str, Any]], properties: Mapping[str, str] | None = None
    ) -> bool:
        """False if another commit has changed one of the keys since ``state``."""
        try:
            self._nessie.commit(state, message, operations, properties)
        except Conflict as e:
            log.info("%s", e)
            return False
        return True

    def _check_can_change(self, state: State, reference: Reference) -> None:
        if reference.hash is not None:
            raise RefusedError(
                f"catalog {self.name}: commit {reference.hash} of {state.name} can be read only, because it was named by its hash: "
                f"name a branch; nothing was changed"
            )
        if state.type != BRANCH:
            raise RefusedError(
                f"catalog {self.name}: {state.name} is a {state.type.lower()}, which can be read only: name a branch; nothing was "
                f"changed"
            )

    def _check_new(self, identifier: Identifier) -> None:
        if len(identifier) < 2 or not all(identifier):
            raise BadInputError(f"table identifier {'.'.join(identifier)!r} must be namespace.name")
        place = self._place(identifier)
        check_new_names(place.key)
        _check_key(place.key)
        if not self._has_namespace(place.reference, place.key[:-1]):
            raise NoSuchNamespaceError(f"catalog {self.name} has no namespace {'.'.join(place.key[:-1])}")
        if self.table_exists(identifier):
            raise AlreadyExistsError(f"table {'.'.join(identifier)} already exists in catalog {self.name}")

    def _default_location(self, identifier: Identifier) -> str:
        """It ends with an id, because another reference may have another table of the name."""
        place = self._place(identifier)
        namespace = self._nessie.contents(place.reference, [place.key[:-1]]).by_key.get(place.key[:-1])
        base = _properties_in(namespace).get(_LOCATION)
        if base is None and self._warehouse is None:
            raise BadInputError(f"catalog {self.name} has no warehouse: give table {'.'.join(identifier)} a location")
        base = "/".join((str(self._warehouse), *place.key[:-1])) if base is None else base.rstrip("/")
        return f"{base}/{place.key[-1]}_{uuid.uuid4()}"

    # namespaces

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        self._check_namespace(namespace)
        condition = f"entry.contentType == '{TABLE}' && {_below(namespace)} && size(entry.keyElements) == {len(namespace) + 1}"
        for kind, key in self._nessie.entries(self._nessie.reference, condition):
            if kind != TABLE or key[:-1] != namespace:
                continue
            if "@" in key[-1] or "#" in key[-1]:
                log.warning("table %s of catalog %s is left out: a name with @ or # names a reference", ".".join(key), self.name)
                continue
            yield key

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Also namespaces that occur only in the names of their content."""
        if not can_be_stored(parent):
            return []
        condition = f"{_below(parent)} && size(entry.keyElements) > {len(parent)}"
        namespaces: set[tuple[str, ...]] = set()
        for kind, key in self._nessie.entries(self._nessie.reference, condition):
            if key[: len(parent)] == parent and (len(key) > len(parent) + 1 or (kind == NAMESPACE and len(key) > len(parent))):
                namespaces.add(key[: len(parent) + 1])
        return sorted(namespaces)

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        """Namespaces above it that are missing are created in the same commit."""
        check_new_names(namespace)
        _check_key(namespace)
        levels = [namespace[: n + 1] for n in range(len(namespace))]
        name = ".".join(namespace)
        for _ in range(_NAMESPACE_ATTEMPTS):
            there = self._to_change(self._nessie.reference, *levels)
            self._check_levels(there, levels)
            new = [level for level in levels if level not in there.by_key]
            content = [_namespace(level, (properties or {}) if level == namespace else {}) for level in new]
            if self._committed(there.state, f"create namespace {name}", [put(k, c) for k, c in zip(new, content, strict=True)]):
                return
        raise CommitFailedError(f"namespace {name}: others changed it at each of {_NAMESPACE_ATTEMPTS} tries to create it")

    def _check_levels(self, there: Contents, levels: Sequence[Key]) -> None:
        if levels[-1] in there.by_key:
            raise AlreadyExistsError(f"namespace {'.'.join(levels[-1])} already exists in catalog {self.name}")
        for level in levels[:-1]:
            if there.by_key.get(level, {}).get("type", NAMESPACE) != NAMESPACE:
                raise BadInputError(f"namespace {'.'.join(levels[-1])}: {'.'.join(level)} is not a namespace")

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        name = ".".join(namespace)
        for _ in range(_NAMESPACE_ATTEMPTS):
            self._check_empty(namespace)
            there = self._to_change(self._nessie.reference, namespace)
            if namespace not in there.by_key:
                continue
            try:
                self._nessie.commit(there.state, f"drop namespace {name}", [delete(namespace)])
            except Conflict as e:
                if "NAMESPACE_NOT_EMPTY" in e.kinds:
                    raise BadInputError(
                        f"namespace {name} is not empty: it holds a view, or something that is not an Iceberg table"
                    ) from None
            else:
                return
        raise CommitFailedError(f"namespace {name}: others changed it at each of {_NAMESPACE_ATTEMPTS} tries to drop it")

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        self._check_namespace(namespace)
        return _properties_in(self._nessie.contents(self._nessie.reference, [namespace]).by_key.get(namespace))

    def _namespace_exists(self, namespace: tuple[str, ...]) -> bool:
        return self._has_namespace(self._nessie.reference, namespace)

    def _has_namespace(self, reference: Reference, namespace: tuple[str, ...]) -> bool:
        """Servers that do not check namespaces have tables in namespaces that were never created, or below a table."""
        if not _can_be_key(namespace):
            return False
        content = self._nessie.contents(reference, [namespace]).by_key.get(namespace)
        if content is not None and content.get("type") == NAMESPACE:
            return True
        condition = f"{_below(namespace)} && size(entry.keyElements) > {len(namespace)}"
        return any(key[: len(namespace)] == namespace for _, key in self._nessie.entries(reference, condition))


def _check_kept(catalog: str, properties: Mapping[str, str]) -> None:
    """Raise UnsupportedError if the table's properties would allow deleting files of other references."""
    if allowed := next(
        (one for one in (GC_ENABLED, METADATA_DELETE_AFTER_COMMIT) if one.name in properties and one.of(properties)), None
    ):
        raise UnsupportedError(
            f"not supported: {allowed.name}=true in catalog {catalog}, because other branches, tags and former commits of Nessie "
            f"may need the files: nessie-gc deletes those that no reference needs"
        )


def _below(namespace: tuple[str, ...]) -> str:
    """The condition for entries in a namespace, in Nessie's filter language."""
    levels = [f"entry.keyElements[{n}] == {json.dumps(level, ensure_ascii=False)}" for n, level in enumerate(namespace)]
    return " && ".join([f"size(entry.keyElements) > {len(namespace)}", *levels])


def _can_be_key(key: Key) -> bool:
    """Whether Nessie takes such a key in a request."""
    return (
        can_be_stored(key)
        and 0 < len(key) <= _MOST_LEVELS
        and all(key)
        and sum(len(level.encode("utf-16-le")) // 2 + 1 for level in key) <= _LONGEST_KEY  # as Java counts characters
        and all(c >= " " for level in key for c in level)
    )


def _check_key(key: Key) -> None:
    if not _can_be_key(key):
        raise BadInputError(
            f"name {'.'.join(key)[:80]!r}: in Nessie a name must have {_MOST_LEVELS} levels and {_LONGEST_KEY} characters at most"
        )
    if wrong := next((level for level in key if "@" in level or "#" in level), None):
        raise BadInputError(f"name {wrong!r}: must not have @ or #, which name a reference of Nessie")


def _namespace(key: Key, properties: Mapping[str, str]) -> dict[str, Any]:
    return {"type": NAMESPACE, "elements": key, "properties": dict(properties)}


def _properties_in(content: Mapping[str, Any] | None) -> dict[str, str]:
    return dict(content.get("properties") or {}) if content is not None and content.get("type") == NAMESPACE else {}
