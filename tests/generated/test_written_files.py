"""Written files match their recorded metadata: order, bounds, counts, partition, ids, sizes, offsets (SORT-05, PART-01, PART-15).

First the writer alone on any schema, spec, order and rows; then the lanes that use it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.groups.group_works import make_group_works
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, Source
from iceberg_ops.config.options import rewrite_data_files_options
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.data.rewriting.staged_sort import sorted_in_stages
from iceberg_ops.data.sorting.sorted_writer import SortedWriter
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.planning.rewrite_data_files import plan_rewrite_data_files
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.serde.json.content_file_json import data_file_from_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID
from iceberg_ops.spec.metrics_config import MetricsConfig
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.spec.types import StructType
from iceberg_ops.table.table import Table
from tests.data.files import batch_of, new_io
from tests.generated import judge, tables
from tests.generated.drawing import Draw, for_each_seed, missing

KIND, CASES = "written files", 200
_TRANSFORMS = ("identity", "void", "year", "month", "day", "hour", "bucket", "truncate")
_DIRECTIONS = [f"sort {direction} {nulls}" for direction in ("asc", "desc") for nulls in ("nulls-first", "nulls-last")]
_PAIRS = ("sort bucket(decimal)", "sort truncate(decimal)", "sort truncate(binary)", "partition truncate(decimal)")
WANTED = {f"{what} {name}" for what in ("sort", "partition") for name in _TRANSFORMS} | {*_DIRECTIONS, *_PAIRS}
METRICS = ("full", "truncate(16)", "truncate(1)", "counts", "none")


def context_of(draw: Draw, schema: Schema, order: SortOrder) -> WriteContext:
    spec = tables.spec(draw, schema)
    properties = {"write.metadata.metrics.default": draw.choice(METRICS)}
    if draw.often(0.3):
        properties["write.parquet.row-group-size-bytes"] = str(draw.choice([100, 1000]))
    draw.note(f"metrics {properties['write.metadata.metrics.default']}")
    return WriteContext(
        schema=schema,
        spec=spec,
        properties=properties,
        table_location="memory://wh/t",
        format_version=3,
        sort_order=None if order.is_unsorted else order,
        default_sort_order=order,
    )


def wrong(files: list[DataFile], context: WriteContext, io: FileIO) -> list[str]:
    order = context.sort_order or UNSORTED
    return [
        f"{f.file_path}: {what}"
        for f in files
        for what in judge.contradictions(f, context.schema, context.spec, order, context.metrics, io)
    ]


def all_rows(files: list[DataFile], schema: Schema, io: FileIO) -> list[str]:
    return sorted(repr(row) for f in files for row in judge.rows_of_file(f, schema, io))


def check(draw: Draw, _folder: Path | None = None) -> None:
    schema = tables.schema(draw)
    context = context_of(draw, schema, tables.sort_order(draw, schema))
    rows, io = tables.rows(draw, schema), new_io()
    options: dict[str, Any] = {"operation_id": "op"}
    if context.sort_order is None:
        writer: PartitionedWriter | SortedWriter = PartitionedWriter(context, io, target_size=draw.choice([None, 400]), **options)
    else:
        memory = draw.choice([1 << 28, 5000, 300])
        draw.note("sorted in memory" if memory > 5000 else "sort spilled")
        writer = SortedWriter(context, io, memory_limit=memory, **options)
    try:
        for start in range(0, len(rows), step := draw.choice([1000, 7, 20])):
            writer.write(batch_of(schema, rows[start : start + step]))
        files = writer.close()
    except DataError as e:
        # A partition value that its type does not hold: the least decimals of a precision.
        assert "lies outside" in str(e)  # noqa: PT017
        writer.abort()
        draw.note("refused")
        return
    assert not (found := wrong(files, context, io)), found
    assert all_rows(files, schema, io) == sorted(map(repr, rows))
    if context.sort_order is not None:
        assert {f.sort_order_id for f in files} == {context.sort_order.order_id}
    draw.note(*(["several files"] if len(files) > 1 else []))


def test_every_file_is_what_is_recorded_of_it() -> None:
    for_each_seed(KIND, CASES, check)
    assert missing(KIND, WANTED | {"sort spilled", "several files", *(f"metrics {m}" for m in METRICS)}) == set()


LANES, CASES_OF_LANES = "written by lane local", 25
PARTITIONED, SORTED = (*tables.TRANSFORM_NAMES, *[""] * 4), (*tables.TRANSFORM_NAMES, *[""] * 3)
"""The first transform of each, by the seed: 25 seeds have all of them, and most pairs are different ones."""


def rows_as_arrow(schema: Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_batches([batch_of(schema, rows)])


def table_of(draw: Draw, folder: Path, schema: Schema, spec: PartitionSpec, order: SortOrder) -> tuple[FileSystemCatalog, Table]:
    catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=str(folder))
    catalog.create_namespace(("db",))
    properties = {"format-version": "3", "write.metadata.metrics.default": draw.choice(METRICS[:3])}
    return catalog, catalog.create_table(("db", "t"), schema, spec=spec, sort_order=order, properties=properties)


def wrong_in_table(table: Table, files: list[DataFile], schema: Schema) -> list[str]:
    metadata, metrics = table.metadata, MetricsConfig.for_table(table.metadata)
    return [
        f"{f.file_path}: {what}"
        for f in files
        for what in judge.contradictions(f, schema, metadata.spec, metadata.sort_order, metrics, table.io)
    ]


def live_files(table: Table) -> list[DataFile]:
    return [task.data_file for task in plan(table, Scan()).tasks]


def check_lane_local(draw: Draw, root: Path) -> None:
    folder = root / str(draw.seed)
    of = draw.turn(PARTITIONED), draw.turn(SORTED)
    wanted = tables.schema(draw, of=of)
    spec, order = tables.spec(draw, wanted, of[0]), tables.sort_order(draw, wanted, of[1])
    catalog, table = table_of(draw, folder, wanted, spec, order)
    schema, rows = table.schema, tables.rows(draw, wanted)
    parts = [rows[i::3] for i in range(3) if rows[i::3]]
    try:
        for i, part in enumerate(parts):
            path = folder / f"in-{i}.parquet"
            pq.write_table(rows_as_arrow(schema, part), path, row_group_size=draw.choice([5, 100]))
            job = draw.choice(["append", "append", "overwrite"])
            run_local(job, catalog, path)
            draw.note(job)
    except (DataError, UnsupportedError) as e:
        # Beside values outside a type: a required value inside a null struct, which a footer cannot tell from a missing one.
        assert "lies outside" in str(e) or "holds nulls, or its statistics do not say" in str(e)  # noqa: PT017
        draw.note("refused")
        return
    table = catalog.load_table(("db", "t"))
    files = live_files(table)
    assert not (found := wrong_in_table(table, files, schema)), found
    sorted_ids = set() if table.metadata.sort_order.is_unsorted else {table.metadata.default_sort_order_id}
    assert {f.sort_order_id for f in files} - {None} == sorted_ids
    if sorted_ids:
        sorts(draw, table)
    draw.note(*tables.transforms_of(spec, order), *(["unpartitioned"] if spec.is_unpartitioned else []))


def test_files_of_lane_local_are_what_is_recorded_of_them(tmp_path: Path) -> None:
    """Append, overwrite and sorts in memory, on disk and in stages."""
    for_each_seed(LANES, CASES_OF_LANES, lambda draw: check_lane_local(draw, tmp_path))
    ways = {"append", "overwrite", "unpartitioned", "sorted in memory", "sorted on disk", "sorted in stages"}
    assert missing(LANES, tables.EVERY_TRANSFORM | ways) == set()


def run_local(job: str, catalog: FileSystemCatalog, path: Path) -> None:
    config = CatalogConfig(name="test", type="filesystem", properties={})
    source = Source(format="parquet", paths=[str(path)])
    run_job(JobSpec(job=job, table="test.db.t", catalog=config, lane="local", source=source), catalog=catalog)


def sorts(draw: Draw, table: Table) -> None:
    """Every group of the table sorted in three ways: the same rows, in files that are what is recorded of them."""
    options = rewrite_data_files_options({"strategy": "sort", "rewrite-all": "true"}, table.properties)
    plan_ = plan_rewrite_data_files(table, options)
    lineage = Schema(StructType((*table.schema.fields, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)))
    for work in make_group_works(plan_.groups, table.metadata, table.io, order=plan_.order, sizes=options.sizes, operation_id="op"):
        for how in ("in memory", "on disk", "in stages"):
            draw.note(f"sorted {how}")
            result = one_sort(replace(work, operation_id=how.replace(" ", "-")), how)
            files = [data_file_from_dict(found) for found in result.added]
            assert not (found := wrong_in_table(table, files, lineage)), found
            assert result.rows_in_order == result.rows_out == result.rows_in
            assert {f.sort_order_id for f in files} == {table.metadata.default_sort_order_id}


def one_sort(work: GroupWork, how: str) -> GroupResult:
    if how == "in stages":
        return sorted_in_stages(replace(work, ranges=2), 2, lambda stage, texts: [stage(text) for text in texts])
    return rewrite_group(work if how == "in memory" else replace(work, memory_limit_bytes=300))
