"""Which manifests are worth rewriting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_ops.planning.rewrite_manifests import reason_to_rewrite
from iceberg_ops.spec.manifests import FieldSummary, ManifestFile
from iceberg_ops.spec.types import STRING
from iceberg_ops.spec.values import to_bytes

TARGET = 1_000_000


def manifest(size: int, low: str | None = None, high: str | None = None, *, null: bool = False) -> ManifestFile:
    summary = FieldSummary(null, None, low and to_bytes(STRING, low), high and to_bytes(STRING, high))  # type: ignore[arg-type]
    return ManifestFile(manifest_path=f"/m-{size}-{low}-{high}", manifest_length=size, partitions=(summary,))


@pytest.mark.parametrize(
    ("manifests", "reason"),
    [
        ([], ""),
        ([manifest(10_000)], ""),
        ([manifest(10_000), manifest(10_000)], "below half"),
        ([manifest(900_000), manifest(10_000)], ""),
        ([manifest(2_000_001)], "above twice"),
        ([manifest(900_000, "a", "c"), manifest(900_000, "b", "d"), manifest(900_000, "a", "d")], "overlap"),
        ([manifest(900_000, "a", "b"), manifest(900_000, "b", "c"), manifest(900_000, "c", "d")], ""),
        ([manifest(900_000, "a", "a"), manifest(900_000, "a", "a"), manifest(900_000, "a", "b")], ""),
        ([manifest(900_000, null=True), manifest(900_000, null=True), manifest(900_000, "a", "b")], ""),
        ([manifest(900_000, "a", "c", null=True), manifest(900_000, "b", "c", null=True)], "overlap"),
    ],
)
def test_manifests_are_rewritten_when_small_large_or_unclustered(manifests: list[ManifestFile], reason: str) -> None:
    found = reason_to_rewrite(manifests, TARGET, (0,), (STRING,))
    assert (reason in found) if reason else found == ""


@pytest.mark.parametrize(("files", "due"), [((1, 0), False), ((0, 1), False), ((1, 1), True), ((None, 1), True)])
def test_a_manifest_that_can_not_be_split_is_not_too_large(files: tuple[int | None, int | None], due: bool) -> None:
    """An entry may be large: the bounds of thousands of columns."""
    large = replace(manifest(5_000_000), added_files_count=files[0], existing_files_count=files[1])
    assert bool(reason_to_rewrite([large], TARGET, (0,), (STRING,))) is due


def test_a_target_below_what_a_writer_can_meet_makes_no_manifest_due() -> None:
    """A manifest ends with a block of 64 kB, and its header holds the schema."""
    assert reason_to_rewrite([manifest(90_000)], 1_000, (0,), (STRING,)) == ""
    assert "above twice" in reason_to_rewrite([manifest(200_000)], 1_000, (0,), (STRING,))
