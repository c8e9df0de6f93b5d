"""Classifies a server's answer: done, certainly refused, or unknown.

A change is refused only if the server answers before it has changed anything: a status of 400 to 499 (except 408 and
499, which gateways send for a request that is still in work), 501, a redirect, and 503 with a ``Retry-After``, after which the
specification allows to repeat a change. Any other answer, and a missing answer, leaves the change in doubt. An error that names
``CommitStateUnknownException`` does so whatever its status.

A table counts as missing only if the server says so in the form of the specification: a gateway's own 404 is not a proof, and a
caller that believes a table is gone may delete its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import (
    BadInputError,
    CatalogUnavailableError,
    CorruptTableError,
    IcebergOpsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TerminalError,
    UnsupportedError,
)
from iceberg_ops.serde.json.json_objects import parse_json

_LONGEST_TEXT = 300
_MOST_READ = 1 << 16
_UNKNOWN_TYPE = "CommitStateUnknownException"
_IN_DOUBT = frozenset({408, 499})
_ABOUT_THE_SERVER = ("warehouse", "catalog", "project", "route", "endpoint", "prefix")
"""If the type of a 404 contains one of these, the missing object is neither a table nor a namespace."""


class NotSentError(CatalogUnavailableError):
    """The request certainly did not reach the server."""


class NoAnswerError(CatalogUnavailableError):
    """The request may have reached the server, and no answer shows its result."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``text`` and ``kind`` (the type) are those of an error, without secrets; ``kind`` is empty if the body is not an error of the
    specification. ``headers`` have lower-case names."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    text: str = ""
    kind: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_in_form(self) -> bool:
        """Whether a refusal is in the form of the specification."""
        return bool(self.kind)

    @property
    def is_refusal(self) -> bool:
        """Whether it is certain that nothing was changed."""
        if self.kind == _UNKNOWN_TYPE:
            return False
        if self.status == 503:
            return self.retry_after_s is not None
        return (300 <= self.status < 500 and self.status not in _IN_DOUBT) or self.status == 501

    @property
    def retry_after_s(self) -> float | None:
        """The seconds that the server asks to wait; None if it does not ask."""
        text = self.headers.get("retry-after", "").strip()
        if (seconds := parse_count(text)) is not None:
            return float(seconds)
        try:
            then = parsedate_to_datetime(text)
        except ValueError:
            return None
        return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds())

    def document(self, what: str) -> Any:
        """The JSON of a success. Raises NoAnswerError: a gateway may have answered."""
        try:
            return parse_json(self.body, f"the answer of the server to {what}")
        except CorruptTableError as e:
            raise NoAnswerError(str(e)) from None

    def __str__(self) -> str:
        return f"{self.status}{f' {self.kind}' if self.kind else ''}{f': {self.text}' if self.text else ''}"


def error_fields(body: bytes) -> tuple[str, str]:
    """Message and type of an error's body. The type is empty if the body is not in the form of the specification; the forms of
    OAuth and AWS, and plain text, still give a message."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body[:_MOST_READ].decode("utf-8", "replace"), ""
    if not isinstance(document, dict):
        return body[:_MOST_READ].decode("utf-8", "replace"), ""
    error = document.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or ""), str(error.get("type") or "an error without a type")
    if isinstance(error, str):
        return f"{error}: {document.get('error_description') or ''}".rstrip(": "), ""
    text = document.get("message") or document.get("Message")
    return text if isinstance(text, str) else body[:_MOST_READ].decode("utf-8", "replace"), ""


def shortened(text: str) -> str:
    """One line of a server's text. Secrets are hidden before it is cut: a part of a secret would not be recognized."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}…"


def refusal(catalog: str, what: str, answer: Answer, missing: IcebergOpsError | None = None) -> IcebergOpsError:
    """The error for an answer that is not a success and has no special meaning for ``what`` ("loading table ns.t"). ``missing``:
    the error for a 404, unless its type says otherwise."""
    message = f"catalog {catalog}: {what} was refused ({answer})"
    match answer.status:
        case 404 if answer.is_in_form:
            return _missing(message, answer, missing)
        case 404 | 408 | 410 | 429 | 499:
            return CatalogUnavailableError(message)
        case 400 | 422:
            return BadInputError(message)
        case 401 | 419:
            return TerminalError(f"{message}: the server rejects the client's credentials (token, credential, keys, header.*)")
        case 403:
            return TerminalError(f"{message}: the server does not permit this to the client's identity")
        case 405 | 406 | 501:
            return UnsupportedError(f"not supported by the server: {message}")
        case status if status >= 500:
            return CatalogUnavailableError(message)
        case status if 300 <= status < 400:
            return TerminalError(f"{message}: redirects are not followed; set the property uri to the catalog's own address")
    return TerminalError(message)


def _missing(message: str, answer: Answer, missing: IcebergOpsError | None) -> IcebergOpsError:
    kind = answer.kind.lower()
    if kind == "notfoundexception":
        return CorruptTableError(f"{message}: a file of the table is missing")
    if any(word in kind for word in _ABOUT_THE_SERVER):
        return TerminalError(f"{message}: check the properties uri, warehouse and prefix")
    if "namespace" in kind and not isinstance(missing, NoSuchNamespaceError):
        # A table of a namespace that is gone is gone, as in every catalog.
        return NoSuchTableError(message) if isinstance(missing, NoSuchTableError) else NoSuchNamespaceError(message)
    if missing is not None:
        return missing
    return NoSuchTableError(message)
