"""Calls to AWS Glue that say whether a change may have had an effect.

Glue's interface is one signed POST of JSON for each call, so it uses the connection and the signature of the REST catalogs. Reads
are repeated. Changes are not: the answer to a repeated change could be about the first request.

A change is refused if the status is one of 400 to 499, and the reason cannot occur after the work has begun: Glue answers a
time-out with 400. Any other answer leaves the change in doubt.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.catalog.rest.answers import Answer, NoAnswerError, NotSentError
from iceberg_ops.catalog.rest.connection import Connection, new_client
from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.catalog.rest.sigv4 import SigV4
from iceberg_ops.errors import CatalogUnavailableError, OptionError
from iceberg_ops.io.aws.key_selection import select_keys

_TIMEOUTS_S = (10.0, 60.0)
"""For the connection, and for an answer."""
_READS = 5
_NOT_BEGUN = frozenset(
    {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "ResourceNotReadyException"}
)
_IN_THE_MIDDLE = re.compile(r"Timeout|Internal|Unavailable|Failure|Federation")
"""In the names of errors after which a change may have happened, whatever the status: ``OperationTimeoutException`` has 400."""
_OVERTAKEN = "ConcurrentModificationException"
_TOO_MANY, _SERVER_ERROR = 429, 500


class NoSuchEntity(Exception):
    """Glue has no such table or database."""


class EntityExists(Exception):
    """Glue has a table or database of the name."""


class VersionConflict(Exception):
    """Another change of the table came first: its version has changed."""


_ANSWERS: dict[str, type[Exception]] = {
    "EntityNotFoundException": NoSuchEntity,
    "AlreadyExistsException": EntityExists,
}


class Glue:
    """A client of Glue. ``properties``: ``glue.region``, and the keys that ``io.aws.key_selection`` finds, which are renewed;
    ``glue.endpoint`` is an address other than AWS's, ``glue.id`` the catalog's id. Safe to use from several threads. Raises
    OptionError."""

    def __init__(
        self,
        catalog: str,
        properties: Mapping[str, str],
        *,
        environment: Mapping[str, str] = os.environ,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._catalog, self._sleep = catalog, sleep
        self._id = properties.get("glue.id")
        aws_keys = select_keys(properties, "glue", environment)
        named = (properties.get("glue.region"), properties.get("client.region"))
        region = next(
            filter(None, (*named, environment.get("AWS_REGION"), environment.get("AWS_DEFAULT_REGION"), aws_keys.region)), None
        )
        if not region:
            raise OptionError(f"catalog {catalog} (type glue) needs a region: set glue.region, client.region or AWS_REGION")
        self._endpoint = properties.get("glue.endpoint", f"https://glue.{region}.amazonaws.com").rstrip("/") + "/"
        secrets = KnownSecrets(properties)
        signature = SigV4(aws_keys.keys, service="glue", region=region, secrets=secrets)
        client = new_client({}, _TIMEOUTS_S)
        self._connection = Connection(catalog, client, secrets, authorization=signature, sleep=sleep, repeats_answered=False)

    def read(self, call: str, **arguments: Any) -> dict[str, Any]:
        """Raises NoSuchEntity, CatalogUnavailableError, and RefusedError if Glue refuses for a lasting reason."""
        for attempt in range(1, _READS):
            try:
                return self._asked(call, arguments)
            except CatalogUnavailableError:
                self._sleep(0.1 * 2**attempt)
        return self._asked(call, arguments)

    def read_one(self, call: str, key: str, **arguments: Any) -> dict[str, Any]:
        """The object ``key`` of an answer. Raises what ``read`` raises."""
        entry = self.read(call, **arguments).get(key)
        if not isinstance(entry, dict) or not entry.get("Name"):
            raise CatalogUnavailableError(f"catalog {self._catalog}: the answer to {call} has no {key}: it is not Glue's")
        return entry

    def pages(self, call: str, key: str, **arguments: Any) -> Iterator[Any]:
        """Every element of a list that comes in pages. Raises what ``read`` raises."""
        token, seen = dict[str, str](), set[str]()
        while True:
            page = self.read(call, **arguments, **token)
            if not isinstance(listed := page.get(key), list):
                raise CatalogUnavailableError(f"catalog {self._catalog}: the answer to {call} has no {key}: it is not Glue's")
            yield from listed
            if not (following := page.get("NextToken")):
                return
            if following in seen:
                raise CatalogUnavailableError(
                    f"catalog {self._catalog}: {call} returned the same page token twice: it is not Glue's"
                )
            seen.add(following)
            token = {"NextToken": following}

    def change(self, call: str, **arguments: Any) -> None:
        """Raises NotAppliedError, RefusedError, NoSuchEntity, EntityExists and VersionConflict if nothing was changed, and
        CatalogUnavailableError if the change may have happened."""
        self._asked(call, arguments)

    def _asked(self, call: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        body = {**arguments, "CatalogId": self._id} if self._id else dict(arguments)
        headers = {"X-Amz-Target": f"AWSGlue.{call}", "Content-Type": "application/x-amz-json-1.1"}
        try:
            answer = self._connection.ask("POST", self._endpoint, body=body, headers=headers)
        except NotSentError as e:
            raise NotAppliedError(str(e)) from e
        except NoAnswerError as e:
            raise CatalogUnavailableError(str(e)) from e
        if answer.status == 200:
            return self._document(call, answer)
        raise self._typed_error(call, answer)

    def _document(self, call: str, answer: Answer) -> dict[str, Any]:
        """Raises CatalogUnavailableError for an answer that is not Glue's (a gateway's): a change may have happened."""
        try:
            document = msgspec.json.decode(answer.body or b"{}")
        except msgspec.DecodeError:
            document = None
        if not isinstance(document, dict):
            raise CatalogUnavailableError(f"catalog {self._catalog}: the answer to {call} is not a JSON object: it is not Glue's")
        return document

    def _typed_error(self, call: str, answer: Answer) -> Exception:
        kind = _error_name(answer)
        message = f"catalog {self._catalog}: Glue answers {call} with {answer.status} {kind}: {answer.text or 'no message'}"
        if kind == _OVERTAKEN:
            return VersionConflict(message) if call == "UpdateTable" else NotAppliedError(message)
        if (known := _ANSWERS.get(kind)) is not None:
            return known(message)
        if kind in _NOT_BEGUN or answer.status == _TOO_MANY:
            return NotAppliedError(message)
        if answer.is_refusal and answer.status < _SERVER_ERROR and _IN_THE_MIDDLE.search(kind) is None:
            return RefusedError(f"{message}; nothing was changed")
        return CatalogUnavailableError(message)


def _error_name(answer: Answer) -> str:
    """The name of an error: ``__type`` may begin with a namespace and a ``#``."""
    try:
        document = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        document = {}
    named = document.get("__type") if isinstance(document, dict) else None
    return str(named or answer.headers.get("x-amzn-errortype", "")).rpartition("#")[2].partition(":")[0]
