"""The proof that a rewritten group kept its rows, checked before anything is committed.

These figures must agree for every group: the rows that manifests record for its files, less the deleted rows, equal the live rows
read; live rows read equal rows written; the metrics of the new files equal the rows written and the nulls of every counted column;
and if a file records a sort order, its rows were verified to be in that order while they were written. A group that disagrees
raises VerificationError: nothing of the run is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from iceberg_ops.config.report import Certificate
from iceberg_ops.data.rewriting.group_work import GroupResult
from iceberg_ops.errors import VerificationError
from iceberg_ops.planning.file_groups import FileGroup
from iceberg_ops.serde.json.content_file_json import data_file_from_dict
from iceberg_ops.spec.content_files import DataFile


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """A group of data files with its result (``group_plans.FinishedGroup``); ``results`` are those of its works."""

    group: FileGroup
    added: tuple[DataFile, ...]
    certificate: Certificate
    results: tuple[GroupResult, ...] = ()

    @property
    def group_id(self) -> str:
        return self.group.group_id

    @property
    def removed(self) -> tuple[DataFile, ...]:
        return tuple(task.data_file for task in self.group.tasks)

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(task.file_path for task in self.group.tasks)

    @property
    def input_files(self) -> int:
        return self.group.input_files

    @property
    def input_bytes(self) -> int:
        return self.group.input_bytes

    @property
    def output_bytes(self) -> int:
        return sum(file.file_size_in_bytes for file in self.added)


@dataclass(slots=True)
class _Figures:
    rows_in: int = 0
    rows_out: int = 0
    in_order: int = 0
    deleted: int = 0
    nulls_in: Counter[int] = field(default_factory=Counter)
    nulls_out: Counter[int] = field(default_factory=Counter)


def certified(group: FileGroup, results: Sequence[GroupResult], plain_columns: Collection[int]) -> RewrittenGroup:
    """The group with its certificate; the recorded nulls of ``plain_columns`` (top-level primitives) must also be correct.

    Raises VerificationError that names the group and the figures that differ."""
    figures = _Figures()
    for result in results:
        figures.rows_in += result.rows_in
        figures.rows_out += result.rows_out
        figures.in_order += result.rows_in_order
        figures.deleted += result.deleted_rows_applied
        figures.nulls_in.update(result.null_counts_in)
        figures.nulls_out.update(result.null_counts_out)
    added = tuple(data_file_from_dict(document) for result in results for document in result.added)
    _compare(group, "recorded rows minus deleted rows", group.input_rows - figures.deleted, "rows read", figures.rows_in)
    _compare(group, "rows read", figures.rows_in, "rows written", figures.rows_out)
    _compare(group, "rows written", figures.rows_out, "rows of the new files", sum(file.record_count for file in added))
    if figures.in_order or any(file.sort_order_id for file in added):
        _compare(group, "rows written", figures.rows_out, "rows found to be in order", figures.in_order)
    checked = _compare_nulls(group, figures.nulls_in, figures.nulls_out, "nulls read", "nulls written")
    _compare_nulls(group, figures.nulls_in, _recorded_nulls(added, plain_columns), "nulls read", "nulls recorded")
    certificate = Certificate(
        rows_in=figures.rows_in,
        rows_out=figures.rows_out,
        rows_in_order=figures.in_order,
        deleted_rows_applied=figures.deleted,
        columns_checked=checked,
    )
    return RewrittenGroup(group, added, certificate, tuple(results))


def _recorded_nulls(added: Iterable[DataFile], plain_columns: Collection[int]) -> Mapping[int, int]:
    """Nulls by field id, of the columns that every new file counts. Inside lists and maps Parquet's null count differs from the
    rows'."""
    counts = [file.null_value_counts or {} for file in added]
    everywhere = set(counts[0]).intersection(*counts[1:]) if counts else set()
    return {field_id: sum(nulls[field_id] for nulls in counts) for field_id in everywhere.intersection(plain_columns)}


def _compare_nulls(group: FileGroup, left: Mapping[int, int], right: Mapping[int, int], left_name: str, right_name: str) -> int:
    shared = left.keys() & right.keys()
    for field_id in sorted(shared):
        _compare(group, f"{left_name} of field {field_id}", left[field_id], f"{right_name} of field {field_id}", right[field_id])
    return len(shared)


def _compare(group: FileGroup, left_name: str, left: int, right_name: str, right: int) -> None:
    if left != right:
        where = f" ({group.partition_path})" if group.partition_path else ""
        raise VerificationError(
            f"group {group.group_id}{where}: {left_name} are {left}, but {right_name} are {right}: nothing was committed"
        )
