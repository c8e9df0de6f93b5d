"""Requests a change, and classifies its answer: made, refused, or unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from iceberg_ops.catalog.rest.answers import Answer, NoAnswerError, refusal
from iceberg_ops.catalog.rest.connection import Connection
from iceberg_ops.errors import CommitFailedError, CommitStateUnknownError, IcebergOpsError


class Changes:
    """``headers`` are sent with every change."""

    def __init__(self, catalog: str, connection: Connection, headers: Mapping[str, str]) -> None:
        self._catalog, self._connection, self._headers = catalog, connection, headers

    def made(
        self,
        method: str,
        address: str,
        body: Any,
        what: str,
        conflict: Callable[[Answer], IcebergOpsError],
        missing: IcebergOpsError,
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer of a change that was made. Raises NoAnswerError if the outcome is unknown; otherwise the error of the refusal:
        ``conflict`` for a 409, ``missing`` for a 404."""
        answer = self._connection.ask(method, address, params=params, body=body, headers=self._headers)
        if answer.is_success:
            return answer
        error = conflict(answer) if answer.status == 409 else refusal(self._catalog, what, answer, missing)
        if not answer.is_refusal:
            raise NoAnswerError(str(error))
        raise error


def overtaken(what: str, answer: Answer) -> CommitFailedError:
    """The error of a commit that the server refuses because of another commit."""
    return CommitFailedError(f"{what}: the server refuses the commit ({answer})")


@contextmanager
def unknown_without_answer(what: str, shown_by: str) -> Iterator[None]:
    """For a change whose outcome cannot be checked afterwards."""
    try:
        yield
    except NoAnswerError as e:
        raise CommitStateUnknownError(f"{what} got no answer: {e}; {shown_by}") from e
