"""Catalogs that misbehave as real ones do. Each wraps a catalog and must pass the same conformance suite, or the committer must
handle its behaviour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iceberg_ops.errors import CatalogUnavailableError, CommitFailedError, CommitStateUnknownError
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table.table import Table


class Wrapped:
    """Passes everything on."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class FailsNTimes(Wrapped):
    """The first ``n`` commits are refused, or the catalog does not answer; nothing is changed by them."""

    def __init__(self, inner: Any, n: int, error: type[Exception] = CommitFailedError) -> None:
        super().__init__(inner)
        self.left = n
        self.error = error

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        if self.left > 0:
            self.left -= 1
            raise self.error("Injected failure")
        return self.inner.commit_table(table, requirements, updates)  # type: ignore[no-any-return]


class LosesTheAnswer(Wrapped):
    """The first ``n`` commits happen (or with ``happens`` False do not), and their answers are lost."""

    def __init__(self, inner: Any, n: int = 1, *, happens: bool = True) -> None:
        super().__init__(inner)
        self.left = n
        self.happens = happens

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        if self.left <= 0:
            return self.inner.commit_table(table, requirements, updates)  # type: ignore[no-any-return]
        self.left -= 1
        if self.happens:
            self.inner.commit_table(table, requirements, updates)
        raise CommitStateUnknownError("Injected: no answer")


class ReadsStale(Wrapped):
    """Every second load gives the state before the last one."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.loads = 0
        self.seen: dict[Any, Table] = {}

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        self.loads += 1
        fresh = self.inner.load_table(identifier)
        stale = self.seen.get(identifier, fresh)
        self.seen[identifier] = fresh
        return stale if self.loads % 2 else fresh


class Meddles(Wrapped):
    """Before each of the next commits someone else gets a turn: ``others`` are called one by one."""

    def __init__(self, inner: Any, *others: Callable[[], object]) -> None:
        super().__init__(inner)
        self.others = list(others)

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        if self.others:
            self.others.pop(0)()
        return self.inner.commit_table(table, requirements, updates)  # type: ignore[no-any-return]


class IsSlow(Wrapped):
    """Every call takes so long that ``meanwhile`` (another, fast writer) gets a turn before it and another before its answer, for
    the next ``n`` calls of each kind."""

    def __init__(self, inner: Any, meanwhile: Callable[[], object], n: int = 3) -> None:
        super().__init__(inner)
        self.meanwhile = meanwhile
        self.left = {"load": n, "commit": n}

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        return self._slowly("load", lambda: self.inner.load_table(identifier))

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        return self._slowly("commit", lambda: self.inner.commit_table(table, requirements, updates))

    def _slowly(self, kind: str, call: Callable[[], Table]) -> Table:
        if self.left[kind] <= 0:
            return call()
        self.left[kind] -= 1
        self.meanwhile()
        found = call()
        self.meanwhile()
        return found


class IsDown(Wrapped):
    """Answers nothing for the next ``n`` calls of each kind."""

    def __init__(self, inner: Any, n: int) -> None:
        super().__init__(inner)
        self.left = n

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        if self.left > 0:
            self.left -= 1
            raise CatalogUnavailableError("Injected: down")
        return self.inner.load_table(identifier)  # type: ignore[no-any-return]
