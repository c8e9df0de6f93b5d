"""A thrift client of the Hive Metastore that reports for each call whether it may have had an effect.

The stubs are those of the package ``pymetastore``, generated from Hive's own interface definition. One call at a time uses a
connection; free connections wait in a pool. A call without an answer closes its connection.
"""

from __future__ import annotations

import getpass
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pymetastore.hive_metastore import ThriftHiveMetastore
from pymetastore.hive_metastore.ttypes import (
    AlreadyExistsException,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
    NoSuchLockException,
    NoSuchObjectException,
    UnknownDBException,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.errors import CatalogUnavailableError, OptionError

log = logging.getLogger(__name__)

DEFAULT_PORT = 9083
TIMEOUT_MS = 60_000
"""The limit for connecting and for each answer. It is shorter than the time after which the metastore removes a lock."""


class FailedError(CatalogUnavailableError):
    """The metastore answers that the call failed, and has ended: it may have had an effect, but will have none any more."""


class MetastoreRefusal(Exception):
    """The metastore refuses a call before it changes anything. The caller of ``Metastore.call`` handles it."""


class NoSuchObject(MetastoreRefusal):
    """There is no such table or database."""


class ObjectExists(MetastoreRefusal):
    """A table or database with the name exists."""


class InvalidObject(MetastoreRefusal):
    """A name, a type, or the change itself is not allowed."""


class NoSuchLock(MetastoreRefusal):
    """The lock was released, or it expired."""


_ANSWERS: dict[type[TException], type[MetastoreRefusal]] = {
    AlreadyExistsException: ObjectExists,
    InvalidObjectException: InvalidObject,
    InvalidOperationException: InvalidObject,
    NoSuchLockException: NoSuchLock,
    NoSuchObjectException: NoSuchObject,
    UnknownDBException: NoSuchObject,
}
"""The stubs' exceptions are immutable; even a context manager that passes them on cannot change them."""


@dataclass(slots=True)
class Metastore:
    """The metastore at ``uri``: ``thrift://host:port``, several separated by commas. ``ugi``: user and groups
    (``user:group1,group2``) for a metastore that asks for them. Safe to use from several threads. Raises OptionError."""

    catalog: str
    uri: str
    ugi: str = ""
    timeout_ms: int = TIMEOUT_MS
    _addresses: list[tuple[str, int]] = field(init=False)
    _free: list[_Connection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._addresses = [_address(text) for text in self.uri.split(",") if text.strip()]
        if not self._addresses:
            raise OptionError("catalog property uri is empty: must be thrift://host:port")

    def call(self, do: Callable[[ThriftHiveMetastore.Client], Any]) -> Any:
        """The result of ``do`` with a client.

        Raises NotAppliedError if no metastore was reached, FailedError and CatalogUnavailableError if it is not known whether the
        change happened, RefusedError if the metastore does not know the call, and a ``MetastoreRefusal`` if the metastore refuses
        the call."""
        connection = self._opened()
        try:
            result = do(connection.client)
        except TException as e:
            if (answer := _ANSWERS.get(type(e))) is not None:
                self._free.append(connection)
                raise answer(_text(e)) from None
            if isinstance(e, MetaException):
                self._free.append(connection)
                raise FailedError(f"catalog {self.catalog}: {_text(e)}") from None
            connection.close()
            if not isinstance(e, TApplicationException):
                raise CatalogUnavailableError(f"catalog {self.catalog}: {_text(e)}") from None
            if e.type == TApplicationException.UNKNOWN_METHOD:
                raise RefusedError(f"catalog {self.catalog}: its Hive Metastore does not support a call: {_text(e)}") from None
            raise FailedError(f"catalog {self.catalog}: {_text(e)}") from None
        except OSError as e:
            connection.close()
            raise CatalogUnavailableError(f"catalog {self.catalog}: the Hive Metastore did not answer: {e}") from e
        except BaseException:
            connection.close()  # A later call must not read this call's answer.
            raise
        self._free.append(connection)
        return result

    def _opened(self) -> _Connection:
        while True:
            try:
                connection = self._free.pop()
            except IndexError:
                break
            if connection.is_alive():
                return connection
            connection.close()
        errors: list[str] = []
        for host, port in self._addresses:
            try:
                return _Connection.to(host, port, self.timeout_ms, self.ugi)
            except (TException, OSError) as e:
                errors.append(f"{host}:{port}: {_text(e)}")
        raise NotAppliedError(f"catalog {self.catalog}: no connection to its Hive Metastore ({'; '.join(errors)})")


@dataclass(frozen=True, slots=True)
class _Connection:
    transport: TBufferedTransport
    socket: TSocket
    client: ThriftHiveMetastore.Client
    process: int

    @classmethod
    def to(cls, host: str, port: int, timeout_ms: int, ugi: str) -> _Connection:
        socket = TSocket(host, port)
        socket.setTimeout(timeout_ms)
        transport = TBufferedTransport(socket)
        client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
        made = cls(transport, socket, client, os.getpid())
        try:
            transport.open()
            if ugi:
                user, _, groups = ugi.partition(":")
                client.set_ugi(user, groups.split(","))
        except BaseException:
            made.close()
            raise
        return made

    def is_alive(self) -> bool:
        """False if the metastore closed it while it was free, and in a forked process, because its parent uses it, too."""
        return self.process == os.getpid() and bool(self.socket.isOpen())

    def close(self) -> None:
        self.transport.close()


def user_name() -> str:
    """The user for the metastore's records. In a container the user may have a number only."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _address(text: str) -> tuple[str, int]:
    try:
        url = urlsplit(text.strip())
        if url.scheme == "thrift" and url.hostname:
            return url.hostname, url.port or DEFAULT_PORT
    except ValueError:
        pass  # The port is not a number: the same result.
    raise OptionError("catalog property uri of a Hive catalog must be thrift://host:port; several are separated by commas")


def _text(e: BaseException) -> str:
    """A thrift exception as one line: its message, else its name."""
    return " ".join(str(getattr(e, "message", None) or e or type(e).__name__).split())
