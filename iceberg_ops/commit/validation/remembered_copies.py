"""Remembers the source of an expired copy, if another engine has copied that copy.

A picked snapshot names its source. This package also names the first source; other engines do not. When the copy in the middle
expires, the other engine's copy no longer leads to the first source, whose rows it has. So the expiry enters the expired copy into
the ledger, as a publication ``copy@<id of the expired copy>:<id of its source>``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from iceberg_ops.commit.protocol.ledger import PUBLICATION, entries_whose_name
from iceberg_ops.commit.protocol.run_keys import FIRST_SOURCE, SOURCE, snapshot_origins
from iceberg_ops.config.properties import LEDGER_PREFIX
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.table import Table

_COPY = f"{LEDGER_PREFIX}{PUBLICATION}copy@"


class Origins:
    """Snapshots of one table, and the ids of those that have the same change."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def of(self, snapshot: Snapshot) -> frozenset[str]:
        """The same as ``snapshot_origins``, plus the ledger's entries for expired ones. Raises CorruptTableError for a broken
        ledger file."""
        origins = set(snapshot_origins(self._table.metadata, snapshot))
        lost = self._lost(origins)
        while lost:
            more = {name for i in lost for name in self._remembered.get(i, ())} - origins
            origins |= more
            lost = self._lost(more)
        return frozenset(origins)

    def _lost(self, names: Collection[str]) -> set[str]:
        return {name for name in names if parse_count(name) not in self._table.metadata.snapshots_by_id}

    @cached_property
    def _remembered(self) -> Mapping[str, set[str]]:
        sources: dict[str, set[str]] = {}
        for name in entries_whose_name(self._table, lambda name: name.startswith(_COPY)):
            copy, _, source = name.removeprefix(_COPY).partition(":")
            sources.setdefault(copy, set()).add(source)
        return sources


def entries_of_copies(table: Table, gone: Collection[int]) -> dict[str, str]:
    """The ledger entries for copies that are about to be removed and whose copies by another engine stay."""
    metadata, origins = table.metadata, Origins(table)
    left = (s for s in metadata.snapshots if s.snapshot_id not in gone and FIRST_SOURCE not in s.summary)
    copied = {s.summary.get(SOURCE) for s in left}
    entries: dict[str, str] = {}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id in gone and (own_id := str(snapshot.snapshot_id)) in copied:
            for source in origins.of(snapshot) - {own_id}:
                entries[f"{_COPY}{own_id}:{source}"] = f"{own_id}@{snapshot.timestamp_ms}"
    return entries
