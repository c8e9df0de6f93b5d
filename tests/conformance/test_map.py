"""docs/conformance.md is complete and correct: every requirement once, every named test exists, every refusal is in the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.fixture_paths import FIXTURES

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
REQUIREMENTS = 421
"""How many ids there are, for where their list is not at hand."""
NOT_SHOWN = 0
"""Rows that may say "not shown yet": this number only ever falls."""

ID = r"[A-Z]+(?:-[A-Z]+)?-\d\d"
ROW = re.compile(rf"^\| ({ID}) \| (.+?) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
QUOTED = re.compile(r"“([^”]+)”")

DOCUMENT = (ROOT / "docs" / "conformance.md").read_text("utf-8")
MAP, REFUSALS, FLAWS = re.split(r"^## What .+$", DOCUMENT, flags=re.MULTILINE)
ROWS = {found[1]: (found[2], found[3]) for found in ROW.finditer(MAP)}


def reference_ids() -> list[str] | None:
    """The ids of the reference, in its order; None where it is not beside the recorded tables."""
    path = FIXTURES.parent / "reference" / "spec-requirements.md" if FIXTURES else None
    if path is None or not path.is_file():
        return None
    return re.findall(rf"^(?:- |\| )({ID})\b", path.read_text("utf-8"), flags=re.MULTILINE)


@cache
def functions(file: str) -> frozenset[str]:
    """The tests of a file, read without importing it."""
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    return frozenset(n.name for n in ast.parse(path.read_text("utf-8")).body if isinstance(n, ast.FunctionDef))


@cache
def sources() -> tuple[str, ...]:
    """The package's files, adjacent string literals joined, so that a message reads as it is raised."""
    texts = (p.read_text("utf-8") for p in sorted((ROOT / "iceberg_ops").rglob("*.py")))
    return tuple(re.sub(r'"\s*\n\s*f?"', "", text) for text in texts)


def is_raised(message: str) -> bool:
    """Some source file holds the pieces of the message, in order; … stands for a value."""
    pieces = [re.escape(piece.strip(" ")) for piece in message.split("…")]
    pattern = re.compile("[^\n]*".join(pieces))
    return any(pattern.search(text) for text in sources())


def test_every_requirement_is_in_the_map_once() -> None:
    listed = [found[1] for found in ROW.finditer(MAP)]
    assert len(listed) == len(set(listed)) == REQUIREMENTS
    wanted = reference_ids()
    assert wanted is None or (set(wanted) - set(listed), set(listed) - set(wanted), len(wanted)) == (set(), set(), REQUIREMENTS)


@pytest.mark.parametrize("requirement", ROWS)
def test_a_requirement_is_shown_by_tests_that_exist(requirement: str) -> None:
    what, shown = ROWS[requirement]
    assert what.strip()
    if shown == "not shown yet":
        return
    named = NAMED.findall(shown)
    assert named, "no test is named"
    assert [f"{file}::{name}" for file, name in named if name not in functions(file)] == []
    rest = NAMED.sub("", shown)
    assert re.fullmatch(r"(refused “[^”]+”:)?[, ]*", rest), f"left over: {rest}"
    assert all(is_raised(message) for message in QUOTED.findall(shown)), "no such message"


def test_no_more_than_so_many_requirements_are_not_shown() -> None:
    assert sum(shown == "not shown yet" for _, shown in ROWS.values()) == NOT_SHOWN


def test_every_refusal_is_listed_with_its_reason_and_raised() -> None:
    listed = set(QUOTED.findall(REFUSALS))
    assert {m for _, shown in ROWS.values() for m in QUOTED.findall(shown)} <= listed
    assert [message for message in listed if not is_raised(message)] == []


@pytest.mark.parametrize("part", ["refusals", "flaws"])
def test_the_other_parts_name_tests_that_exist(part: str) -> None:
    rows = [
        line for line in (REFUSALS if part == "refusals" else FLAWS).splitlines() if line.startswith("| ") and "|---" not in line
    ]
    for row in rows:
        named = NAMED.findall(row)
        assert named or "shown by" in row, row
        assert [f"{file}::{name}" for file, name in named if name not in functions(file)] == []
    if part == "flaws":
        numbers = re.findall(r"^\| (\d+) \|", FLAWS, flags=re.MULTILINE)
        assert numbers == [str(n) for n in range(1, len(rows))], "one line is the head of the table"


def test_ids_that_tests_name_are_requirements() -> None:
    """A docstring that names an id names one there is."""
    areas = {name.rpartition("-")[0] for name in ROWS}
    unknown = set()
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.FunctionDef) and (text := ast.get_docstring(node)):
                found = re.findall(rf"\b{ID}\b", text)
                unknown |= {(path.name, name) for name in found if name.rpartition("-")[0] in areas and name not in ROWS}
    assert unknown == set()
