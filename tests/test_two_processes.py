"""The slowest files are distributed first, and files that share a program stay together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.two_processes import OF_CATALOGS, SECONDS, Shares, longest_first, share

TESTS = Path(__file__).parent


class Item:
    """A test, as far as sorting looks at it."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid, self.marks = nodeid, marks

    def get_closest_marker(self, name: str) -> Any:
        return name if name in self.marks else None


def test_shares_come_by_what_they_take_and_stay_whole() -> None:
    java = [Item(f"tests/interop/test_{n}.py::test_it", "java") for n in "ab"]
    plain, slow, spark = Item("tests/a.py::test_it"), Item("tests/b.py::test_it", "slow"), Item("tests/c.py::test_it", "spark")
    last = Item("tests/a.py::test_again")
    items: Any = [plain, java[0], slow, spark, java[1], last]
    longest_first(items)
    assert items == [*java, slow, spark, plain, last]
    assert share("tests/interop/test_a.py") == share("tests/interop/test_b.py") != share("tests/a.py")
    assert len({share(f"tests/{file}.py") for file in OF_CATALOGS}) == 1


def test_what_is_known_to_take_long_is_there() -> None:
    assert [file for file in (*SECONDS, *OF_CATALOGS) if not (TESTS / f"{file}.py").is_file()] == []
    assert min(SECONDS.values()) >= 15


def test_a_process_is_given_a_share_by_its_tests() -> None:
    scheduler = Shares.__new__(Shares)
    assert scheduler._split_scope("tests/interop/test_a.py::test_it[x::y]") == share("tests/interop/test_a.py")
    assert scheduler._split_scope("tests/a.py::test_it[x::y]") == "tests/a.py"
