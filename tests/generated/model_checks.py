"""What must be true of a table after every act on it, by its model and by its own manifests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.rewriting.changelog import changelog_batches, changelog_schema
from iceberg_ops.errors import NoSuchSnapshotError, WhereError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.metadata_columns import METADATA_COLUMNS
from iceberg_ops.spec.metrics_config import MetricsConfig
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import NestedField
from iceberg_ops.spec.values import from_bytes
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.generated import judge, model
from tests.generated.model import Row, row_of
from tests.generated.model_acts import Acts

OF_NEW_ROWS = ("append", "overwrite", "write", "upsert", "merge", "restore")
"""Acts whose added rows are new ones: their ids are new, and their last update is the act's snapshot."""
FOREIGN = "other-"


class Checker:
    """Remembers what was read, and what each snapshot holds by the model."""

    def __init__(self, acts: Acts) -> None:
        self.acts, self.draw = acts, acts.draw
        self.shown: dict[int, list[str]] = {}
        self.judged: set[str] = set()

    def read(self, scan: Scan, columns: list[str] | None = None) -> tuple[Schema, list[Row]]:
        table = self.acts.table
        found, schema = scan_table(table, scan, columns), plan(table, scan).schema
        names = [f.name for f in schema.fields] if columns is None else columns
        fields = [schema.find(model.quoted(n)) or _column(schema, n) for n in names]
        return schema, list(zip(*(values_of(f.type, c) for f, c in zip(fields, found.columns, strict=True)), strict=True))

    def after(self, act: str, before: TableMetadata) -> None:
        scan = Scan.of_branch(self.acts.branch)
        schema, rows = self.read(scan)
        wanted = [row_of(schema, values) for values in self.acts.rows.values()]
        assert model.texts(rows) == model.texts(wanted), f"rows after {act}"
        for _ in range(2):
            self.filtered(schema, wanted)
        metadata = self.acts.table.metadata
        head = metadata.branch_head(self.acts.branch)
        if head is None:
            return
        if metadata.format_version >= 3 and head.first_row_id is not None:
            self.lineage(act, before, head)
        manifests(self.acts.table, head)
        self.files(head)
        self.acts.held.setdefault(head.snapshot_id, dict(self.acts.rows))
        if head.schema_id == metadata.current_schema_id:
            self.shown.setdefault(head.snapshot_id, model.texts(rows))

    def filtered(self, schema: Schema, rows: list[Row]) -> None:
        where = model.condition(self.draw, schema)
        places = self.draw.sample(range(len(schema.fields)), self.draw.randint(1, len(schema.fields)))
        names = [schema.fields[p].name for p in places]
        try:
            _, found = self.read(Scan.of_branch(self.acts.branch, parse_where(where.text)), names)
        except WhereError:
            self.draw.note("condition refused")
            return
        wanted = [tuple(row[p] for p in places) for row in rows if where.keeps(row)]
        assert model.texts(found) == model.texts(wanted), f"{names} where {where.text}"
        self.draw.note("condition")

    def lineage(self, act: str, before: TableMetadata, head: Snapshot) -> None:
        line = self.acts.lines[self.acts.branch]
        _, found = self.read(Scan.of_branch(self.acts.branch), ["id", "_row_id", "_last_updated_sequence_number"])
        now = {i: (row_id, last) for i, row_id, last in found}
        assert all(None not in found for found in now.values()), f"no lineage after {act}: {now}"
        assert len({row_id for row_id, _ in now.values()}) == len(now), f"one row id for two rows after {act}: {now}"
        assert all(row_id < (self.acts.table.metadata.next_row_id or 0) for row_id, _ in now.values())
        for i, (row_id, last) in now.items():
            old = line.lineage.get(i)
            if i in self.acts.added and act.startswith(OF_NEW_ROWS):
                assert last == head.sequence_number, f"new row {i} after {act}: {row_id, last}"
                assert row_id >= (before.next_row_id or 0), f"new row {i} after {act}: {row_id, last}"
            elif i in self.acts.changed:
                assert last == head.sequence_number, f"changed row {i} after {act}: {row_id, last}"
                assert old is None or old[0] == row_id, f"changed row {i} after {act}: {old} became {row_id, last}"
            elif old is not None:
                assert old == (row_id, last), f"row {i} after {act}: {old} became {row_id, last}"
        line.lineage = now

    def files(self, head: Snapshot) -> None:
        """New Parquet files of this package are what is recorded of them."""
        table = self.acts.table
        metadata = table.metadata
        for file in (e.data_file for m in manifests_of(table, head) for e in entries_of(table, m, live_only=True)):
            if file.file_path in self.judged:
                continue
            self.judged.add(file.file_path)
            if self._is_own(file) and (schema := self._schema_of(file)) is not None:
                order = next((o for o in metadata.sort_orders if o.order_id == file.sort_order_id), UNSORTED)
                spec = metadata.specs_by_id[file.spec_id]
                found = judge.contradictions(file, schema, spec, order, MetricsConfig.for_table(metadata), table.io)
                assert found == [], f"{file.file_path}: {found}"
                self.draw.note("judged file")

    def _is_own(self, file: DataFile) -> bool:
        name = file.file_path.rpartition("/")[2]
        is_data = file.content is FileContent.DATA and file.file_format is FileFormat.PARQUET
        return is_data and not name.startswith(FOREIGN) and "/import-" not in file.file_path

    def _schema_of(self, file: DataFile) -> Schema | None:
        """The current schema, with the columns of lineage that the file has; None where the judge cannot judge."""
        table = self.acts.table
        schema, spec = table.schema, table.metadata.specs_by_id[file.spec_id]
        plain = {s.field.field_id for s in model.singles(schema)}
        orders = {s for o in table.metadata.sort_orders if o.order_id == file.sort_order_id for f in o.fields for s in f.source_ids}
        if any(model.is_in_no_source(f.type) for f in schema.fields) or not {*spec_sources(spec), *orders} <= plain:
            return None
        stored = judge.names_of_file(file, table.io)
        return Schema.of(
            *schema.fields, *(METADATA_COLUMNS[n] for n in ("_row_id", "_last_updated_sequence_number") if n in stored)
        )

    def at_the_end(self) -> None:
        metadata = self.acts.table.metadata
        kept = [s.snapshot_id for s in metadata.snapshots]
        for snapshot_id, shown in self.shown.items():
            if snapshot_id in kept:
                assert model.texts(self.read(Scan(snapshot_id=snapshot_id))[1]) == shown, f"snapshot {snapshot_id}"
                self.draw.note("time travel")
        for name, snapshot_id in self.acts.tags.items():
            if snapshot_id in self.shown:
                assert model.texts(self.read(Scan(ref=name))[1]) == self.shown[snapshot_id], name
        head = metadata.branch_head(self.acts.branch)
        line = [] if head is None else [s.snapshot_id for s in metadata.ancestors(head.snapshot_id)][::-1]
        for _ in range(3 if line else 0):
            self.changelog(line)

    def changelog(self, line: list[int]) -> None:
        """The rows at the start of a range, changed as the changelog says, are the rows at its end; also those of a condition."""
        to = self.draw.choice(line)
        start = self.draw.choice([None, *line[: line.index(to)]])
        table = self.acts.table
        if not {to, start} - {None} <= set(self.acts.held):
            return
        schema = table.metadata.schema_of(table.metadata.snapshot(to))
        where = model.condition(self.draw, schema) if self.draw.often(0.5) else model.Condition("true", lambda row: True)

        def held(snapshot_id: int) -> list[str]:
            found = [row_of(schema, values) for values in self.acts.held[snapshot_id].values()]
            return model.texts(row for row in found if where.keeps(row))

        rows, now = Counter([] if start is None else held(start)), Counter[tuple[int, str]]()
        is_lost = start is None and table.metadata.snapshot(line[0]).parent_snapshot_id is not None
        try:
            for kind, ordinal, row in self.changes(start, to, len(schema.fields), where.text):
                (text,) = model.texts([row])
                change = 1 if kind == "INSERT" else -1
                rows[text] += change
                assert rows[text] >= 0, f"changelog {start} to {to} removes a row that is not there: {text}"
                now[ordinal, text] += change
                assert now[ordinal, text] * change > 0, f"changelog {start} to {to}: snapshot {ordinal} adds and removes {text}"
        except NoSuchSnapshotError:
            assert is_lost, f"changelog {start} to {to}"
            self.draw.note("changelog of lost history")
            return
        except WhereError:
            return
        assert not is_lost, f"changelog {start} to {to} of lost history"
        assert sorted(rows.elements()) == held(to), f"changelog {start} to {to} where {where.text}"
        self.draw.note("changelog")

    def changes(self, start: int | None, to: int, width: int, where: str) -> Iterator[tuple[str, int, Row]]:
        """Kind, number of the snapshot in the range, and row."""
        fields = changelog_schema(self.acts.table, to).fields
        for batch in changelog_batches(self.acts.table, start, to, where=parse_where(where)):
            for row in zip(*(values_of(f.type, c) for f, c in zip(fields, batch.columns, strict=True)), strict=True):
                yield row[width], row[width + 1], row[:width]


def _column(schema: Schema, name: str) -> NestedField:
    own = [f for f in schema.fields if f.name == name]
    return own[0] if own else METADATA_COLUMNS[name]


def spec_sources(spec: Any) -> set[int]:
    return {source for f in spec.fields for source in f.source_ids}


def manifests(table: Table, head: Snapshot) -> None:
    """A manifest list and a summary say what the entries say."""
    live: list[ManifestEntry] = []
    for manifest in manifests_of(table, head):
        entries = list(entries_of(table, manifest))
        assert list(_contradictions(table, manifest, entries)) == []
        live += [e for e in entries if e.status is not EntryStatus.DELETED]
        if table.metadata.format_version >= 3 and manifest.content is ManifestContent.DATA and head.first_row_id is not None:
            assert manifest.first_row_id is not None
    files = [e.data_file for e in live]
    deletes = [f for f in files if f.content is not FileContent.DATA]
    data = [f for f in files if f.content is FileContent.DATA]
    by_position = [f for f in deletes if f.content is FileContent.POSITION_DELETES]
    totals = {
        "total-data-files": len(data),
        "total-records": sum(f.record_count for f in data),
        "total-delete-files": len(deletes),
        "total-position-deletes": sum(f.record_count for f in by_position),
        "total-equality-deletes": sum(f.record_count for f in deletes if f not in by_position),
        "total-files-size": sum(f.content_size_in_bytes or f.file_size_in_bytes for f in files),
    }
    told = {name: int(head.summary[name]) for name in totals if name in head.summary}
    assert told == {name: totals[name] for name in told}


def _contradictions(table: Table, manifest: ManifestFile, entries: list[ManifestEntry]) -> Iterator[str]:
    for status, count, rows in (
        (EntryStatus.ADDED, manifest.added_files_count, manifest.added_rows_count),
        (EntryStatus.EXISTING, manifest.existing_files_count, manifest.existing_rows_count),
        (EntryStatus.DELETED, manifest.deleted_files_count, manifest.deleted_rows_count),
    ):
        found = [e.data_file.record_count for e in entries if e.status is status]
        if (count, rows) != (len(found), sum(found)):
            yield f"{status}: {count} files, {rows} rows, not {len(found)} and {sum(found)}"
    live = [e for e in entries if e.status is not EntryStatus.DELETED]
    if live and manifest.min_sequence_number > min(e.sequence_number or 0 for e in live):
        yield f"min_sequence_number {manifest.min_sequence_number}"
    spec = table.metadata.specs_by_id[manifest.partition_spec_id]
    types = [f.type for f in spec.partition_type(table.metadata.all_fields_by_id).fields]
    for place, (summary, type_) in enumerate(zip(manifest.partitions or (), types, strict=False)):
        values = [e.data_file.partition[place] for e in live]
        numbers = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
        if None in values and not summary.contains_null:
            yield f"{spec.fields[place].name} has nulls"
        if len(numbers) + values.count(None) < len(values) and summary.contains_nan is False:
            yield f"{spec.fields[place].name} has NaNs"
        low = summary.lower_bound and from_bytes(type_, summary.lower_bound)
        high = summary.upper_bound and from_bytes(type_, summary.upper_bound)
        for v in numbers:
            if (low and model.compared(v, low) < 0) or (high and model.compared(v, high) > 0):
                yield f"{spec.fields[place].name} has {v!r}, not within {low!r} and {high!r}"
