"""docs/conformance-commits.md is complete and correct: each behaviour once, in sequence; every test and scenario that it names
exists, and every scenario is named."""

from __future__ import annotations

import re

import pytest

from tests.commit.scenarios import SCENARIOS
from tests.conformance.test_map import NAMED, ROOT, TESTS, functions

DOCUMENT = (ROOT / "docs" / "conformance-commits.md").read_text("utf-8")
BEHAVIOURS = {
    "RD": 34, "OV": 21, "RW": 15, "RP": 10, "DF": 12, "RM": 7, "RS": 16, "SM": 10, "TX": 7, "AP": 11, "OC": 4
}  # fmt: skip
"""How many behaviours each group of Java's test classes names."""
ROWS = re.findall(r"^\| ([A-Z]{2})-(\d\d) \| (.+?) \| (.+) \|$", DOCUMENT, flags=re.MULTILINE)
SCENARIO = re.compile(r"scenario “([^”]+)”")
FILE = re.compile(r"`([\w/]+\.py)`")


def test_every_behaviour_is_in_the_map_once() -> None:
    wanted = [(group, f"{n:02}") for group, many in BEHAVIOURS.items() for n in range(1, many + 1)]
    assert [(group, number) for group, number, _, _ in ROWS] == wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_behaviour_is_held_by_what_exists(row: tuple[str, str, str, str]) -> None:
    shown = row[3]
    assert NAMED.search(shown) or SCENARIO.search(shown) or FILE.search(shown), "nothing is named"
    rest = FILE.sub("", SCENARIO.sub("", NAMED.sub("", shown)))
    assert re.fullmatch(r"[, ]*(\(all\))?", rest), f"left over: {rest}"


def test_everything_named_is_there() -> None:
    assert [f"{file}::{name}" for file, name in NAMED.findall(DOCUMENT) if name not in functions(file)] == []
    assert [file for file in FILE.findall(DOCUMENT) if not (TESTS / file.removeprefix("tests/")).is_file()] == []


def test_every_scenario_is_named() -> None:
    assert {s.name for s in SCENARIOS} - set(SCENARIO.findall(DOCUMENT)) == set()
    assert set(SCENARIO.findall(DOCUMENT)) - {s.name for s in SCENARIOS} == set()
