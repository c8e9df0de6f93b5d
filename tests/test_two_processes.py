"""The slowest files are distributed first, and files that share a program stay together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.two_processes import OF_SERVERS, SECONDS, SERVERS, Shares, longest_first, share

TESTS = Path(__file__).parent
OF_A_SERVER = re.compile(
    r"[( \"](glue_endpoint|hive_metastore|hive_on_postgresql|later_hive|nessie_server|object_store|postgresql_server|rest_server)"
    r"(: |\"\))"
)
"""A parameter that is a fixture of ``tests/conftest.py`` and starts a server, or a call that asks for one by its name."""


class Item:
    """A test, as far as sorting looks at it."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid, self.marks = nodeid, marks

    def get_closest_marker(self, name: str) -> Any:
        return name if name in self.marks else None


def test_shares_come_by_what_they_take_and_stay_whole() -> None:
    served = [Item("tests/interop/test_hive.py::test_it", "java"), Item("tests/io/test_hdfs.py::test_it", "slow")]
    java = [Item("tests/interop/test_a.py::test_it", "java"), Item("tests/interop/test_b.py::test_it", "java")]
    plain, slow, spark = Item("tests/a.py::test_it"), Item("tests/b.py::test_it", "slow"), Item("tests/c.py::test_it", "spark")
    last = Item("tests/a.py::test_again")
    items: Any = [plain, java[0], served[0], slow, spark, java[1], last, served[1]]
    longest_first(items)
    assert items == [*served, *java, slow, spark, plain, last]
    assert (
        share("tests/interop/test_hive.py")
        == share("tests/io/test_hdfs.py")
        != share("tests/interop/test_a.py")
        != share("tests/a.py")
    )


def test_files_that_ask_for_a_server_of_the_session_are_in_one_share() -> None:
    texts = {str(path.relative_to(TESTS.parent)): path.read_text() for path in TESTS.rglob("*.py")}
    asking = {file for file, text in texts.items() if OF_A_SERVER.search(text)}
    makers = {"tests/interop/catalogs.py"}  # they start what their callers ask for
    callers = {file for file, text in texts.items() if "tests.interop.at_once" in text or "tests.interop.catalogs" in text}
    files = {file for file in asking | callers if file.rpartition("/")[2].startswith("test_")} - {"tests/test_two_processes.py"}
    assert {share(file) for file in files} == {SERVERS}
    assert {file for file in asking if share(file) != SERVERS} == {"tests/conftest.py"} | makers
    assert [start for start in OF_SERVERS if not any(file.startswith(start) for file in files)] == []


def test_what_is_known_to_take_long_is_there() -> None:
    assert [file for file in SECONDS if not (TESTS / f"{file}.py").is_file()] == []
    assert min(SECONDS.values()) >= 15


def test_a_process_is_given_a_share_by_its_tests() -> None:
    scheduler = Shares.__new__(Shares)
    assert scheduler._split_scope("tests/interop/test_a.py::test_it[x::y]") == share("tests/interop/test_a.py")
    assert scheduler._split_scope("tests/a.py::test_it[x::y]") == "tests/a.py"
