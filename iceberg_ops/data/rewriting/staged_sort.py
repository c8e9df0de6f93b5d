"""Sorts one large group in two stages that run anywhere, without shuffling rows.

Stage 1: each part of the input files is read and sorted piece by piece; every piece becomes a run, an Arrow file (lz4) in the
table's own storage, cut at the bounds of the ranges. Stage 2: each range merges its share of all runs and writes it. The
coordinator takes the bounds from one sample and stores the sample beside the runs, so both stages are functions of JSON texts. Rows
of equal keys fall into one range and keep their order, so the result is that of one stable sort.

The rule: no staged file outlives the rewrite. Runs have the operation id in their names (the job's lease covers them, and the runs
of a killed worker are found by it), and ``clear`` deletes them all, whatever happened.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from iceberg_ops.data.arrow.batch_sizes import dictionary_bytes, own_bytes
from iceberg_ops.data.arrow.read_ahead import prefetched
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.columns.sort_keys import Keys, joined, sorted_indices
from iceberg_ops.data.reading.reader import WHOLE_BYTES, tasks_ahead
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.rewrite import (
    Tally,
    key_ids,
    key_maker,
    open_writer,
    read_live_rows,
    sample_keys,
    verified,
)  # fmt: skip
from iceberg_ops.data.sorting.external_sort import Run, in_one, in_pieces, merged, run_batch_bytes, slice_batch
from iceberg_ops.data.sorting.key_sample import KeySample, key_columns
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.errors import VerificationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import remove_empty_folders
from iceberg_ops.scan.tasks import task_from_json
from iceberg_ops.serde.json.content_file_json import data_file_from_dict, data_file_to_dict

_BATCH_ROWS = 1 << 14
"""Rows of a batch in a run: a merge holds one of each run."""
_PART_BYTES = 128 << 20
_BUFFER_BYTES = 1 << 20
"""Arrow writes every buffer of every column separately: they are collected, or each would be a call into Python."""
_RANGE_TASKS = 8
"""The number of input files in a range's task: their footers determine encodings."""


@dataclass(frozen=True, slots=True)
class SortedPart:
    """The result of stage 1 for a part: ``runs`` are (location, first batch of each range and the end, Arrow bytes of the largest
    batch); counts as in GroupResult."""

    runs: tuple[tuple[str, tuple[int, ...], int], ...]
    run_rows: tuple[int, ...]
    rows: int
    deleted: int
    nulls: Mapping[int, int]
    nested_nulls: Mapping[int, int]


RunAll = Callable[[Callable[[str], str], list[str]], list[str]]
"""Calls the function for each text, on any machine, and returns the answers in the order of the texts."""


def is_staged(work: GroupWork) -> bool:
    """Whether the group can be sorted in stages: its output is one partition, and other processes can reach its store."""
    return work.is_sorted and work.partition is not None and work.io_properties.get("io-impl") != "memory"


def sorted_in_stages(work: GroupWork, parts: int, run_all: RunAll) -> GroupResult:
    """Sort a group by up to ``parts`` tasks, then ``work.ranges`` tasks. Raises the errors of ``run_all`` and VerificationError.
    Staged files are deleted in any case, and so are the output files if their counts differ from the input. If a range fails, the
    caller deletes the files of ranges that were written before.
    """
    staged = StagedSort(work, parts)
    try:
        return staged.result(run_all(write_range, staged.range_texts(run_all(sort_part, staged.part_texts()))))
    finally:
        staged.clear()


class StagedSort:
    """Coordinates one staged sort: ``part_texts`` -> ``sort_part`` each -> ``range_texts`` -> ``write_range`` each ->
    ``result``."""

    def __init__(self, work: GroupWork, parts: int) -> None:
        self.work = work
        self._begun = time.monotonic()
        self._io = load_file_io(work.io_properties)
        folder = WriteContext.from_json(work.write).data_location
        self._folder = f"{folder}/{work.task_id}-{work.operation_id}-staged"
        self._sorted: list[SortedPart] = []
        self._parts = parts

    def part_texts(self) -> list[str]:
        """The inputs of stage 1. Takes the sample. Raises CorruptTableError."""
        self._io.write(_sample_location(self._folder, self.work), sample_keys(self.work, self._io).to_bytes())
        cuts = _even(self.work.tasks, self._parts)
        return [json.dumps([self._folder, replace(self.work, tasks=tasks).to_json()]) for tasks in cuts]

    def range_texts(self, parts: Sequence[str]) -> list[str]:
        """The inputs of stage 2, from the answers of stage 1 in order."""
        self._sorted = [_part_from(text) for text in parts]
        runs = [run for part in self._sorted for run in part.runs]
        step = max(1, len(self.work.tasks) // _RANGE_TASKS)
        few = replace(self.work, tasks=self.work.tasks[::step][:_RANGE_TASKS])
        texts = []
        for i in range(self.work.ranges):
            shares = [(place, firsts[i], firsts[i + 1], largest) for place, firsts, largest in runs if firsts[i] < firsts[i + 1]]
            if shares:
                size = self.work.range_file_size or self.work.target_file_size
                named = replace(few, task_id=f"{self.work.task_id}-{i:05d}", target_file_size=size)
                texts.append(json.dumps([self._folder, named.to_json(), shares]))
        return texts

    def result(self, ranges: Sequence[str]) -> GroupResult:
        """The group's result from the answers of stage 2 in order. Raises VerificationError; then the written files are deleted."""
        parts = self._sorted
        answers = [json.loads(text) for text in ranges]
        added = [data_file_from_dict(document) for files, _, _ in answers for document in files]
        schema, size = ReadContext.from_json(self.work.read).projected, sum(task_from_json(t).data_bytes for t in self.work.tasks)
        tally = Tally(schema, bytes_in=size, rows=sum(p.rows for p in parts), nulls=_sums(p.nulls for p in parts))
        tally.nested.counts = _sums(p.nested_nulls for p in parts)
        tally.nested_out = _sums(_by_id(nested) for _, _, nested in answers)
        tally.read.deleted = sum(p.deleted for p in parts)
        tally.in_order = sum(in_order for _, in_order, _ in answers)
        spilled = [rows for part in parts for rows in part.run_rows]
        try:
            return verified(self.work, tally, added, round((time.monotonic() - self._begun) * 1000), spilled)
        except VerificationError:
            CreatedFiles(self._io, [f.file_path for f in added]).discard()
            raise

    def clear(self) -> None:
        """Delete all staged files, also those of attempts that failed or ran twice."""
        CreatedFiles(self._io, [info.location for info in self._io.list_prefix(self._folder)]).discard()
        remove_empty_folders(self._io, self._folder)


def stage_parts(bytes_: int, slots: int) -> int:
    """The number of parts of stage 1 for the input bytes and the number of parallel tasks: all tasks busy, no part too large."""
    return slots * max(1, -(-bytes_ // (slots * _PART_BYTES)))


def sort_part(text: str) -> str:
    """Stage 1, on any machine: sorted runs of a part. Raises CorruptTableError."""
    folder, work_text = json.loads(text)
    work = GroupWork.from_json(work_text)
    io, read = load_file_io(work.io_properties), ReadContext.from_json(work.read)
    make, bounds = _keys_and_bounds(work, read, io, folder)
    tally = Tally(read.projected)
    tasks = [task_from_json(task) for task in work.tasks]
    runs, rows = [], []
    with tasks_ahead(io, tasks, whole=WHOLE_BYTES) as near:
        for held in in_pieces(tally.counted(read_live_rows(tasks, work, read, near, tally.read)), work.memory_limit_bytes):
            whole = in_one(held)
            held.clear()
            location = f"{folder}/{work.operation_id}-{uuid.uuid4()}.arrow"
            most = run_batch_bytes(work.memory_limit_bytes)
            runs.append((location, *_write_run(whole, make(whole), bounds, io, location, most)))
            rows.append(whole.num_rows)
    return json.dumps([runs, rows, tally.rows, tally.read.deleted, tally.nulls, tally.nested.counts])


def write_range(text: str) -> str:
    """Stage 2, on any machine: merge a range's share of the runs and write its files."""
    folder, work_text, shares = json.loads(text)
    work = GroupWork.from_json(work_text)
    io, read = load_file_io(work.io_properties), ReadContext.from_json(work.read)
    make = key_maker(work, read.projected, _sample(work, read, io, folder))
    runs = [_opened(io, *share) for share in shares]
    rows = prefetched(merged(runs, make, work.memory_limit_bytes))
    writer = open_writer(work, io, [task_from_json(task) for task in work.tasks], make, io)
    try:
        for batch in rows:
            writer.write_canonical(batch)
        files = [data_file_to_dict(f) for f in writer.close()]
        return json.dumps([files, writer.rows_in_order, writer.nested_nulls])
    except BaseException:
        rows.close()
        writer.abort()
        raise


def _keys_and_bounds(work: GroupWork, read: ReadContext, io: FileIO, folder: str) -> tuple[Any, Keys]:
    sample = _sample(work, read, io, folder)
    return key_maker(work, read.projected, sample), range_bounds(key_maker(work, sample.schema, sample), sample, work.ranges)


def _sample(work: GroupWork, read: ReadContext, io: FileIO, folder: str) -> KeySample:
    schema = key_columns(read, key_ids(work, read.projected)).projected
    return KeySample.from_bytes(schema, io.read(_sample_location(folder, work)))


def _sample_location(folder: str, work: GroupWork) -> str:
    return f"{folder}/{work.operation_id}-sample.arrow"


def range_bounds(make: Any, sample: KeySample, ranges: int) -> Keys:
    """The last key of each range except the last range, evenly spread over the sample."""
    if not sample.rows.num_rows:
        return []
    keys: Keys = make(in_one(sample.rows.to_batches()))
    order = np.asarray(sorted_indices(keys))
    picked = pa.array(order[[len(order) * (i + 1) // ranges for i in range(ranges - 1)]].astype(np.int64))
    return [(array.take(picked), direction) for array, direction in keys]


def _write_run(
    whole: pa.RecordBatch, keys: Keys, bounds: Keys, io: FileIO, location: str, most_bytes: int
) -> tuple[tuple[int, ...], int]:
    """Write the rows in key order, with batches that end at the bounds; returns the first batch of each range and the end, and the
    Arrow bytes of the largest batch."""
    rows = whole.num_rows
    both = [(joined(array, bound), direction) for (array, direction), (bound, _) in zip(keys, bounds, strict=True)]
    order = np.asarray(sorted_indices(both)).astype(np.int64)
    # A bound sorts after the rows with its own key, because it was appended after all rows.
    places = np.flatnonzero(order >= rows)
    ends = [*(places - np.arange(len(places))), rows]
    order = order[order < rows]
    firsts, start, written, largest = [0], 0, 0, 0
    with (
        io.open_output(location) as output,
        pa.BufferedOutputStream(pa.PythonFile(output, "w"), _BUFFER_BYTES) as sink,
        pa.ipc.new_file(sink, whole.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer,
    ):
        for end in ends:
            for batch in slice_batch(whole, order[start:end], _BATCH_ROWS, most_bytes):
                writer.write_batch(batch)
                written += 1
                largest = max(largest, own_bytes(batch))
            firsts.append(written)
            start = end
    return tuple(firsts), largest + dictionary_bytes(whole)


def _opened(io: FileIO, location: str, first: int, end: int, largest: int) -> Run:
    """A range's share of a run: its batches from ``first`` to ``end`` (exclusive)."""
    local = io.local_path(location)
    file = pa.ipc.open_file(pa.memory_map(local) if local is not None else pa.PythonFile(io.open_input(location), "r"))
    return Run(map(file.get_batch, range(first, end)), file.schema, end - first, largest)


def _part_from(text: str) -> SortedPart:
    runs, run_rows, rows, deleted, nulls, nested = json.loads(text)
    located = tuple((location, tuple(firsts), largest) for location, firsts, largest in runs)
    return SortedPart(located, tuple(run_rows), rows, deleted, _by_id(nulls), _by_id(nested))


def _by_id(by_text: Mapping[str, int]) -> dict[int, int]:
    return {int(field_id): n for field_id, n in by_text.items()}


def _sums(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _even(tasks: Sequence[str], parts: int) -> Iterator[tuple[str, ...]]:
    """Tasks in order, in at most ``parts`` runs of about the same size in bytes."""
    sizes = np.cumsum([task_from_json(task).data_bytes for task in tasks])
    ends = [int(np.searchsorted(sizes, sizes[-1] * (i + 1) / parts, side="left")) + 1 for i in range(parts)]
    start = 0
    for end in ends:
        if tasks[start:end]:
            yield tuple(tasks[start:end])
        start = max(start, end)
