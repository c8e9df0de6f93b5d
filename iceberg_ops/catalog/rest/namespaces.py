"""Namespaces of a REST catalog, and their tables and child namespaces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.names import check_new_names, forbid_content, shown
from iceberg_ops.catalog.outcomes import reason, unknown_if_it_fails, unknown_outcome
from iceberg_ops.catalog.rest.addresses import Addresses
from iceberg_ops.catalog.rest.answers import Answer, NoAnswerError, NotSentError, refusal
from iceberg_ops.catalog.rest.connection import Connection
from iceberg_ops.catalog.rest.settings import Settings
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CommitStateUnknownError,
    CorruptTableError,
    IcebergOpsError,
    NoSuchNamespaceError,
    TerminalError,
)
from iceberg_ops.serde.json.json_objects import JsonObject, as_list, as_text, as_text_map

log = logging.getLogger(__name__)

_MOST_PAGES = 100_000


class RestNamespaces:
    """Safe to use from several threads."""

    def __init__(self, catalog: str, connection: Connection, addresses: Addresses, settings: Settings) -> None:
        self._catalog, self._connection, self._addresses, self._settings = catalog, connection, addresses, settings

    def tables(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        """See ``Catalog.each_table``."""
        self._check_name(namespace)
        what, missing = f"listing tables of {shown(namespace)}", self._no_namespace(namespace)
        items = self._pages(self._addresses.tables(namespace), "identifiers", what, {}, missing)
        yield from ((*namespace, JsonObject(item, "an identifier").get("name", as_text)) for item in items)

    def children(self, parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See ``Catalog.list_namespaces``."""
        if parent and not self._addresses.can_name(parent):
            return []
        what, depth = f"listing namespaces{f' of {shown(parent)}' if parent else ''}", len(parent)
        params = {"parent": self._addresses.joined(parent)} if parent else {}
        missing = self._no_namespace(parent) if parent else self._no_answer_to(what)
        try:
            items = self._pages(self._addresses.namespaces, "namespaces", what, params, missing)
            namespaces = [tuple(as_text(level, "a level") for level in as_list(item, "a namespace")) for item in items]
        except NoSuchNamespaceError as e:
            if not parent:
                raise self._no_answer_to(what) from e
            return []
        return sorted({n[: depth + 1] for n in namespaces if n[:depth] == parent and len(n) > depth})

    def _pages(self, address: str, key: str, what: str, params: Mapping[str, str], missing: IcebergOpsError) -> Iterator[Any]:
        """The items of every page. Raises CorruptTableError if a server returns the same page token again, or has no last page, and
        NoAnswerError for an answer of other things than a list: a gateway's would be taken for an empty one. Some servers leave an
        empty list out."""
        size = self._settings.page_size
        paging = {"pageToken": "", **({} if size is None else {"pageSize": str(size)})}
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            answer = self._connection.ask("GET", address, params={**params, **paging})
            if not answer.is_success:
                raise refusal(self._catalog, what, answer, missing)
            page = JsonObject(answer.document(what), f"the answer of the server to {what}")
            items, token = page.maybe(key, as_list), page.maybe("next-page-token", as_text)
            if items is None and page.extra():
                raise NoAnswerError(f"catalog {self._catalog}: the answer of the server to {what} has no {key}")
            yield from items or ()
            if not token:
                return
            if token in seen:
                raise CorruptTableError(f"catalog {self._catalog}: {what}: the server returned the same page token twice")
            seen.add(token)
            paging = {**paging, "pageToken": token}
        raise CorruptTableError(f"catalog {self._catalog}: {what}: the server returned {_MOST_PAGES:,} pages, and another token")

    def properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """See ``Catalog.namespace_properties``."""
        self._check_name(namespace)
        what = f"loading namespace {shown(namespace)}"
        answer = self._connection.ask("GET", self._addresses.namespace(namespace))
        if not answer.is_success:
            raise refusal(self._catalog, what, answer, self._no_namespace(namespace))
        return JsonObject(answer.document(what), f"the answer of the server to {what}").maybe("properties", as_text_map) or {}

    def create(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        """See ``Catalog.create_namespace``."""
        check_new_names(namespace)
        if not namespace:
            raise BadInputError("a namespace must have a name")
        name = shown(namespace)
        body = {"namespace": list(namespace), "properties": dict(properties)}

        def happened() -> bool:
            existing = self.properties(namespace)
            return all(existing.get(key) == value for key, value in properties.items())

        with self._looked_for(f"the creation of namespace {name}", happened):
            answer = self._connection.ask("POST", self._addresses.namespaces, body=body)
            self._check(answer, f"creating namespace {name}", AlreadyExistsError(self._already(name, answer)))

    def drop(self, namespace: tuple[str, ...]) -> None:
        """See ``Catalog.drop_namespace``."""
        name = shown(namespace)
        forbid_content(namespace, self.tables(namespace), lambda: self.children(namespace))
        missing = self._no_namespace(namespace)
        with self._looked_for(f"the drop of namespace {name}", lambda: not self.exists(namespace)):
            answer = self._connection.ask("DELETE", self._addresses.namespace(namespace))
            self._check(answer, f"dropping namespace {name}", BadInputError(f"namespace {name} is not empty ({answer})"), missing)

    def exists(self, namespace: tuple[str, ...]) -> bool:
        try:
            self.properties(namespace)
        except NoSuchNamespaceError:
            return False
        return True

    def _check(self, answer: Answer, what: str, conflict: IcebergOpsError, missing: NoSuchNamespaceError | None = None) -> None:
        """Raise the error for a change's answer; NoAnswerError if the outcome is unknown."""
        if answer.is_success:
            return
        error = conflict if answer.status == 409 else refusal(self._catalog, what, answer, missing)
        if not answer.is_refusal:
            raise NoAnswerError(str(error))
        raise error

    @contextmanager
    def _looked_for(self, what: str, happened: Callable[[], bool]) -> Iterator[None]:
        """A change; if its answer is lost, ``happened`` checks the outcome once."""

        def unknown(e: BaseException) -> CommitStateUnknownError:
            return unknown_outcome(f"{what} got no answer: {reason(e)}; look whether catalog {self._catalog} lists it", e)

        try:
            with unknown_if_it_fails(unknown):
                yield
        except NotSentError:
            raise
        except NoAnswerError as e:
            try:
                if happened():
                    return
            except IcebergOpsError as look:
                log.warning("catalog %s: cannot check whether %s happened: %s", self._catalog, what, look)
            raise unknown(e) from e

    def _check_name(self, namespace: Sequence[str]) -> None:
        if not namespace or not self._addresses.can_name(namespace):
            raise self._no_namespace(namespace)

    def _no_namespace(self, namespace: Sequence[str]) -> NoSuchNamespaceError:
        return NoSuchNamespaceError(f"catalog {self._catalog} has no namespace {shown(namespace)}")

    def _no_answer_to(self, what: str) -> TerminalError:
        """A catalog without namespaces has an empty list of them: a 404 does not mean that it has no tables."""
        return TerminalError(
            f"catalog {self._catalog}: {what}: the server answers 404: check the properties uri, warehouse and prefix"
        )

    def _already(self, name: str, answer: Answer) -> str:
        return f"namespace {name} already exists in catalog {self._catalog} ({answer})"
