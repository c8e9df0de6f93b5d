"""The clean-up of a world does not believe every reason to keep a file."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.config.report import SkippedFile
from iceberg_ops.io.file_io import DeleteFailure
from tests.torture.drawing import Shape
from tests.torture.making import new_data, some_rows
from tests.torture.playing import clean_up
from tests.torture.scenes import a_world
from tests.torture.staying import Facts, may_stay
from tests.torture.switching import replaced
from tests.torture.world import World

REASON = "planning.remove_orphan_files:_reason_to_keep"


def _with_an_orphan() -> Any:
    return a_world(Shape(), "append")


def _left_by_a_writer(world: World) -> None:
    table = world.catalogs[0].load_table(("ns", "t"))
    new_data(world, table, some_rows(world, table, 1))


def test_a_clean_up_deletes_what_a_writer_left() -> None:
    with _with_an_orphan() as world:
        _left_by_a_writer(world)
        clean_up(world)


@pytest.mark.parametrize(
    "reason",
    [
        "not today",
        "it was changed after older-than",
        "it may be the file that is recorded as memory://wh/ns/t/data/another",
        "it has the name of memory://wh/ns/t/data/another, and may be that file",
        "it is stored with the files of table test.ns.u",
        "hidden: a name on its path begins with _ or .",
    ],
)
def test_a_job_that_skips_files_without_a_true_reason_is_found(reason: str) -> None:
    with _with_an_orphan() as world:
        _left_by_a_writer(world)
        with replaced({REASON: lambda *_: reason}), pytest.raises(AssertionError, match="that belong to nothing"):
            clean_up(world)


def test_a_job_that_reports_nothing_is_found() -> None:
    with _with_an_orphan() as world:
        _left_by_a_writer(world)
        with replaced({REASON: lambda *_: ""}), pytest.raises(AssertionError, match="that belong to nothing"):
            clean_up(world)


def test_failed_deletions_are_no_reason() -> None:
    with _with_an_orphan() as world:
        _left_by_a_writer(world)
        failing = {"deletion.bulk:delete_files": lambda _, io, locations, most: [DeleteFailure(f, "no") for f in locations]}
        with replaced(failing), pytest.raises(AssertionError, match="that belong to nothing"):
            clean_up(world)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("m://wh/t/import/0.parquet", "it has the name of m://wh/else/0.parquet, and may be that file"),
        ("m://wh/t/a b", "it may be the file that is recorded as m://wh/t/a%20b"),
        ("m://wh/t/lent/f", "it is stored with the files of table test.ns.u"),
        ("m://wh/t/_x/f", "hidden: a name on its path begins with _ or ."),
    ],
)
def test_true_reasons_are_believed(location: str, reason: str) -> None:
    recorded = frozenset({"m://wh/else/0.parquet", "m://wh/t/a%20b"})
    facts = Facts(recorded, {"test.ns.u": frozenset({"m://wh/t/lent"})}, str)
    assert may_stay(location, [SkippedFile(file_path=location, reason=reason)], facts)
    assert not may_stay(f"{location[:-1]}z", [SkippedFile(file_path=location, reason=reason)], facts)
