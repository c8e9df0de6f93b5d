"""Tables of one name that are created and dropped beside writers (``names_made_again``): no acknowledged commit is lost, and no
dropped table is back. With the old rules, seeds show the faults; if the package's storage steps change, ``python -m
tests.torture.test_names_made_again`` searches for others."""

from __future__ import annotations

import os
from itertools import count

import pytest

from iceberg_ops.errors import IcebergOpsError
from tests.torture import as_it_was as was
from tests.torture.as_it_was import Switch
from tests.torture.names_made_again import play
from tests.torture.switching import replaced

WORLDS = 2_000 if "ICEBERG_OPS_TORTURE" in os.environ else 100
FAULTS: dict[str, tuple[Switch, int, str]] = {
    "a leftover is deleted by name": (
        {
            "catalog.filesystem:FileSystemCatalog._check_no_leftover": was.deleted_by_name,
            "catalog.placed_version:PlacedVersion.is_left_to_the_drop": was.nothing,
        },
        32,
        "an acknowledged commit is lost",
    ),
    "a hint below a dropped table's versions is not believed": (
        {"catalog.versions:TableVersions.newest": was.believed_below_dropped_ones},
        4,
        "is served",
    ),
    "a uuid in another case is another table's": (
        {"catalog.versions:TableVersions.version_uuid": was.spelled_exactly},
        13,
        "a dropped table is back",
    ),
}
"""Name -> (the old rules, a seed that shows the fault, the message of the failure)."""


@pytest.mark.parametrize("first", range(0, WORLDS, 25))
def test_names_that_are_made_again_lose_nothing(first: int) -> None:
    for seed in range(first, first + 25):
        play(seed)


@pytest.mark.parametrize("name", FAULTS)
def test_with_its_rule_as_it_was_the_fault_of_a_name_made_again_is_found(name: str) -> None:
    switch, seed, says = FAULTS[name]
    play(seed)
    with replaced(switch), pytest.raises(AssertionError, match=says):
        play(seed)


def find(switch: Switch) -> int:
    """The first seed that shows it."""
    for seed in count():
        try:
            with replaced(switch):
                play(seed)
        except AssertionError:
            return seed
        except IcebergOpsError:
            continue  # The world could not be set up.
    raise AssertionError


if __name__ == "__main__":
    for fault, (rules, *_) in FAULTS.items():
        print(fault, find(rules))
