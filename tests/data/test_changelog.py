"""Changelogs against a model: after every snapshot the rows of the table, as a multiset (SNAP-20, RESID-09 to RESID-11)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task, scan_table
from iceberg_ops.data.rewriting.changelog import changelog_batches, changelog_schema
from iceberg_ops.data.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import NoSuchSnapshotError, SchemaError
from iceberg_ops.expressions.predicates import gt_eq
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.table.table import Table
from tests.builders import make_catalog, make_table
from tests.data.files import batch_of, rows_of

Row = tuple[Any, ...]
Rows = Counter[Row]


@dataclass
class History:
    """A table, and the rows it should have had at each of its snapshots."""

    catalog: Any
    table: Table
    rows: Rows = field(default_factory=Counter)
    states: dict[int, Rows] = field(default_factory=dict)
    operations: int = 0

    @classmethod
    def new(cls, version: int, partitioned: bool) -> History:
        catalog = make_catalog()
        return cls(catalog, make_table(catalog, version=version, partitioned=partitioned))

    @property
    def tasks(self) -> list[FileScanTask]:
        return plan(self.table, Scan()).tasks

    def live(self, task: FileScanTask) -> list[tuple[int, Row]]:
        names = ["_pos", *(f.name for f in self.table.schema.fields)]
        context = ReadContext.for_table(self.table.metadata, columns=names)
        return [(row[0], row[1:]) for row in rows_of(context.projected, read_task(task, context, self.table.io))]

    def write(self, rows: list[Row]) -> tuple[DataFile, ...]:
        context = WriteContext.for_table(self.table.metadata)
        writer = PartitionedWriter(context, self.table.io, operation_id=self.operation(), fanout=True)
        writer.write(batch_of(self.table.schema, rows))
        return tuple(writer.close())

    def operation(self) -> str:
        self.operations += 1
        return f"op-{self.operations}"

    def commit(self, operation: Any) -> None:
        self.table = commit(self.catalog, self.table, operation).table
        head = self.table.metadata.current_snapshot_id
        if head is not None:
            self.states[head] = Counter(self.rows)

    def append(self, rows: list[Row]) -> None:
        if files := self.write(rows):
            self.rows += Counter(rows)
            self.commit(AppendFiles(added=files))

    def append_again(self, merge: bool) -> None:
        """A live file is added a second time, as an import does it; its rows are there twice."""
        free = [t for t in self.tasks if not t.deletes]
        if free:
            self.rows += Counter(row for _, row in self.live(free[0]))
            self.commit(AppendFiles(added=(replace(free[0].data_file, first_row_id=None),), merge=merge))

    def delete_rows(self, key: int, added: list[Row]) -> None:
        """Merge-on-read: rows of that id go by position, others come in the same snapshot."""
        positions, gone, old = {}, [], []
        for task in self.tasks:
            live = self.live(task)
            hit = [p for p, row in live if row[0] == key]
            if hit:
                dead = set(range(task.record_count)) - {p for p, _ in live}
                vectors = [d.data_file for d in task.deletes if d.is_deletion_vector]
                positions[task.data_file] = sorted({*hit, *dead}) if self.version > 2 else hit
                gone += [row for _, row in live if row[0] == key]
                old += vectors
        context, io = WriteContext.for_table(self.table.metadata), self.table.io
        name = self.operation()
        if self.version > 2:
            deletes = write_deletion_vectors(io, context, positions, operation_id=name)
        else:
            deletes = write_position_deletes(io, context, positions, "partition", operation_id=name)
        self.rows += Counter(added)
        self.rows -= Counter(gone)
        files = self.write(added)
        if files or deletes:
            head = self.table.metadata.current_snapshot_id
            delta = RowDelta(
                added_data=files, added_deletes=tuple(deletes), removed_deletes=tuple(dict.fromkeys(old)), starting_snapshot_id=head
            )
            self.commit(delta)

    def delete_equal(self, keys: list[int], regions: list[str | None], added: list[Row]) -> None:
        """An upsert as Flink writes it: an equality delete file by id, and rows, in one snapshot."""
        schema = Schema.of(self.table.schema.fields[0])
        context, name = WriteContext.for_table(self.table.metadata), self.operation()
        partitions: list[tuple[Any, ...]] = [(r,) for r in regions] if context.spec.fields else [()]
        deletes: list[DataFile] = []
        for partition in partitions:
            batch = batch_of(schema, [(k,) for k in keys])
            deletes += write_equality_deletes(
                self.table.io, context, [1], [batch], partition=partition, operation_id=f"{name}-{len(deletes)}"
            )
        for row in list(self.rows):
            if row[0] in keys and (not context.spec.fields or row[2] in regions):
                del self.rows[row]
        self.rows += Counter(added)
        head = self.table.metadata.current_snapshot_id
        self.commit(RowDelta(added_data=self.write(added), added_deletes=tuple(deletes), starting_snapshot_id=head))

    def copy_on_write(self, key: int, added: list[Row]) -> None:
        """Files with that id are rewritten without it."""
        hit = [t for t in self.tasks if any(row[0] == key for _, row in self.live(t))]
        kept = [row for t in hit for _, row in self.live(t) if row[0] != key]
        for row in list(self.rows):
            if row[0] == key:
                del self.rows[row]
        self.rows += Counter(added)
        files = self.write(kept + added)
        if files or hit:
            head = self.table.metadata.current_snapshot_id
            self.commit(OverwriteFiles(added=files, removed=tuple(t.data_file for t in hit), starting_snapshot_id=head))

    def compact(self) -> None:
        tasks = self.tasks
        rows = [row for task in tasks for _, row in self.live(task)]
        if tasks:
            head = self.table.metadata.current_snapshot_id
            files = self.write(rows)
            self.commit(RewriteFiles(removed_data=tuple(t.data_file for t in tasks), added_data=files, starting_snapshot_id=head))

    @property
    def version(self) -> int:
        return self.table.metadata.format_version

    def changes(self, start: int | None = None, end: int | None = None, **options: Any) -> list[tuple[str, int, int, Row]]:
        schema = changelog_schema(self.table, end, columns=options.get("columns"))
        rows = rows_of(schema, changelog_batches(self.table, start, end, **options))
        return [(row[-3], row[-2], row[-1], row[:-3]) for row in rows]


REGIONS = ["a", "b", None]
rows_drawn = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["x", "y", None]), st.sampled_from(REGIONS)), max_size=4)
keys_drawn = st.integers(0, 4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), rows_drawn),
        st.tuples(st.just("delete_rows"), keys_drawn, rows_drawn),
        st.tuples(st.just("delete_equal"), st.lists(keys_drawn, min_size=1, max_size=2), st.just(REGIONS[:2]), rows_drawn),
        st.tuples(st.just("copy_on_write"), keys_drawn, rows_drawn),
        st.tuples(st.just("compact")),
        st.tuples(st.just("append_again"), st.booleans()),
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=60, deadline=None)
@given(version=st.sampled_from([2, 3]), partitioned=st.booleans(), steps=steps, data=st.data())
def test_every_snapshot_adds_and_removes_what_the_model_says(version: int, partitioned: bool, steps: Any, data: Any) -> None:
    history = History.new(version, partitioned)
    for step, *arguments in steps:
        getattr(history, step)(*arguments)
    chain = [s.snapshot_id for s in reversed(list(history.table.metadata.ancestors(history.table.metadata.current_snapshot_id)))]
    start, end = sorted([data.draw(st.integers(0, len(chain))), data.draw(st.integers(0, len(chain)))])
    if end == 0:
        return
    first, last = (chain[start - 1] if start else None), chain[end - 1]
    assert Counter(rows_of(history.table.schema, scan_table(history.table).to_batches())) == history.rows
    before: Rows = history.states[first] if first else Counter()
    expected: list[tuple[Counter[tuple[str, Row]], int]] = []
    for id_ in chain[start:end]:
        now = history.states[id_]
        expected.append(
            (
                Counter(
                    {("DELETE", r): n for r, n in (before - now).items()} | {("INSERT", r): n for r, n in (now - before).items()}
                ),
                id_,
            )
        )
        before = now
    found: dict[int, Counter[tuple[str, Row]]] = {}
    for kind, _, id_, row in history.changes(first, last):
        found.setdefault(id_, Counter())[kind, row] += 1
    assert [(found.get(id_, Counter()), id_) for _, id_ in expected] == expected


def three_snapshots() -> tuple[History, list[int]]:
    history = History.new(2, False)
    history.append([(1, "x", "a"), (2, "y", "a")])
    history.compact()
    history.copy_on_write(1, [(1, "z", "a")])
    return history, [s.snapshot_id for s in history.table.metadata.snapshots]


def test_replacing_snapshots_are_not_counted_and_rows_that_only_moved_are_left_out() -> None:
    history, ids = three_snapshots()
    assert history.changes() == [
        ("INSERT", 0, ids[0], (1, "x", "a")),
        ("INSERT", 0, ids[0], (2, "y", "a")),
        ("DELETE", 1, ids[2], (1, "x", "a")),
        ("INSERT", 1, ids[2], (1, "z", "a")),
    ]
    assert history.changes(ids[2]) == []
    assert history.changes(ids[0], ids[1]) == []


def test_columns_and_rows_can_be_chosen_and_a_row_moves_only_if_all_of_it_is_equal() -> None:
    history, ids = three_snapshots()
    assert history.changes(ids[0], columns=["id"]) == [("DELETE", 0, ids[2], (1,)), ("INSERT", 0, ids[2], (1,))]
    assert history.changes(where=gt_eq("id", 2)) == [("INSERT", 0, ids[0], (2, "y", "a"))]
    found = history.changes(ids[0], columns=["_pos", "data"])
    assert [(kind, row[1]) for kind, _, _, row in found] == [("DELETE", "x"), ("INSERT", "z")]
    with pytest.raises(SchemaError, match="column _change_type of a changelog is always included"):
        changelog_schema(history.table, columns=["id", "_change_type"])


def test_the_columns_of_the_end_are_shown() -> None:
    history, ids = three_snapshots()
    evolution = SchemaEvolution.of_table(history.table.metadata).rename_column("data", "text").drop_column("region")
    history.commit(UpdateSchema(schema=evolution.apply()))
    names = ["_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert [f.name for f in changelog_schema(history.table).fields] == ["id", "text", *names]
    assert [f.name for f in changelog_schema(history.table, ids[2]).fields] == ["id", "data", "region", *names]
    assert [row for *_, row in history.changes()] == [(1, "x"), (2, "y"), (1, "x"), (1, "z")]


def test_history_that_is_gone_is_no_history_without_changes() -> None:
    history, ids = three_snapshots()
    history.append([(5, "e", None)])
    history.commit(ExpireSnapshots(snapshot_ids=(ids[0], ids[1])))
    with pytest.raises(
        NoSuchSnapshotError, match=f"snapshot {ids[1]} of table .* has been expired: what snapshot {ids[2]} and those before it"
    ):
        history.changes()
    assert [row for *_, row in history.changes(ids[2])] == [(5, "e", None)]


def test_rows_come_back_where_deletes_are_taken_away() -> None:
    history = History.new(2, False)
    history.append([(1, "x", "a"), (2, "y", "a")])
    history.delete_rows(1, [])
    (task,) = history.tasks
    history.rows += Counter([(1, "x", "a")])
    head = history.table.metadata.current_snapshot_id
    removed = tuple(d.data_file for d in replace(task).deletes)
    history.commit(RowDelta(removed_deletes=removed, added_data=history.write([(3, "z", "a")]), starting_snapshot_id=head))
    kinds = sorted((ordinal, kind, row[0]) for kind, ordinal, _, row in history.changes())
    assert kinds == [(0, "INSERT", 1), (0, "INSERT", 2), (1, "DELETE", 1), (2, "INSERT", 1), (2, "INSERT", 3)]
