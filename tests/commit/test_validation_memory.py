"""Validation keeps only those files of others' commits that may affect the operation's own files, however long the window is.

The test counts the files alive at the same time during validation: files that were checked are released soon.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from iceberg_ops.commit.protocol.history import Change
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus, ManifestEntry
from iceberg_ops.spec.snapshots import Snapshot
from tests.builders import data_file, deletion_vector, equality_deletes, make_catalog, make_table, position_deletes

FOREIGN = 200
OWN = tuple(data_file(f"memory://own-{n}", partition=("a",)) for n in range(3))


class Counted(DataFile):
    """A file that can be counted while it is alive."""

    __slots__ = ("__weakref__",)


class Window:
    """A history of FOREIGN commits, each of one file, that counts how many of its files are alive."""

    def __init__(self, file_of: Callable[[int], DataFile]) -> None:
        self._logged_file = file_of
        self._alive: weakref.WeakSet[Counted] = weakref.WeakSet()
        self.most = 0
        self.given = 0

    def added_deletes(self, operations: frozenset[str], may_match: Any) -> Iterator[Change]:
        for number in range(FOREIGN):
            yield self._change(number)

    added_data = removed_data = added_deletes

    def effective_operation(self, snapshot: Snapshot) -> str:
        return snapshot.operation or ""

    def _change(self, number: int) -> Change:
        found = self._logged_file(number)
        file = Counted(**{f.name: getattr(found, f.name) for f in fields(DataFile)})
        self._alive.add(file)
        self.most, self.given = max(self.most, len(self._alive)), self.given + 1
        snapshot = Snapshot(snapshot_id=number, sequence_number=number + 2, timestamp_ms=number, summary={"operation": "overwrite"})
        return snapshot, ManifestEntry(EntryStatus.ADDED, number, number + 2, number + 2, file)


FOREIGN_FILES: dict[str, tuple[int, Callable[[int], DataFile], int]] = {
    "position deletes of other partitions": (2, lambda n: position_deletes(f"memory://d{n}", partition=(f"p{n}",)), 0),
    "equality deletes of other partitions": (2, lambda n: equality_deletes(f"memory://d{n}", partition=(f"p{n}",)), 0),
    "position deletes of other files of the partition": (
        2, lambda n: position_deletes(f"memory://d{n}", f"memory://other-{n}", partition=("a",)), 0,
    ),
    "vectors of other files of the partition": (
        3, lambda n: deletion_vector(f"memory://d{n}", f"memory://other-{n}", partition=("a",)), 0,
    ),
    "vectors of the own files, again and again": (
        3, lambda n: deletion_vector(f"memory://d{n}", f"memory://own-{n % 3}", partition=("a",)), 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_a_rewrite_keeps_what_concerns_its_files_and_not_the_window(name: str) -> None:
    version, file_of, kept = FOREIGN_FILES[name]
    table = make_table(make_catalog(), version=version, partitioned=True)
    window = Window(file_of)
    found = validation.new_deletes_for(table, window, OWN)  # type: ignore[arg-type]
    assert len(found) == kept
    assert window.given == FOREIGN
    assert window.most <= kept + 3, "beside what is kept: the one at hand, and the one before it"


@pytest.mark.parametrize(
    "check", ["no_unseen_rows_in_partitions", "no_vanished_rows_in_partitions", "no_lost_update_in_partitions"]
)
def test_a_check_of_partitions_keeps_nothing(check: str) -> None:
    table = make_table(make_catalog(), version=2, partitioned=True)
    window = Window(lambda n: data_file(f"memory://f{n}", partition=(f"p{n}",)))
    getattr(validation, check)(table, window, frozenset({(0, ("a",))}))
    assert (window.given, window.most <= 2) == (FOREIGN, True)


def test_deletes_that_name_the_own_file_are_still_found() -> None:
    table = make_table(make_catalog(), version=2, partitioned=True)
    window = Window(lambda n: position_deletes(f"memory://d{n}", f"memory://own-{n % 2}", partition=("a",)))
    with pytest.raises(ValidationError) as refused:
        validation.no_resurrected_rows(table, window, OWN, ignore_equality_deletes=True)  # type: ignore[arg-type]
    assert refused.value.file_paths == ("memory://own-0", "memory://own-1")
