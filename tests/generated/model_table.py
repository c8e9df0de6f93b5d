"""A table, generated statements, jobs and foreign writers on it, beside the model of its rows.

Every act changes the table and the model, each by its own means; the model never asks the package what the rows are. An act that
is refused by a typed error must leave the table as it was. ``test_model.py`` compares both after every act.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.serde.json.name_mapping_json import name_mapping_to_json
from iceberg_ops.spec.fresh_ids import with_fresh_ids
from iceberg_ops.spec.name_mapping import create_name_mapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, LONG, MISSING, STRING, IcebergType, NestedField
from iceberg_ops.table.table import Table
from tests.actions.rows_place import RowsPlace
from tests.data.files import batch_of
from tests.generated import model
from tests.generated.drawing import Draw
from tests.generated.model import Condition, Stored, Values, row_of

Rows = dict[int, Values]
"""By id: the required column ``id``, whose field id is 1 and whose values never repeat."""
PROPERTIES = (
    *({"write.metadata.metrics.default": mode} for mode in ("full", "counts", "none", "truncate(2)")),
    {"write.delete.granularity": "partition"},
    {"write.parquet.row-group-size-bytes": "400"},
    {"write.format.default": "avro"},
)


@dataclass
class Line:
    """A branch: its rows, and what it last showed of their lineage."""

    rows: Rows = field(default_factory=dict)
    lineage: dict[int, tuple[int, int]] = field(default_factory=dict)


class ModelTable:
    """``statement`` runs the row operations; the other jobs run on lane local. ``for_spark``: only types that Spark has."""

    def __init__(
        self, draw: Draw, folder: Path, statement: Callable[[JobSpec], ActionReport] = run_job, *, for_spark: bool = False
    ) -> None:
        self.draw, self.statement, self.numbers = draw, statement, itertools.count(1)
        self.version = draw.choice([1, 2, 2, 3, 3])
        more = () if for_spark else model.OF_NO_ENGINE
        self.plain: tuple[IcebergType, ...] = (*model.OF_SPARK, *more)
        self.later = () if for_spark else model.OF_V3
        self.place = RowsPlace.at(folder)
        ids = itertools.count(2)
        columns = [NestedField(next(ids), f"c{i}", with_fresh_ids(self.type(), ids.__next__)) for i in range(draw.randint(2, 4))]
        properties = {"format-version": str(self.version)}
        for some in draw.sample(PROPERTIES, draw.randint(0, 3)):
            properties |= some
        schema = Schema.of(NestedField(1, "id", LONG, True), *columns, identifier_field_ids=(1,))
        self.place.catalog.create_table(("db", "t"), schema, properties=properties)
        if draw.often(0.6):
            mapping = name_mapping_to_json(create_name_mapping(self.table.schema))
            self.commit(UpdateProperties(updates={"schema.name-mapping.default": mapping}))
        self.branch, self.lines, self.tags = "main", {"main": Line()}, dict[str, int]()
        self.added: set[int] = set()
        self.changed: set[int] = set()
        """Ids of the rows that the last act added, and of those that it gave other values."""
        self.held: dict[int, Rows] = {}
        """The rows of each snapshot that was a head and was read."""

    @property
    def table(self) -> Table:
        return self.place.table()

    @property
    def rows(self) -> Rows:
        return self.lines[self.branch].rows

    @property
    def head(self) -> int | None:
        found = self.table.metadata.branch_head(self.branch)
        return None if found is None else found.snapshot_id

    def commit(self, operation: Any) -> None:
        commit(self.place.catalog, self.table, operation)

    def job(self, name: str, **parts: Any) -> ActionReport:
        return self.place.run(name, **({} if self.branch == "main" else {"branch": self.branch}), **parts)

    def run(self, name: str, **parts: Any) -> ActionReport:
        spec = JobSpec(job=name, table="test.db.t", catalog=self.place.config, lane="local", branch=self.branch, **parts)
        return self.statement(spec)

    def earlier(self) -> list[int]:
        """Snapshots below the branch's head whose rows are known."""
        metadata = self.table.metadata
        return [s.snapshot_id for s in metadata.ancestors(self.head) if s.snapshot_id in self.held][1:]

    def number(self) -> int:
        return next(self.numbers)

    def type(self) -> IcebergType:
        later = () if self.version < 3 else self.later
        return model.type_of(self.draw, (*self.plain, *later))

    # Rows

    def new_rows(self, ids: Iterable[int] = ()) -> Rows:
        ids = list(ids) or [self.number() for _ in range(self.draw.randint(1, 6))]
        fields = self.table.schema.fields
        return {i: {f.field_id: Stored(LONG, i) if f.field_id == 1 else model.value(self.draw, f) for f in fields} for i in ids}

    def batch(self, rows: Rows) -> pa.RecordBatch:
        schema = self.table.schema
        return batch_of(schema, [row_of(schema, values) for values in rows.values()])

    def plain_rows(self, rows: Rows) -> pa.Table:
        """As writers write them that know no Iceberg: without ids, and without columns that Parquet cannot store."""
        made = pa.Table.from_batches([self.batch(rows)])
        kept = [f.name for f in self.table.schema.fields if not model.is_in_no_source(f.type)]
        return made.select(kept).cast(pa.schema([_plain(made.schema.field(name)) for name in kept]))

    def source(self, rows: Rows, *, leave_out: bool = False) -> Source:
        """``rows`` get what the statement stores for columns that the source lacks."""
        made = self.plain_rows(rows)
        lacking = [f for f in self.table.schema.fields if f.name not in made.schema.names]
        if leave_out and (found := self.spare_columns(lambda f: f.write_default)):
            lacking.append(f := self.draw.choice(found))
            made = made.drop_columns([f.name]) if f.name in made.schema.names else made
        path = self.place.folder / f"source-{self.number()}.parquet"
        pq.write_table(made, path, row_group_size=self.draw.choice([1, 2, 100]))
        for values in rows.values():
            values |= {f.field_id: _default(f.type, f.write_default) for f in lacking}
        return Source(format="parquet", paths=[str(path)])

    def spare_columns(self, default_of: Callable[[NestedField], Any]) -> list[NestedField]:
        """Columns that a writer may leave out."""
        fields = self.table.schema.fields
        return [f for f in fields if f.field_id > 1 and (not f.required or default_of(f) is not MISSING)]

    def has(self, rows: Rows, changed: Iterable[int] = ()) -> None:
        """The act left these rows, beside those of other ids."""
        self.changed = set(changed)
        self.added = set(rows) - set(self.rows)
        self.rows.update(rows)

    def some(self, most: int = 4) -> list[int]:
        return self.draw.sample(sorted(self.rows), min(len(self.rows), self.draw.randint(1, most)))

    def matching(self, where: Condition) -> list[int]:
        schema = self.table.schema
        return [i for i, values in self.rows.items() if where.keeps(row_of(schema, values))]

    def condition(self) -> Condition:
        return model.condition(self.draw, self.table.schema)

    def mode(self) -> Any:
        return self.draw.choice(["copy-on-write", *(["merge-on-read"] if self.version > 1 else [])])

    # Statements

    def append(self) -> str:
        rows = self.new_rows()
        source = self.source(rows, leave_out=self.draw.often(0.3))
        if self.draw.often(0.7):
            self.run("append", source=source)
            self.has(rows)
            return "append"
        name = f"wap{self.number()}"
        self.run("append", source=source, options={"wap-id": name})
        self.commit(CherryPick(branch=self.branch, wap_id=name))
        self.has(rows)
        return "append and publish"

    def overwrite(self) -> str | None:
        """By a condition on ids, whose files may have other rows too (then it is refused)."""
        rows, gone = self.new_rows(), self.some() if self.rows else []
        source = self.source(rows)
        self.run("overwrite", source=source, where=f"id IN ({', '.join(map(str, [*gone, *rows]))})")
        for i in gone:
            del self.rows[i]
        self.has(rows)
        return "overwrite"

    def overwrite_partitions(self) -> str | None:
        table = self.table
        spec, columns = table.metadata.spec, {s.field.field_id: s for s in model.singles(table.schema)}
        if any(not ((f.transform.is_identity and f.source_id in columns) or f.transform.is_void) for f in spec.fields):
            return None
        rows = self.new_rows()
        source = self.source(rows)

        def partition(values: Values) -> Any:
            row = row_of(table.schema, values)
            return tuple(None if f.transform.is_void else model.comparable(columns[f.source_id].of(row)) for f in spec.fields)

        taken = {partition(values) for values in rows.values()}
        gone = [
            i
            for i, spec_id, found in self.partitions()
            if spec.is_unpartitioned or (spec_id == spec.spec_id and model.comparable(found) in taken)
        ]
        self.run("overwrite", source=source)
        for i in gone:
            del self.rows[i]
        self.has(rows)
        return "overwrite partitions"

    def partitions(self) -> list[tuple[int, int, Any]]:
        """Id, spec and partition of every row, by id: a seed draws the same rows whatever the order of files is."""
        found = scan_table(self.table, Scan.of_branch(self.branch), ["id", "_file"]).sort_by("id").to_pylist()
        files = {t.file_path: t.data_file for t in plan(self.table, Scan.of_branch(self.branch)).tasks}
        return [(r["id"], files[r["_file"]].spec_id, files[r["_file"]].partition) for r in found]

    def delete(self) -> str:
        where, mode = self.condition(), self.mode()
        gone = self.matching(where)
        self.run("delete", where=where.text, change=RowChange(mode=mode))
        for i in gone:
            del self.rows[i]
        return f"delete {mode}"

    def update(self) -> str | None:
        """A column becomes a literal, NULL, its default or another column."""
        schema = self.table.schema
        plain = [s for s in model.singles(schema) if len(s.path) == 1 and s.field.field_id > 1]
        targets = [s for s in plain if not s.field.required]
        if not targets:
            return None
        where, mode, target = self.condition(), self.mode(), self.draw.choice(targets)
        others = [s for s in plain if s.field.type == target.field.type]
        choices: list[tuple[str, Callable[[model.Row], Any]]] = [
            ("NULL", lambda row: None),
            ("DEFAULT", lambda row: _shown_default(target.field)),
            *[(other.name, other.of) for other in others],
            *([("'new'", lambda row: "new")] if target.field.type == STRING else []),
            *([("5", lambda row: 5)] if target.field.type in (INT, LONG) else []),
        ]
        text, new = self.draw.choice(choices)
        changed = self.matching(where)
        self.run("update", where=where.text, change=RowChange(mode=mode, set={target.field.name: text}))
        for i in changed:
            found = new(row_of(schema, self.rows[i]))
            self.rows[i] = self.rows[i] | {target.field.field_id: model.stored_as_shown(target.field.type, found)}
        self.has({}, changed)
        return f"update {mode}"

    def source_rows(self) -> Rows:
        return self.new_rows([*(self.some() if self.rows else []), *(self.number() for _ in range(self.draw.randint(1, 2)))])

    def merge(self) -> str:
        rows, mode = self.source_rows(), self.mode()
        columns = [f for f in self.table.schema.fields if not model.is_in_no_source(f.type)]
        given = {f.name: f"source.{model.quoted(f.name)}" for f in columns}
        clauses: list[MergeClause] = []
        limits: list[int] = []
        for _ in range(self.draw.randint(1, 4)):
            when, action = self.draw.choice(
                [("matched", "update"), ("matched", "delete"), ("not-matched", "insert"), ("not-matched-by-source", "delete")]
            )
            limit = self.draw.choice([10**6, self.draw.randint(0, 40)])
            text = None if limit == 10**6 else f"{'source' if when == 'not-matched' else 'target'}.id <= {limit}"
            assignments = None if action == "delete" else given
            clauses.append(MergeClause(when=when, action=action, condition=text, assignments=assignments))  # type: ignore[arg-type]
            limits.append(limit)
        source = self.source(rows)
        self.run("merge", source=source, change=RowChange(mode=mode, on="target.id = source.id", clauses=clauses))

        def action_on(i: int, when: str) -> str | None:
            found = (c.action for c, limit in zip(clauses, limits, strict=True) if c.when == when and i <= limit)
            return next(found, None)

        changed, added = set[int](), dict[int, Values]()
        for i in list(self.rows):
            done = action_on(i, "matched" if i in rows else "not-matched-by-source")
            if done == "update":
                self.rows[i] = self.rows[i] | {f.field_id: rows[i][f.field_id] for f in columns}
                changed.add(i)
            elif done == "delete":
                del self.rows[i]
                rows.pop(i, None)
        for i in rows:
            if i not in self.rows and action_on(i, "not-matched") == "insert":
                added[i] = rows[i]
        self.has(added, changed)
        return f"merge {mode}"

    def upsert(self) -> str | None:
        if self.version < 2:
            return None
        rows = self.source_rows()
        source = self.source(rows)
        self.run("upsert", source=source)
        self.replaced(rows)
        return "upsert"

    def restore(self) -> str | None:
        """Rows of an earlier snapshot, of the same columns, replace those of today by their ids."""
        metadata = self.table.metadata
        found = [s for s in self.earlier() if metadata.snapshot(s).schema_id == metadata.current_schema_id and self.held[s]]
        if self.version < 2 or not found:
            return None
        snapshot_id = self.draw.choice(found)
        fields = metadata.schema.fields
        rows = {
            i: {f.field_id: model.stored_as_shown(f.type, v) for f, v in zip(fields, row_of(metadata.schema, values), strict=True)}
            for i, values in self.held[snapshot_id].items()
        }
        self.run("upsert", source=Source(format="table", table="test.db.t", snapshot_id=snapshot_id))
        self.replaced(rows)
        return "restore"

    def replaced(self, rows: Rows) -> None:
        for i in rows:
            self.rows.pop(i, None)
        self.has(rows)


def _shown_default(f: NestedField) -> Any:
    return None if f.write_default is MISSING else f.write_default


def _default(type_: IcebergType, default: Any) -> Any:
    return None if default is MISSING else model.stored_as_shown(type_, default)


def _plain(f: pa.Field) -> pa.Field:
    return pa.field(f.name, _plain_type(f.type), f.nullable)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([_plain(f) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain(type_.item_field))
    return pa.list_(_plain(type_.value_field)) if pa.types.is_list(type_) else type_
