"""Statements, jobs and other writers on one table leave the rows of a plain model; manifests, lineage and changelogs are true."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_ops.errors import DataError, OptionError, PartialMatchError, SchemaError, UnsupportedError, WhereError
from tests.generated.drawing import Draw, for_each_seed, missing
from tests.generated.model_acts import Acts
from tests.generated.model_checks import Checker

KIND, CASES = "model", 30
WANTED = {
    "append", "overwrite", "overwrite partitions", "write", "write as others", "add_files", "delete copy-on-write",
    "delete merge-on-read", "update copy-on-write", "update merge-on-read", "merge copy-on-write", "merge merge-on-read",
    "upsert", "restore", "roll back", "append and publish", "delete keys of a partition", "delete keys", "delete places",
    "rewrite binpack", "rewrite sort", "rewrite zorder", "rewrite hilbert", "rewrite_manifests",
    "rewrite_position_delete_files", "convert_equality_deletes", "expire_snapshots", "tag", "branch", "upgrade", "partition",
    "sort", "add", "add with default", "drop", "rename", "move", "change default", "promote int", "promote date", "condition",
    "judged file", "time travel", "changelog", "changelog of lost history", "refused",
}  # fmt: skip


def drawn(acts: Acts) -> Callable[[], str | None]:
    return acts.draw.choice([
        acts.append, acts.append, acts.overwrite, acts.overwrite_partitions, acts.write, acts.write, acts.write_as_others,
        acts.write_as_others, acts.add_files, acts.delete, acts.delete, acts.update, acts.update, acts.merge, acts.merge,
        acts.upsert, acts.restore, acts.restore, acts.roll_back, acts.delete_places, acts.delete_keys, acts.delete_keys,
        acts.delete_places, acts.delete_places, acts.rewrite, acts.rewrite, acts.rewrite, acts.maintain, acts.maintain,
        acts.expire, acts.tag, acts.switch, acts.switch, acts.upgrade, acts.partition, acts.partition, acts.sort, acts.add,
        acts.add, acts.drop, acts.rename, acts.rename, acts.move, acts.change_default, acts.promote, acts.promote,
    ])  # fmt: skip


def step(acts: Acts, checker: Checker, what: Callable[[], str | None]) -> None:
    before = acts.table.metadata
    acts.added, acts.changed = set(), set()
    try:
        done = what()
    except (DataError, OptionError, PartialMatchError, SchemaError, UnsupportedError, WhereError):
        acts.draw.note("refused", f"refused {what.__name__}")
        assert acts.table.metadata == before, f"{what.__name__} is refused and has changed the table"
        return
    if done is not None:
        acts.draw.note(done)
        checker.after(done, before)


def check(draw: Draw, acts: Acts) -> None:
    checker = Checker(acts)
    if draw.often(0.5):
        step(acts, checker, acts.partition)
    for _ in range(16):
        step(acts, checker, drawn(acts))
    checker.at_the_end()


def check_one(draw: Draw, folder: Path) -> None:
    check(draw, Acts(draw, folder / str(draw.seed)))


@pytest.mark.slow
def test_a_table_shows_the_rows_of_its_model_after_every_act(tmp_path: Path) -> None:
    for_each_seed(KIND, CASES, lambda draw: check_one(draw, tmp_path))
    assert missing(KIND, WANTED) == set()
