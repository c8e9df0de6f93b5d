"""Row maps of a run's works, each made only if a conflict needs it, and then kept for the next round.

``iceberg_ops.data.rewriting.row_places`` finds the rows that a work did not copy and the new places of the others after a sort, in
the committing process, whatever lane did the work. The run's lease covers the snapshot that was read, so its files still exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from iceberg_ops.actions.groups.certificate import RewrittenGroup
from iceberg_ops.commit.operations.carry_over import RowMap
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.row_places import places_of_rows, rows_not_copied
from iceberg_ops.errors import IcebergOpsError, ValidationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import identity_under
from iceberg_ops.scan.tasks import task_from_json
from iceberg_ops.serde.json.content_file_json import data_file_from_dict


class RowMaps:
    """``works``: units of work by their id, as they were passed to the runner."""

    def __init__(self, io: FileIO, group_works: Iterable[GroupWork]) -> None:
        self._io = io
        self._identity = identity_under(io)
        self._works = {work.group_id: work for work in group_works}
        self._made: dict[str, RowMap] = {}
        self._inputs: dict[str, tuple[str, ...]] = {}

    def of(self, groups: Iterable[RewrittenGroup], paths: Collection[str]) -> list[RowMap]:
        """Maps of those units of work of ``groups`` that read any of the files ``paths``.

        Raises ValidationError that names the input files of a work whose rows cannot be followed. These include the files of a work
        with a file that is live several times: its path does not show which deletes apply to which of its entries.
        """
        identities = {self._identity(path) for path in paths}
        results = [result for group in groups for result in group.results]
        entries = Counter(self._identity(path) for result in results for path in self._input_paths(result.group_id))
        maps = []
        for result in results:
            inputs = self._input_paths(result.group_id)
            if any(self._identity(path) in identities for path in inputs):
                if several := next((path for path in inputs if entries[self._identity(path)] > 1), None):
                    raise ValidationError(
                        f"concurrent deletes cannot be carried over: {several} is live several times", file_paths=inputs
                    )
                maps.append(self._map(result))
        return maps

    def _input_paths(self, work_id: str) -> tuple[str, ...]:
        if work_id not in self._inputs:
            self._inputs[work_id] = tuple(task_from_json(task).file_path for task in self._works[work_id].tasks)
        return self._inputs[work_id]

    def _map(self, result: GroupResult) -> RowMap:
        if result.group_id not in self._made:
            work = self._works[result.group_id]
            try:
                self._made[result.group_id] = RowMap(
                    rows_not_copied(work, self._io),
                    [data_file_from_dict(f) for f in result.added],
                    places_of_rows(work, result, self._io),
                )
            except (IcebergOpsError, OSError) as e:
                inputs = self._input_paths(result.group_id)
                raise ValidationError(f"concurrent deletes cannot be carried over: {e}", file_paths=inputs) from e
        return self._made[result.group_id]
