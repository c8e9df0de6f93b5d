"""Calls to Nessie's API, version 2, that say whether a change happened.

Reads are repeated. A commit names the hash that its writer has read; Nessie accepts it if no other commit has changed the same
names since. So a commit can happen once only, and the same commit sent again is refused. A refusal alone does not show whether the
first request succeeded: a server repeats requests that its own database did not answer. So each commit has a mark, and after a
refusal the history since the hash is searched for it.
"""

from __future__ import annotations

import getpass
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import msgspec

from iceberg_ops.catalog.nessie.references import Reference
from iceberg_ops.catalog.nessie.settings import NessieSettings
from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.catalog.rest.answers import Answer, NoAnswerError, NotSentError, refusal
from iceberg_ops.catalog.rest.authorization import make_authorization
from iceberg_ops.catalog.rest.connection import Connection, new_client
from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.catalog.rest.settings import request_headers
from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError, TerminalError

Key = tuple[str, ...]
BRANCH = "BRANCH"
_READS = 4
_ENTRIES_AT_ONCE = 1_000
_MARK = "iceberg-ops.commit"
_WITH_DETAILS = {"Nessie-Client-Spec": "2"}
"""Errors list their conflicts."""
_NO_REFERENCE = "REFERENCE_NOT_FOUND"
_STATE = "effectiveReference"
"""The commit that an answer is about."""


class Conflict(Exception):
    """Nessie certainly did not make the commit: ``kinds`` are Nessie's names of the reasons (``KEY_EXISTS``,
    ``NAMESPACE_ABSENT``)."""

    def __init__(self, message: str, kinds: frozenset[str]) -> None:
        super().__init__(message)
        self.kinds = kinds


@dataclass(frozen=True, slots=True)
class State:
    """A commit of a reference; ``type`` is ``BRANCH``, ``TAG`` or, of a commit alone, ``DETACHED``."""

    name: str
    type: str
    hash: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of ``state`` under the requested keys, without keys that it does not have."""

    state: State
    by_key: Mapping[Key, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Error:
    """``code`` is empty if the answer is not Nessie's own."""

    code: str = ""
    message: str = ""
    kinds: frozenset[str] = field(default_factory=frozenset)


def put(key: Key, content: Mapping[str, Any]) -> dict[str, Any]:
    """The operation that sets the content of a key. Content without an ``id`` is new."""
    return {"type": "PUT", "key": {"elements": key}, "content": content}


def delete(key: Key) -> dict[str, Any]:
    """The operation that removes a key."""
    return {"type": "DELETE", "key": {"elements": key}}


class Nessie:
    """Safe to use from several threads. Raises OptionError."""

    def __init__(
        self,
        catalog: str,
        properties: Mapping[str, str],
        *,
        environment: Mapping[str, str] = os.environ,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._catalog, self._sleep = catalog, sleep
        settings = NessieSettings(catalog, properties)
        self.reference = settings.reference
        self._uri, self._user = settings.uri, settings.user
        self._secrets = KnownSecrets(properties)
        self._secrets.add_properties(settings.proof)
        client = new_client({**_WITH_DETAILS, **request_headers(properties)}, settings.timeouts_s, transport)
        plain = Connection(catalog, client, self._secrets, sleep=sleep)

        def ask_for_token(address: str, form: Mapping[str, str]) -> Answer:
            return plain.ask("POST", address, form=form)

        proof = make_authorization(settings.proof, self._uri, self._secrets, ask_for_token, environment, time.monotonic)
        self._connection = plain.authorized(proof)
        self._default: str | None = None

    # reads

    def contents(self, reference: Reference, keys: Sequence[Key]) -> Contents:
        """Raises TerminalError if there is no such reference, CatalogUnavailableError."""
        body = {"requestedKeys": [{"elements": key} for key in keys]}
        answer = self._read("POST", reference, "contents", ("contents", _STATE), body=body)
        contents = {tuple(one["key"]["elements"]): one["content"] for one in answer["contents"]}
        return Contents(self._state(reference, answer[_STATE]), contents)

    def entries(self, reference: Reference, condition: str) -> Iterator[tuple[str, Key]]:
        """Type and key of the entries for which ``condition`` (of the Common Expression Language) is true. Pages are of one
        commit. Raises what ``contents`` raises."""
        params, seen = {"filter": condition, "max-records": str(_ENTRIES_AT_ONCE)}, set[str]()
        while True:
            page = self._read("GET", reference, "entries", ("entries", _STATE), params=params)
            for entry in page["entries"]:
                yield str(entry["type"]), tuple(entry["name"]["elements"])
            if not self._has_next_page(page, params, seen):
                return
            state = self._state(reference, page[_STATE])
            reference = Reference(state.name, state.hash)

    def _state(self, reference: Reference, effective: Mapping[str, Any]) -> State:
        return State(self.reference_name(reference), str(effective["type"]), str(effective["hash"]))

    def reference_name(self, reference: Reference) -> str:
        """The reference's name; without one, that of the server's default branch, which is requested once."""
        if reference.name:
            return reference.name
        if self._default is None:
            answer = self._asked("GET", f"{self._uri}/config")
            if not answer.is_success:
                raise self._refusal("asking for its configuration", answer)
            self._default = str(self._document(answer, ["defaultBranch"])["defaultBranch"])
        return self._default

    def _read(
        self,
        method: str,
        reference: Reference,
        what: str,
        needed: Sequence[str],
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Any:
        """The answer, which has the keys ``needed``."""
        answer = self._asked(method, self._address(reference, what), params=params, body=body)
        if answer.is_success:
            return self._document(answer, needed)
        raise self._refusal(f"reading {what} of reference {self.reference_name(reference)}", answer)

    def _address(self, reference: Reference, what: str) -> str:
        return f"{self._uri}/trees/{reference.path(self.reference_name(reference))}/{what}"

    def _asked(self, method: str, address: str, **request: Any) -> Answer:
        """The answer to a read. The connection repeats a GET, and a request that was not sent; a POST is repeated here. Raises
        CatalogUnavailableError."""
        for attempt in range(1, _READS):
            try:
                answer = self._connection.ask(method, address, **request)
            except NoAnswerError:
                if method == "GET":
                    raise
            else:
                if method == "GET" or answer.status < 500:
                    return answer
            self._sleep(0.1 * 2**attempt)
        return self._connection.ask(method, address, **request)

    def _document(self, answer: Answer, needed: Sequence[str] = ()) -> Any:
        document = answer.document("a request")
        if not isinstance(document, dict) or not document.keys() >= set(needed):
            raise CatalogUnavailableError(f"catalog {self._catalog}: the answer is not Nessie's")
        return document

    def _refusal(self, what: str, answer: Answer) -> IcebergOpsError:
        error = self._error(answer)
        if error.code == _NO_REFERENCE:
            return TerminalError(
                f"catalog {self._catalog}: {what} was refused: {error.message}. Create the reference in Nessie, or set the "
                f"property ref (or ref.hash) to one that it has"
            )
        return refusal(self._catalog, what, replace(answer, text=error.message, kind="") if error.code else answer)

    def _error(self, answer: Answer) -> _Error:
        try:
            document = msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _Error()
        if not isinstance(document, dict) or not isinstance(document.get("errorCode"), str):
            return _Error()
        details = document.get("errorDetails")
        conflicts = details.get("conflicts") if isinstance(details, dict) else None
        kinds = frozenset(str(one.get("conflictType")) for one in conflicts or () if isinstance(one, dict))
        message = self._secrets.hide(" ".join(str(document.get("message") or "no message").split()))
        return _Error(document["errorCode"], message, kinds)

    # commits

    def commit(
        self, state: State, message: str, operations: Sequence[Mapping[str, Any]], properties: Mapping[str, str] | None = None
    ) -> None:
        """Commit to the branch of ``state``, if no name of the operations has changed since.

        Raises Conflict, NotAppliedError and RefusedError if nothing was changed, and CatalogUnavailableError if the commit may have
        happened."""
        mark = uuid.uuid4().hex
        commit_properties = {"application-type": "iceberg", **(properties or {}), _MARK: mark}
        meta: dict[str, Any] = {
            "message": message,
            "allProperties": {key: [value] for key, value in commit_properties.items()},
            "authors": [self._user or _os_user()],
        }
        address = self._address(Reference(state.name, state.hash), "history/commit")
        try:
            answer = self._connection.ask("POST", address, body={"commitMeta": meta, "operations": operations})
        except NotSentError as e:
            raise NotAppliedError(str(e)) from e
        except NoAnswerError as e:
            raise CatalogUnavailableError(str(e)) from e
        if answer.is_success:
            if "targetBranch" not in self._document(answer):
                raise CatalogUnavailableError(f"catalog {self._catalog}: the answer to a commit is not Nessie's")
            return
        self._not_committed(state, mark, message, answer)

    def _not_committed(self, state: State, mark: str, message: str, answer: Answer) -> None:
        """Return normally if the commit has happened after all; see ``commit``."""
        error = self._error(answer)
        message_of_server = (
            f"catalog {self._catalog}: {message}: Nessie answers {answer.status} {error.code}: {error.message or answer.text}"
        )
        if error.code and answer.status in (409, 429):
            if self._has(state, mark):
                return
            if answer.status == 409:
                raise Conflict(message_of_server, error.kinds)
            raise NotAppliedError(message_of_server)
        if error.code == _NO_REFERENCE:
            raise Conflict(message_of_server, frozenset())
        if not answer.is_refusal or (answer.status in (404, 409) and not error.code):
            raise CatalogUnavailableError(message_of_server)
        if answer.status in (429, 503):
            raise NotAppliedError(message_of_server)
        raise RefusedError(f"{message_of_server}; nothing was changed")

    def _has(self, since: State, mark: str) -> bool:
        """Whether the branch has a commit with the mark after ``since``. Raises CatalogUnavailableError if this cannot be
        determined."""
        try:
            for entry in self._history(Reference(since.name), "MINIMAL"):
                meta = entry["commitMeta"]
                if mark in (meta.get("allProperties") or {}).get(_MARK, ()):
                    return True
                if since.hash in (meta["hash"], *(meta.get("parentCommitHashes") or ())[:1]):
                    return False
        except IcebergOpsError as e:
            raise CatalogUnavailableError(f"cannot check whether a refused commit succeeded: {e}") from e
        raise CatalogUnavailableError(
            f"catalog {self._catalog}: branch {since.name} was moved back while a commit to it was in progress"
        )

    def placed(self, reference: Reference) -> Iterator[frozenset[str]]:
        """For each commit of the reference, the newest first: the metadata locations that it has set. Raises what ``contents``
        raises."""
        for entry in self._history(reference, "ALL"):
            contents = [one.get("content") or {} for one in entry.get("operations") or ()]
            yield frozenset(str(one["metadataLocation"]) for one in contents if "metadataLocation" in one)

    def _history(self, reference: Reference, fetch: str) -> Iterator[Mapping[str, Any]]:
        params, seen = {"fetch": fetch}, set[str]()
        while True:
            page = self._read("GET", reference, "history", ["logEntries"], params=params)
            yield from page["logEntries"]
            if not self._has_next_page(page, params, seen):
                return

    def _has_next_page(self, page: Mapping[str, Any], params: dict[str, str], seen: set[str]) -> bool:
        """Whether a page follows ``found``; then ``params`` ask for it. ``seen``: the tokens of the pages before. Raises
        CatalogUnavailableError."""
        if not page.get("hasMore"):
            return False
        token = page.get("token")
        if not isinstance(token, str) or not token:
            raise CatalogUnavailableError(f"catalog {self._catalog}: the answer is not Nessie's: more entries, and no page token")
        if token in seen:
            raise CatalogUnavailableError(f"catalog {self._catalog}: the server returned the same page token twice")
        seen.add(token)
        params["page-token"] = token
        return True


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container's user may have no name.
        return "iceberg-ops"
