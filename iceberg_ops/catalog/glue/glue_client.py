"""Calls to AWS Glue that say whether a change may have had an effect.

Glue's interface is one signed POST of JSON for each call, so the connection and the signature of the REST catalogs serve here.
Reads are repeated. Changes are not: the answer to a repeated change would be about the first try.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.catalog.rest.answers import Answer, NoAnswerError, NotSentError
from iceberg_ops.catalog.rest.connection import Connection, new_client
from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.catalog.rest.sigv4 import AwsKeys, SigV4
from iceberg_ops.errors import CatalogUnavailableError, OptionError

_TIMEOUTS_S = (10.0, 60.0)
"""For the connection, and for an answer."""
_READS = 5
_THROTTLED = frozenset({"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"})
_SERVER_ERROR = 500


class NoSuchEntity(Exception):
    """Glue has no such table or database."""


class EntityExists(Exception):
    """Glue has a table or database of the name."""


class Overtaken(Exception):
    """Another change of the table came first: its version is another one."""


_ANSWERS: dict[str, type[Exception]] = {
    "EntityNotFoundException": NoSuchEntity,
    "AlreadyExistsException": EntityExists,
    "ConcurrentModificationException": Overtaken,
}


class Glue:
    """Glue as ``properties`` reach it: ``glue.region``, ``glue.access-key-id``, ``glue.secret-access-key``, ``glue.session-token``,
    else the same of ``client.*``, else of the environment. ``glue.endpoint`` is another address than AWS's, ``glue.id`` the
    catalog's id. Safe to use from several threads. Raises OptionError."""

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
        given = {key.replace("glue.", "client.", 1): value for key, value in properties.items() if key.startswith("glue.")}
        found = {**properties, **given}
        region = found.get("client.region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        if not region:
            raise OptionError(f"catalog {catalog} (type glue) needs a region: set glue.region, client.region or AWS_REGION")
        self._endpoint = properties.get("glue.endpoint", f"https://glue.{region}.amazonaws.com").rstrip("/") + "/"
        try:
            keys = AwsKeys.of(found, environment)
        except OptionError:
            raise OptionError(
                f"catalog {catalog} (type glue) needs keys: set glue.access-key-id and glue.secret-access-key, or "
                f"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment; profiles and instance roles are not looked up"
            ) from None
        secrets = KnownSecrets(found)
        secrets.add("client.secret-access-key", keys.secret)
        secrets.add("client.session-token", keys.session_token or "")
        signature = SigV4(keys, service="glue", region=region)
        self._connection = Connection(catalog, new_client({}, _TIMEOUTS_S), secrets, authorization=signature, sleep=sleep)

    def read(self, call: str, **arguments: Any) -> Any:
        """Raises NoSuchEntity, CatalogUnavailableError, and RefusedError where Glue refuses for a reason that lasts."""
        for attempt in range(1, _READS):
            try:
                return self._asked(call, arguments)
            except CatalogUnavailableError:
                self._sleep(0.1 * 2**attempt)
        return self._asked(call, arguments)

    def pages(self, call: str, key: str, **arguments: Any) -> Iterator[Any]:
        """Every element of a list that comes in pages. Raises what ``read`` raises."""
        token: dict[str, str] = {}
        while True:
            found = self.read(call, **arguments, **token)
            yield from found.get(key) or ()
            if not (following := found.get("NextToken")):
                return
            token = {"NextToken": following}

    def change(self, call: str, **arguments: Any) -> None:
        """Raises NotAppliedError, RefusedError, NoSuchEntity, EntityExists and Overtaken where nothing was changed, and
        CatalogUnavailableError where the change may have happened."""
        self._asked(call, arguments)

    def _asked(self, call: str, arguments: Mapping[str, Any]) -> Any:
        body = {**arguments, "CatalogId": self._id} if self._id else dict(arguments)
        headers = {"X-Amz-Target": f"AWSGlue.{call}", "Content-Type": "application/x-amz-json-1.1"}
        try:
            answer = self._connection.ask("POST", self._endpoint, body=body, headers=headers)
        except NotSentError as e:
            raise NotAppliedError(str(e)) from e
        except NoAnswerError as e:
            raise CatalogUnavailableError(str(e)) from e
        if answer.status == 200:
            return msgspec.json.decode(answer.body) if answer.body else {}
        raise self._error_of(call, answer)

    def _error_of(self, call: str, answer: Answer) -> Exception:
        kind, text = _kind_and_text(answer)
        message = f"catalog {self._catalog}: Glue answers {call} with {answer.status} {kind}: {text}"
        if (known := _ANSWERS.get(kind)) is not None:
            return known(message)
        if kind in _THROTTLED:
            return NotAppliedError(message)
        return (
            CatalogUnavailableError(message) if answer.status >= _SERVER_ERROR else RefusedError(f"{message}; nothing was changed")
        )


def _kind_and_text(answer: Answer) -> tuple[str, str]:
    """Of an error: ``__type`` may begin with a namespace and a ``#``."""
    try:
        found = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        found = {}
    if not isinstance(found, dict):
        found = {}
    kind = str(found.get("__type") or answer.headers.get("x-amzn-errortype", "")).rpartition("#")[2].partition(":")[0]
    return kind, " ".join(str(found.get("message") or found.get("Message") or "no message").split())
