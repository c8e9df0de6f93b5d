"""Which manifests are worth rewriting."""

from __future__ import annotations

import pytest

from iceberg_ops.planning.rewrite_manifests import reason_to_rewrite
from iceberg_ops.spec.manifests import FieldSummary, ManifestFile
from iceberg_ops.spec.types import STRING
from iceberg_ops.spec.values import to_bytes

TARGET = 1000


def manifest(size: int, low: str | None = None, high: str | None = None, *, null: bool = False) -> ManifestFile:
    summary = FieldSummary(null, None, low and to_bytes(STRING, low), high and to_bytes(STRING, high))  # type: ignore[arg-type]
    return ManifestFile(manifest_path=f"/m-{size}-{low}-{high}", manifest_length=size, partitions=(summary,))


@pytest.mark.parametrize(
    ("manifests", "reason"),
    [
        ([], ""),
        ([manifest(10)], ""),
        ([manifest(10), manifest(10)], "below half"),
        ([manifest(900), manifest(10)], ""),
        ([manifest(2001)], "above twice"),
        ([manifest(900, "a", "c"), manifest(900, "b", "d"), manifest(900, "a", "d")], "overlap"),
        ([manifest(900, "a", "b"), manifest(900, "b", "c"), manifest(900, "c", "d")], ""),
        ([manifest(900, "a", "a"), manifest(900, "a", "a"), manifest(900, "a", "b")], ""),
        ([manifest(900, null=True), manifest(900, null=True), manifest(900, "a", "b")], ""),
        ([manifest(900, "a", "c", null=True), manifest(900, "b", "c", null=True)], "overlap"),
    ],
)
def test_manifests_are_rewritten_when_small_large_or_unclustered(manifests: list[ManifestFile], reason: str) -> None:
    found = reason_to_rewrite(manifests, TARGET, (0,), (STRING,))
    assert (reason in found) if reason else found == ""
