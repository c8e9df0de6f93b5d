"""Only a limited number of decompressed bytes stays in memory, the most recent ones."""

from __future__ import annotations

import gc

from iceberg_ops.serde.manifests.open_bytes import OpenBytes


class Owner:
    def __init__(self) -> None:
        self.is_open = True

    def drop(self) -> None:
        self.is_open = False


def test_the_oldest_are_dropped_once_the_budget_is_used_up() -> None:
    kept, owners = OpenBytes(budget_bytes=100), [Owner() for _ in range(4)]
    for owner, size in zip(owners, (40, 40, 40, 60), strict=True):
        kept.add(owner, size)
    assert [o.is_open for o in owners] == [False, False, True, True]


def test_no_more_owners_than_allowed_stay_and_too_large_ones_never_do() -> None:
    kept, owners = OpenBytes(budget_bytes=100, most_owners=2), [Owner() for _ in range(4)]
    for owner, size in zip(owners, (1, 1, 1, 101), strict=True):
        kept.add(owner, size)
    assert [o.is_open for o in owners] == [False] * 4


def test_an_owner_that_is_gone_is_not_kept_alive() -> None:
    kept, owner = OpenBytes(budget_bytes=100), Owner()
    kept.add(owner, 90)
    del owner
    gc.collect()
    other = Owner()
    kept.add(other, 90)
    assert other.is_open
