"""A table to which a second catalog also commits, and a table and its copy whose names are exchanged (``twins``): no file that one
of them needs is deleted by maintenance of the other. With the old rules, seeds show the faults; if the package's storage steps
change, ``python -m tests.torture.test_twins`` searches for others."""

from __future__ import annotations

import os
from itertools import count

import pytest

from tests.torture import as_it_was as was
from tests.torture.as_it_was import Switch
from tests.torture.switching import replaced
from tests.torture.twins import play

WORLDS = 2_000 if "ICEBERG_OPS_TORTURE" in os.environ else 50
FAULTS: dict[str, tuple[Switch, int, str]] = {
    "a second catalog is not looked for": (
        {
            "catalog.second_catalogs:forbid_second_catalog": was.nothing,
            "table.second_lines:KnownMetadataFiles.is_left_by": was.nothing,
        },
        19,
        "was not refused",
    ),
    "a second catalog is known by its versions": (
        {
            "catalog.second_catalogs:_late_files": was.none_of_them,
            "table.second_lines:KnownMetadataFiles._signs_in": was.only_later_files,
        },
        84,
        "was not refused",
    ),
    "the uuid tells tables apart": (
        {"table.same_table:difference": was.told_by_the_uuid},
        71,
        "which .* needs|are not in|and there",
    ),
}
"""Name -> (the old rules, a seed that shows the fault, the message of the failure)."""


@pytest.mark.parametrize("first", range(0, WORLDS, 25))
def test_a_table_and_its_twin_lose_nothing_to_each_other(first: int) -> None:
    for seed in range(first, first + 25):
        play(seed)


@pytest.mark.parametrize("name", FAULTS)
def test_with_its_rule_as_it_was_the_fault_of_twins_is_found(name: str) -> None:
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
    raise AssertionError


if __name__ == "__main__":
    for fault, (rules, *_) in FAULTS.items():
        print(fault, find(rules))
