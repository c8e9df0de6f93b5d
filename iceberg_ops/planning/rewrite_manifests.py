"""The plan of ``rewrite_manifests``: which manifests it would rewrite, and why.

Data and delete manifests of one partition spec are handled separately. They are rewritten if several are far below the target size,
if one is far above it, or if they overlap on the partition fields of the clustering, so that a scan of one partition opens many.
The reference implementation rewrites if there is more than one manifest, so it never ends; here the outputs of a rewrite are never
candidates again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.config.options import RewriteManifestsOptions
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.manifests import FieldSummary, ManifestContent, ManifestFile
from iceberg_ops.spec.partitioning import PartitionSpec, untyped_places
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.types import IcebergType
from iceberg_ops.spec.values import from_bytes
from iceberg_ops.table.former_columns import of_former_columns
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table

_SMALL, _LARGE = 0.5, 2.0
"""Shares of the target size outside which a manifest is worth rewriting; a writer's outputs are inside, except the last one."""
_COARSE = 128 * 1024
"""How far a writer's output may exceed the target, however small the target is: a manifest ends with a block of 64 kB (before
compression), and its header holds the schema."""


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """Manifests of one content that are rewritten together; ``reason`` says why."""

    content: ManifestContent
    manifests: tuple[ManifestFile, ...]
    reason: str

    @property
    def input_bytes(self) -> int:
        return sum(m.manifest_length for m in self.manifests)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsPlan:
    """``cluster_by`` are positions in the partition tuple of spec ``spec_id``, most significant first."""

    snapshot: Snapshot | None
    spec_id: int
    cluster_by: tuple[int, ...]
    groups: tuple[ManifestGroup, ...]
    kept: tuple[tuple[str, str], ...]
    """Manifests that are not rewritten, with the reason."""


def plan_rewrite_manifests(table: Table, options: RewriteManifestsOptions, branch: str = MAIN_BRANCH) -> RewriteManifestsPlan:
    """Plan on the branch's head. Raises OptionError for an unknown spec, or a ``sort-by`` name that is not one of its fields."""
    metadata = table.metadata
    spec_id = metadata.default_spec_id if options.spec_id is None else options.spec_id
    if spec_id not in metadata.specs_by_id:
        raise OptionError(f"rewrite_manifests: spec-id {spec_id}: the table's specs are {sorted(metadata.specs_by_id)}")
    spec = metadata.specs_by_id[spec_id]
    cluster_by = cluster_positions(spec, options.sort_by)
    types = [f.type for f in spec.partition_type(metadata.all_fields_by_id)]
    snapshot = metadata.branch_head(branch)
    groups: list[ManifestGroup] = []
    kept: list[tuple[str, str]] = []
    for content in ManifestContent:
        candidates = [m for m in manifests_of(table, snapshot) if m.content is content]
        kept.extend(
            (m.manifest_path, f"of partition spec {m.partition_spec_id}") for m in candidates if m.partition_spec_id != spec_id
        )
        candidates = [m for m in candidates if m.partition_spec_id == spec_id]
        if untyped_places(spec, metadata.all_fields_by_id):
            kept.extend((m.manifest_path, "the type of its partition values is no longer known") for m in candidates)
            continue
        former = of_former_columns(table, candidates)
        why = "another engine has replaced the table since, and columns had other types before"
        kept.extend((m.manifest_path, why) for m in candidates if m.manifest_path in former)
        candidates = [m for m in candidates if m.manifest_path not in former]
        reason = reason_to_rewrite(candidates, options.target_size_bytes, cluster_by, types)
        if reason:
            groups.append(ManifestGroup(content, tuple(candidates), reason))
        else:
            kept.extend((m.manifest_path, "its size is right and it does not overlap others") for m in candidates)
    return RewriteManifestsPlan(snapshot=snapshot, spec_id=spec_id, cluster_by=cluster_by, groups=tuple(groups), kept=tuple(kept))


def cluster_positions(spec: PartitionSpec, names: Sequence[str]) -> tuple[int, ...]:
    """Positions of partition fields by name; all in spec order without names. Raises OptionError."""
    known = {f.name: i for i, f in enumerate(spec.fields)}
    if unknown := [name for name in names if name not in known]:
        fields = ", ".join(known) or "none"
        raise OptionError(f"rewrite_manifests: sort-by {unknown[0]!r}: the partition fields of spec {spec.spec_id} are {fields}")
    if names:
        return tuple(known[name] for name in dict.fromkeys(names))
    return tuple(i for i, f in enumerate(spec.fields) if not f.transform.is_void)


def reason_to_rewrite(
    manifests: Sequence[ManifestFile], target: int, cluster_by: Sequence[int], types: Sequence[IcebergType]
) -> str:
    """Why these manifests should be rewritten; empty if they should not."""
    small = [m for m in manifests if m.manifest_length < _SMALL * target]
    large = [m for m in manifests if m.manifest_length > max(_LARGE * target, target + _COARSE) and _live_files(m) != 1]
    if len(small) > 1:
        return f"{len(small)} of {len(manifests)} manifests are below half of {target} bytes"
    if large:
        return f"{len(large)} of {len(manifests)} manifests are above twice {target} bytes, and can be split"
    overlapping = _overlapping(manifests, cluster_by[0], types[cluster_by[0]]) if cluster_by else 0
    if overlapping > len(manifests) / 2:
        return f"{overlapping} of {len(manifests)} manifests overlap others on their partitions"
    return ""


def _live_files(manifest: ManifestFile) -> int | None:
    """None if the list does not record it."""
    if manifest.added_files_count is None or manifest.existing_files_count is None:
        return None
    return manifest.added_files_count + manifest.existing_files_count


def _overlapping(manifests: Sequence[ManifestFile], position: int, type_: IcebergType) -> int:
    """How many manifests overlap another one inside their range of one partition field."""
    ranges = sorted(range_ for m in manifests if (range_ := _range(m, position, type_)) is not None)
    hit: set[int] = set()
    highest: tuple[Any, int] | None = None
    for i, (low, high) in enumerate(ranges):
        if highest is not None and low < highest[0] and low < high:
            hit.update((i, highest[1]))
        if highest is None or high > highest[0]:
            highest = high, i
    return len(hit)


def _range(manifest: ManifestFile, position: int, type_: IcebergType) -> tuple[tuple[int, Any], tuple[int, Any]] | None:
    if manifest.partitions is None or position >= len(manifest.partitions):
        return None
    summary: FieldSummary = manifest.partitions[position]
    if summary.lower_bound is None or summary.upper_bound is None:
        return ((0, 0), (0, 0)) if summary.contains_null else None
    low, high = from_bytes(type_, summary.lower_bound), from_bytes(type_, summary.upper_bound)
    return ((0, 0) if summary.contains_null else (1, low)), (1, high)


def counts(plan: RewriteManifestsPlan) -> Mapping[str, int]:
    """Metrics of a plan."""
    return {
        "planned-manifests-count": sum(len(g.manifests) for g in plan.groups),
        "planned-manifest-bytes": sum(g.input_bytes for g in plan.groups),
        "skipped-manifests-count": len(plan.kept),
    }
