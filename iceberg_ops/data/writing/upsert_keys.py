"""The equality deletes of an upsert: one key per row, in every partition spec that may contain older rows.

An equality delete in an unpartitioned spec applies to the whole table; in a partitioned one only to its own spec and partition. So
keys are written once for each spec that the job names (``KeyPlan``). Keys are buffered up to ``MOST_HELD_BYTES`` and then written,
so a task's memory does not grow with the number of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import split_by_partition
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partition_keys import value_identity

MOST_HELD_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """``field_ids`` of the key columns, and the specs in which their deletes are written."""

    field_ids: tuple[int, ...]
    spec_ids: tuple[int, ...]


class UpsertKeys:
    """The equality deletes of one task attempt, or of one process."""

    def __init__(self, plan: KeyPlan, context: WriteContext, io: FileIO, operation_id: str, task_id: str) -> None:
        self._plan, self._io, self._operation_id, self._task_id = plan, io, operation_id, task_id
        tops = {_top_level(context, field_id) for field_id in plan.field_ids}
        # A row that only deletes its key needs no other columns.
        self._schema = context.schema.select([f.name for f in context.schema.fields if f.name in tops])
        keys = replace(context, schema=self._schema)
        self._contexts = [keys.with_spec(spec_id) for spec_id in plan.spec_ids]
        self._held: dict[tuple[int, Any], tuple[tuple[Any, ...], list[pa.RecordBatch]]] = {}
        self._bytes = 0
        self._created = CreatedFiles(io)
        self._done: list[DataFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the keys of rows in the table's columns. Raises DataError."""
        rows = conform(batch.select([f.name for f in self._schema.fields]), self._schema)
        for place, context in enumerate(self._contexts):
            for partition, keys in split_by_partition(rows, context):
                key = (place, tuple(value_identity(v) for v in partition))
                self._held.setdefault(key, (tuple(partition), []))[1].append(keys)
                self._bytes += keys.get_total_buffer_size() // max(1, rows.num_rows) * keys.num_rows
        if self._bytes > MOST_HELD_BYTES:
            self._write_out()

    def close(self) -> list[DataFile]:
        """Write the buffered keys; returns every delete file."""
        self._write_out()
        return self._done

    def abort(self) -> None:
        """Delete the written files. It can be called after any error, also one after ``close``."""
        self._created.discard()

    def _write_out(self) -> None:
        for (place, _), (partition, batches) in self._held.items():
            self._done += write_equality_deletes(
                self._io,
                self._contexts[place],
                self._plan.field_ids,
                batches,
                partition=partition,
                operation_id=self._operation_id,
                task_id=self._task_id,
                created=self._created,
            )
        self._held, self._bytes = {}, 0


def _top_level(context: WriteContext, field_id: int) -> str:
    chain: Sequence[int] = [field_id]
    while (parent := context.schema.parents[chain[0]]) is not None:
        chain = [parent, *chain]
    return context.schema.fields_by_id[chain[0]].name
