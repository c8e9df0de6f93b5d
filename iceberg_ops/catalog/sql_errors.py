"""Decides from an error of a SQL database whether the statement had an effect.

Each statement of this catalog is a transaction. A server that answers a statement with an error has rolled it back, and gives the
reason as SQLSTATE; sqlite gives a result code. The statement may have had an effect only if the error says that the connection or
the server is lost, or that the server does not know the result.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, ProgrammingError

from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError

_SQLITE_PRIMARY = 0xFF
"""The bits of sqlite's error code that hold the kind; the others hold details."""
_SQLITE_NOT_APPLIED = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    }
)
"""Temporary errors, and errors that end when space is freed or a right is granted."""
_IN_DOUBT = ("08", "40003", "57P", "58", "XX", "F0")
"""Beginnings of SQLSTATEs: connection lost, completion unknown, the server was shut down, its system or the server itself
failed."""
_LASTING = ("0A", "22", "26", "28", "34", "3D", "3F", "42", "44")
"""Errors caused by the statement, its values, or the role's rights: a retry does not help."""


def sql_error(catalog: str, e: DBAPIError) -> IcebergOpsError:
    """NotAppliedError or RefusedError if the statement certainly had no effect, CatalogUnavailableError if this is not known."""
    message = f"catalog {catalog}: {' '.join(str(e.orig or e).split())}"
    if getattr(e.orig, "sqlite_errorcode", 0) & _SQLITE_PRIMARY in _SQLITE_NOT_APPLIED:
        return NotAppliedError(message)
    state = _sqlstate(e.orig)
    if e.connection_invalidated or (state is not None and state.startswith(_IN_DOUBT)):
        return CatalogUnavailableError(message)
    if state.startswith(_LASTING) if state is not None else isinstance(e, ProgrammingError):
        return RefusedError(f"{message}; nothing was changed")
    return CatalogUnavailableError(message) if state is None else NotAppliedError(message)


def _sqlstate(error: BaseException | None) -> str | None:
    """The SQLSTATE as psycopg, psycopg2 and pg8000 give it. pg8000 raises ProgrammingError for nearly every server error, with the
    server's fields as its argument."""
    fields = error.args[0] if error is not None and error.args else None
    state = (
        getattr(error, "sqlstate", None)
        or getattr(error, "pgcode", None)
        or (fields.get("C") if isinstance(fields, dict) else None)
    )
    return None if state is None else str(state)
