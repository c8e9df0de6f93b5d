"""Snapshots as another engine would commit them: with its own entries in their summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from iceberg_ops.spec.updates import AddSnapshot, TableUpdate


@contextmanager
def with_summary(catalog: Any, summary: Mapping[str, str]) -> Iterator[None]:
    """Within, every snapshot that is committed gets these entries in its summary."""
    commit_table = catalog.commit_table

    def foreign(table: Any, requirements: Any, updates: Sequence[TableUpdate]) -> Any:
        changed = [
            replace(u, snapshot=replace(u.snapshot, summary={**u.snapshot.summary, **summary})) if isinstance(u, AddSnapshot) else u
            for u in updates
        ]
        return commit_table(table, requirements, changed)

    catalog.commit_table = foreign
    try:
        yield
    finally:
        catalog.commit_table = commit_table
