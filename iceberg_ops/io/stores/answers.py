"""Classifies errors of the client: a file is missing, the store may answer later, or the call cannot succeed as it is.

The client has already retried where that may help (5xx, throttling, lost connections). Its texts are pages long, and contain
addresses: messages here consist of the store's own code and one line.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError, InvalidPathError, NotSupportedError, PermissionDeniedError, UnauthenticatedError

from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError, TerminalError, UnsupportedError

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]+)</Code>")
_TEXT = re.compile(r"<(Message|Details)>([^<]{1,300})")
_ERROR_OF_JSON = re.compile(r'"message": *"([^"]{1,300})"')
_ADDRESS = re.compile(r"(https?://[^\s?]*)\?\S*")
"""A query may hold a signature."""
_NO_CONTAINER = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "AccountNotFound"})
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired", "AuthenticationExpired"})
_CLOCK = frozenset({"RequestTimeTooSkewed", "RequestInTheFuture"})
_PASSING = frozenset({408, 425, 429})
_NO_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|metadata\.google\.internal|MissingAccountKey|[Mm]issing.{0,20}credential", re.DOTALL
)
_REGION = re.compile(r"AuthorizationHeaderMalformed|IllegalLocationConstraint|redirect without LOCATION|PermanentRedirect")


@contextmanager
def named_errors(location: str) -> Iterator[None]:
    """Within, errors of the client are raised as FileNotFoundError, FileExistsError is left to the caller (``AlreadyExistsError``),
    and all others become CatalogUnavailableError or TerminalError, with the location."""
    try:
        yield
    except FileNotFoundError as e:
        if (gone := missing_bucket(location, str(e))) is not None:
            raise gone from None
        raise FileNotFoundError(errno.ENOENT, "no such file", location) from None
    except (BaseError, OSError, ValueError, NotImplementedError) as e:
        raise store_error(e, location) from None
    except BaseException as e:
        if type(e).__name__ != "PanicException":
            raise
        raise TerminalError(f"{location}: the client of object stores failed: {_first_line(str(e))}") from None


def missing_bucket(location: str, text: str) -> IcebergOpsError | None:
    """The error for a store that reports that the whole bucket is missing."""
    code = _CODE.search(text)
    if (code is not None and code[1] in _NO_CONTAINER) or "specified bucket does not exist" in text:
        return TerminalError(f"{location}: there is no such bucket or container: create it, or correct the location")
    return None


def store_error(error: Exception, location: str) -> IcebergOpsError:
    """The typed error for an error of the client that is not about a missing or existing file."""
    text = str(error)
    if (gone := missing_bucket(location, text)) is not None:
        return gone
    if isinstance(error, InvalidPathError):
        return UnsupportedError(
            f"not supported: listing {location}, because an object below it has a key that the client of object stores cannot name "
            f"({_first_line(text)}). Move or delete that object by another tool"
        )
    status = int(m[1]) if (m := _STATUS.search(text)) else None
    code = m[1] if (m := _CODE.search(text)) else None
    if isinstance(error, NotImplementedError | NotSupportedError) or code == "NotImplemented":
        return UnsupportedError(f"not supported: {location}, because the store does not support the request ({server_text(text)})")
    if code in _EXPIRED or "ExpiredToken" in text:
        return TerminalError(f"{location}: the credentials have expired ({server_text(text)}): renew them, then run the job again")
    if status is None and isinstance(error, UnauthenticatedError | PermissionDeniedError):
        why = _first_line(text).rpartition("Error: ")[2]
        return TerminalError(f"{location}: the credentials cannot be used ({why}): correct them, then run the job again")
    if _NO_CREDENTIALS.search(text):
        return TerminalError(
            f"{location}: no credentials were found: set them in the catalog's properties, in the environment or in a profile "
            f"({_first_line(text)})"
        )
    if code in _CLOCK:
        return TerminalError(
            f"{location}: the store's clock and this machine's differ too much ({server_text(text)}): set the clock"
        )
    if _REGION.search(text):
        return TerminalError(f"{location}: the bucket is in another region ({server_text(text)}): set client.region")
    if "builder error" in text:
        return TerminalError(f"{location}: the address of the store cannot be used: correct it")
    if status in (401, 403):
        return TerminalError(
            f"{location}: the store refuses access ({server_text(text)}): correct the credentials, or permit what the job needs"
        )
    if status is not None and 400 <= status < 500 and status not in _PASSING:
        return TerminalError(f"{location}: the store refuses the request ({server_text(text)})")
    return CatalogUnavailableError(f"{location}: the store gives no answer ({server_text(text)})")


def has_status(error: Exception) -> bool:
    """Whether the store has answered; otherwise the connection was lost, or never established."""
    return _STATUS.search(str(error)) is not None


def is_cut(error: Exception) -> bool:
    """Whether an answer was cut off in the middle."""
    return not has_status(error) and "response body" in str(error)


def server_text(text: str) -> str:
    """The message of the store or the network: its status and code, and one line."""
    status, code = _STATUS.search(text), _CODE.search(text)
    line = m[2] if (m := _TEXT.search(text)) else m[1] if (m := _ERROR_OF_JSON.search(text)) else None
    parts = [f"HTTP {status[1]}" if status else None, code[1] if code else None, line]
    return _ADDRESS.sub(r"\1", " ".join(part for part in parts if part)) if any(parts) else _first_line(text)


def _first_line(text: str) -> str:
    """The first line, without the requested address and a library's own debug text."""
    line = text.split("\n", 1)[0].rsplit(" - ", maxsplit=1)[-1]
    return _ADDRESS.sub(r"\1", line[:300]).strip() or "no reason given"
