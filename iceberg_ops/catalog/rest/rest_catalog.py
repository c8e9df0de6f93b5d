"""A catalog behind the Iceberg REST protocol. The server keeps the pointers, writes the metadata files, and deletes old ones
if a table's properties require it; Iceberg Java and pyiceberg can use the same server.

A commit is checked twice: here, on the state that is loaded right before, by all rules that apply in every catalog
(``next_metadata``); and by the server in the swap, by the requirements that the specification has (``commits``). Another commit
between the two can violate a rule that only the first check covers.

A commit whose answer is lost is sent again if it can happen only once, because it moves a ref from its old value. Then any
refusal is examined: the first request may have been carried out. If this cannot be decided, the outcome is unknown.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import httpx

from iceberg_ops.catalog.base import attempts, check_same_table, moved_while_dropped, now_ms
from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.catalog.dropping import drop_with_files
from iceberg_ops.catalog.names import check_new_table_name, shown
from iceberg_ops.catalog.neighbours import forbid_second_name, is_under_another_name
from iceberg_ops.catalog.next_metadata import next_commit
from iceberg_ops.catalog.outcomes import nothing_published, reason, unknown_if_it_fails, unknown_once_tried, unknown_outcome
from iceberg_ops.catalog.registration import announced
from iceberg_ops.catalog.rest.addresses import Addresses
from iceberg_ops.catalog.rest.answers import Answer, NoAnswerError, refusal
from iceberg_ops.catalog.rest.changes import Changes, overtaken, unknown_without_answer
from iceberg_ops.catalog.rest.commits import (
    added_snapshots,
    can_happen_once,
    commit_body,
    creation,
    creation_body,
    forbid_refs_beside_main,
    server_requirements,
    table_identifier,
    with_ids,
)
from iceberg_ops.catalog.rest.loaded import CachedTable, LoadedTable, TableCache
from iceberg_ops.catalog.rest.namespaces import RestNamespaces
from iceberg_ops.catalog.rest.opening import Opening
from iceberg_ops.catalog.rest.settings import DELEGATION, checked_uri
from iceberg_ops.catalog.rest.storage import RENEWED_BEFORE_MS, TableStorage, expires_at_ms
from iceberg_ops.deletion.gate import NOTHING, Deletion
from iceberg_ops.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    IcebergOpsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TerminalError,
    UnsupportedError,
)
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import absolute_under, forbid_relative
from iceberg_ops.serde.json.stored_form import check_can_be_stored
from iceberg_ops.spec.metadata_builder import apply_updates, new_table_metadata
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.requirements import AssertCreate, TableRequirement
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.spec.table_uuid import same_uuid
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table.metadata_files import read_metadata
from iceberg_ops.table.own_folders import folders_of
from iceberg_ops.table.reachable import all_files
from iceberg_ops.table.same_table import same_table
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

SWAP_ATTEMPTS = 4
_TABLE_HEAD = "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}"
_RENAME = "POST /v1/{prefix}/tables/rename"
_REGISTER = "POST /v1/{prefix}/namespaces/{namespace}/register"


class RestCatalog:
    """``properties`` are the catalog's, including ``uri``; ``io`` (None: built from these and the server's) reads and writes every
    table's files.

    Raises OptionError, CatalogUnavailableError and TerminalError if the server cannot be asked for its configuration."""

    def __init__(
        self,
        name: str,
        properties: Mapping[str, str],
        io: FileIO | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], int] = now_ms,
        seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name, self._clock, self._sleep = name, clock, sleep
        opened = Opening(name, transport, environment, seconds, sleep)
        self._connection, settings = opened.configured(properties)
        self._settings = settings
        self._addresses = Addresses(checked_uri("uri", settings.properties["uri"]), settings.prefix, settings.separator)
        self._namespaces = RestNamespaces(name, self._connection, self._addresses, settings)
        self._storage = TableStorage(settings.of_files, opened.secrets, io, clock)
        self._delegation = {} if f"header.{DELEGATION}" in settings.properties else {DELEGATION: "vended-credentials"}
        self._kept = TableCache()
        self._changes = Changes(name, self._connection, self._delegation)

    @property
    def name(self) -> str:
        return self._name

    @property
    def io(self) -> FileIO:
        return self._storage.of_catalog

    # tables

    def load_table(self, identifier: Identifier) -> Table:
        what, missing = f"loading table {shown(identifier)}", self._no_table(identifier)
        if not self._can_be(identifier):
            raise missing
        kept = self._kept.get(identifier)
        if kept is not None and kept.expires_at_ms is not None and kept.expires_at_ms - self._clock() < RENEWED_BEFORE_MS:
            kept = None
        headers = {**self._delegation, **({} if kept is None else {"If-None-Match": kept.etag})}
        answer = self._connection.ask("GET", self._addresses.table(identifier), headers=headers)
        if answer.status == 304 and kept is not None:
            return kept.table
        if not answer.is_success:
            self._kept.forget(identifier)
            raise refusal(self._name, what, answer, missing)
        return self._taken(identifier, answer, what)

    def _taken(self, identifier: Identifier, answer: Answer, what: str, io: FileIO | None = None) -> Table:
        """The table of an answer, which is cached. ``io``: the FileIO of its files if the answer does not define it."""
        loaded = LoadedTable.of(answer.document(what), what)
        if not loaded.location:
            raise NoAnswerError(f"catalog {self._name}: the answer to {what} names no metadata file")
        lent, before = loaded.lent.for_location(loaded.metadata.location), self._kept.get(identifier)
        table = Table((self._name, *identifier), loaded.metadata, loaded.location, io or self._files(identifier, lent))
        if (etag := answer.headers.get("etag")) and (io is None or (before is not None and before.table.io is io)):
            ends = before.expires_at_ms if io is not None and before is not None else expires_at_ms(lent)
            self._kept.keep(identifier, CachedTable(etag, table, ends))
        return table

    def _files(self, identifier: Identifier, lent: Mapping[str, str]) -> FileIO:
        return self._storage.of_table(lent, partial(self._lent_again, identifier))

    def _lent_again(self, identifier: Identifier) -> Mapping[str, str]:
        """The credentials that the server vends for the table now. Raises NoSuchTableError, and what ``load_table`` raises."""
        what = f"renewing credentials of table {shown(identifier)}"
        answer = self._connection.ask("GET", self._addresses.table(identifier), headers=self._delegation)
        if not answer.is_success:
            raise refusal(self._name, what, answer, self._no_table(identifier))
        loaded = LoadedTable.of(answer.document(what), what)
        return loaded.lent.for_location(loaded.metadata.location)

    def _done(self, identifier: Identifier, answer: Answer, what: str, io: FileIO | None = None) -> Table:
        """The table of the answer to a successful change. Raises NoAnswerError for an answer that cannot be read."""
        try:
            return self._taken(identifier, answer, what, io)
        except IcebergOpsError as e:
            raise NoAnswerError(f"catalog {self._name}: the answer to {what} cannot be read: {e}") from e

    def table_exists(self, identifier: Identifier) -> bool:
        if not self._can_be(identifier):
            return False
        if self._settings.has(_TABLE_HEAD):
            answer = self._connection.ask("HEAD", self._addresses.table(identifier))
            if answer.is_success or answer.status == 404:
                return answer.is_success
            raise refusal(self._name, f"looking for table {shown(identifier)}", answer)
        try:
            self.load_table(identifier)
        except NoSuchTableError:
            return False
        return True

    def create_table(
        self,
        identifier: Identifier,
        schema: Schema,
        *,
        spec: PartitionSpec = UNPARTITIONED,
        sort_order: SortOrder = UNSORTED,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        what = f"creating table {shown(identifier)}"
        body = self._creation(identifier, schema, spec, sort_order, location, properties)
        with unknown_once_tried(what) as tried, unknown_without_answer(what, f"it succeeded if catalog {self._name} has it"):
            tried(f"{shown(identifier)} in catalog {self._name}")
            return self._done(identifier, self._asked_to_create(identifier, body, what), what)

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
        """See ``StagesTables``. The server defines the future table and its location."""
        what = f"staging table {shown(identifier)}"
        body = {**self._creation(identifier, schema, spec, sort_order, location, properties), "stage-create": True}
        answer = self._asked_to_create(identifier, body, what)
        loaded = LoadedTable.of(answer.document(what), what)
        io = self._files(identifier, loaded.lent.for_location(loaded.metadata.location))
        return Table((self._name, *identifier), loaded.metadata, "", io)

    def _asked_to_create(self, identifier: Identifier, body: Any, what: str) -> Answer:
        address, missing = self._addresses.tables(identifier[:-1]), self._no_namespace(identifier)
        return self._changes.made("POST", address, body, what, partial(self._taken_name, identifier), missing)

    def _creation(
        self,
        identifier: Identifier,
        schema: Schema,
        spec: PartitionSpec,
        sort_order: SortOrder,
        location: str | None,
        properties: Mapping[str, str] | None,
    ) -> dict[str, Any]:
        """The body of a creation, whose table is checked here as in every catalog; the server chooses its location. Raises
        BadInputError, SchemaError, OptionError."""
        self._check_new(identifier)
        place = None if location is None else absolute_under(self.io, location).rstrip("/")
        given = dict(properties or {})
        metadata = new_table_metadata(schema, spec, sort_order, place or "/", given, now_ms=self._clock())
        check_can_be_stored(metadata, None, f"table {shown(identifier)}")
        return creation_body(identifier[-1], metadata, place, given)

    # commits

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        identifier = table.identifier[1:]
        what = f"table {shown(identifier)}"
        if self._settings.is_nessie:
            forbid_refs_beside_main(self._name, updates)
        if AssertCreate() in requirements:
            return self._created(table, updates)
        with nothing_published(f"{what} could not be read"):
            current = self.load_table(identifier)
        check_same_table(table, current)
        with nothing_published(f"{what} could not be changed"):
            updated, updates = next_commit(
                current.metadata, requirements, updates, now_ms=self._clock(), metadata_location=current.metadata_location
            )
            if updated is current.metadata:
                return current
            if updated.location != current.location:
                forbid_relative(current.io, updated.location, f"{what}: location")
            check_can_be_stored(updated, current.metadata, what)
            asked = server_requirements(current.metadata, requirements, updates)
            sent = with_ids(updates, updated)
            body = commit_body(identifier, asked, sent, current.metadata.last_column_id)
        added = added_snapshots(updates)

        def is_done(table: Table) -> bool | None:
            return added <= table.metadata.snapshots_by_id.keys() and same_table(current, table) if added else None

        shown_by = f"snapshot {', '.join(map(str, sorted(added)))}" if added else "the change"
        once = can_happen_once(asked, updates)
        return self._swapped(current, body, is_done, shown_by, partial(overtaken, what), is_repeatable=once)

    def _created(self, table: Table, updates: Sequence[TableUpdate]) -> Table:
        """Create a staged table with ``updates``."""
        identifier, staged = table.identifier[1:], table.metadata
        what = f"table {shown(identifier)}"
        with nothing_published(f"{what} could not be created"):
            created = apply_updates(staged, updates, now_ms=max(self._clock(), staged.last_updated_ms))
            forbid_relative(table.io, created.location, f"{what}: location")
            check_can_be_stored(created, None, what)
            body = commit_body(identifier, [AssertCreate()], (*creation(staged), *updates), 0)

        def is_done(table: Table) -> bool:
            return same_uuid(table.metadata.table_uuid, staged.table_uuid)

        shown_by, taken = f"uuid {staged.table_uuid}", partial(self._taken_name, identifier)
        return self._swapped(table, body, is_done, shown_by, taken, is_repeatable=True)

    def _swapped(
        self,
        current: Table,
        body: Any,
        is_done: Callable[[Table], bool | None],
        shown_by: str,
        conflict: Callable[[Answer], IcebergOpsError],
        *,
        is_repeatable: bool,
    ) -> Table:
        """Ask the server for a commit. ``is_done``: whether a state of the table contains it; None: no state shows it.
        ``is_repeatable``: it can happen only once, so it may be sent again. Raises the errors of ``commit_table``."""
        identifier = current.identifier[1:]
        what, address, missing = (
            f"a commit to table {shown(identifier)}",
            self._addresses.table(identifier),
            self._no_table(identifier),
        )
        doubt: NoAnswerError | None = None
        with unknown_once_tried(what) as tried:
            tried(shown_by)
            for _ in attempts(SWAP_ATTEMPTS if is_repeatable else 1, self._sleep):
                try:
                    answer = self._changes.made("POST", address, body, what, conflict, missing)
                    table = self._done(identifier, answer, what, current.io)
                    if is_done(table) is False:
                        raise NoAnswerError(f"catalog {self._name} says that {what} was done, but its answer does not show it")
                    return table
                except NoAnswerError as e:
                    doubt = doubt or e
                except IcebergOpsError:
                    if doubt is None:
                        raise
                    break  # The refusal may be caused by the first request, which was carried out.
            try:
                if is_done(table := self.load_table(identifier)):
                    return table
            except IcebergOpsError as e:
                log.warning("cannot check whether %s happened: %s", what, e)
            raise CommitStateUnknownError(f"{what} got no answer: {doubt}; it succeeded if {shown_by} is in the table") from doubt

    # names

    def register_table(self, identifier: Identifier, metadata_location: str) -> Table:
        self._check_new(identifier)
        self._needs(_REGISTER, "registering tables")
        if self.table_exists(identifier):
            raise self._taken_name(identifier)
        metadata_location = absolute_under(self.io, metadata_location)
        metadata = read_metadata(self.io, metadata_location)
        forbid_relative(self.io, metadata.location, f"{metadata_location}: its table location")
        registered = Table((self._name, *identifier), metadata, metadata_location, self.io)
        around = forbid_second_name(cast("Catalog", self), registered)
        what = f"registering table {shown(identifier)}"
        body = {"name": identifier[-1], "metadata-location": metadata_location}
        with announced(registered, around):
            read_metadata(self.io, metadata_location)  # A drop that has just ended has deleted it, last of all.
            with unknown_once_tried(what) as tried:
                tried(metadata_location)
                with unknown_without_answer(what, f"it succeeded if catalog {self._name} has {metadata_location}"):
                    address, missing = self._addresses.register(identifier[:-1]), self._no_namespace(identifier)
                    answer = self._changes.made("POST", address, body, what, partial(self._taken_name, identifier), missing)
                    return self._done(identifier, answer, what)

    def rename_table(self, old: Identifier, new: Identifier) -> Table:
        before = self.load_table(old)
        self._check_new(new)
        self._needs(_RENAME, "renaming tables")
        what = f"renaming table {shown(old)} to {shown(new)}"
        body = {"source": table_identifier(old), "destination": table_identifier(new)}
        shown_by = f"the table of metadata {before.metadata_location} is at the new name"

        def unknown(e: BaseException) -> CommitStateUnknownError:
            return unknown_outcome(f"{what} got no answer: {reason(e)}; it succeeded if {shown_by}", e)

        with unknown_if_it_fails(unknown):
            try:
                self._changes.made("POST", self._addresses.rename, body, what, partial(self._taken_name, new), self._no_table(old))
            except NoAnswerError as e:
                if not self._was_renamed(before, new):
                    raise unknown(e) from e
            self._kept.forget(old)
            return self.load_table(new)

    def _was_renamed(self, before: Table, new: Identifier) -> bool:
        """Whether the new name has the table now; False if this cannot be decided."""
        try:
            return same_table(before, self.load_table(new))
        except IcebergOpsError as e:
            log.warning("cannot check whether table %s was renamed: %s", before.name, e)
            return False

    def drop_table(self, identifier: Identifier, purge: bool = False) -> Deletion:
        if not purge:
            self._forget(identifier)
            return NOTHING
        table = self.load_table(identifier)
        return drop_with_files(
            cast("Catalog", self),
            table,
            forget=lambda: self._forget(identifier, table),
            folders=folders_of(table),
            files_of=lambda: all_files(table),
        )

    def _forget(self, identifier: Identifier, purged: Table | None = None) -> None:
        """Drop the name. ``purged``: the table whose files will be deleted; refuse if it has moved. A commit right after this check
        is dropped, too. The server is not asked to delete files."""
        if not self._can_be(identifier):
            raise self._no_table(identifier)
        if purged is not None and self.load_table(identifier).metadata_location != purged.metadata_location:
            raise moved_while_dropped(identifier)
        what = f"the drop of table {shown(identifier)}"

        def unknown(e: BaseException) -> CommitStateUnknownError:
            return unknown_outcome(
                f"{what} got no answer: {reason(e)}; it succeeded if catalog {self._name} has no such table now. No file was "
                "deleted: to drop the table with its files then, register its metadata file under the name again and drop it",
                e,
            )

        with unknown_if_it_fails(unknown):
            try:
                address, missing = self._addresses.table(identifier), self._no_table(identifier)
                params = {"purgeRequested": "false"}
                self._changes.made("DELETE", address, None, what, partial(self._not_dropped, what), missing, params)
            except NoAnswerError as e:
                if self._is_there(identifier) or (purged is not None and self._may_be_renamed(purged)):
                    raise unknown(e) from e
        self._kept.forget(identifier)

    def _is_there(self, identifier: Identifier) -> bool:
        """Whether the name has a table, or this cannot be decided."""
        try:
            self.load_table(identifier)
        except NoSuchTableError:
            return False
        except IcebergOpsError as e:
            log.warning("cannot check whether table %s was dropped: %s", shown(identifier), e)
        return True

    def _may_be_renamed(self, table: Table) -> bool:
        """Whether another name has the table, or this cannot be decided: then its name is gone without a drop."""
        try:
            return is_under_another_name(cast("Catalog", self), table, lambda _: True)
        except IcebergOpsError as e:
            log.warning("cannot check whether table %s was renamed: %s", table.name, e)
        return True

    # namespaces

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        return self._namespaces.tables(namespace)

    def list_tables(self, namespace: tuple[str, ...]) -> list[Identifier]:
        return sorted(set(self.each_table(namespace)))

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return self._namespaces.children(parent)

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        self._namespaces.create(namespace, properties or {})

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        self._namespaces.drop(namespace)

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        return self._namespaces.properties(namespace)

    # requests

    def _needs(self, endpoint: str, what: str) -> None:
        if not self._settings.has(endpoint):
            raise UnsupportedError(f"not supported: {what} in catalog {self._name}, because its server has no {endpoint}")

    def _can_be(self, identifier: Identifier) -> bool:
        return len(identifier) > 1 and self._addresses.can_name(identifier)

    def _check_new(self, identifier: Identifier) -> None:
        """Some servers create a table in a namespace that does not exist."""
        check_new_table_name(identifier)
        self._namespaces.properties(identifier[:-1])

    def _no_table(self, identifier: Identifier) -> NoSuchTableError:
        return NoSuchTableError(f"catalog {self._name} has no table {shown(identifier)}")

    def _no_namespace(self, identifier: Identifier) -> NoSuchNamespaceError:
        return NoSuchNamespaceError(f"catalog {self._name} has no namespace {shown(identifier[:-1])}")

    def _not_dropped(self, what: str, answer: Answer) -> IcebergOpsError:
        return TerminalError(f"catalog {self._name}: {what} was refused ({answer})")

    def _taken_name(self, identifier: Identifier, answer: Answer | None = None) -> AlreadyExistsError:
        detail = "" if answer is None else f" ({answer})"
        return AlreadyExistsError(f"table {shown(identifier)} already exists in catalog {self._name}{detail}")
