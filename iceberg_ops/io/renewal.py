"""Temporary credentials for files, which their issuer renews on request.

A FileIO whose credentials are renewed has properties that are current when they are read; if they are sent to another process, they
are a copy of that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

Renewal = Callable[[], Mapping[str, str]]
"""The properties that give access now; they are renewed before they expire. Safe to use from several threads. Raises TerminalError,
CatalogUnavailableError, NoSuchTableError."""


@runtime_checkable
class RenewsCredentials(Protocol):
    """A FileIO that can use credentials which expire."""

    def renew_with(self, renewal: Renewal) -> None:
        """Before the first file is touched: ``renewal`` gives the properties from now on."""
        ...


class CurrentProperties(Mapping[str, str]):
    """The properties of ``renewal`` with ``more``; a copy that is pickled is a plain mapping."""

    def __init__(self, renewal: Renewal, more: Mapping[str, str]) -> None:
        self._renewal, self._more = renewal, more

    def _now(self) -> dict[str, str]:
        return {**self._renewal(), **self._more}

    def __getitem__(self, name: str) -> str:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._now(),)
