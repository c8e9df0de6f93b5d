"""Row operations on TPC-H lineitem, by this package and by Iceberg Java in one Spark session (``local[2]``).

Lines: ``mor-delete``, ``mor-update``, ``mor-merge``, ``cow-delete``, ``cow-update``, ``cow-merge`` (1 % of the rows, 1 %, and a
source of 0.25 % of which a third is new; the rows are spread over all files), and ``ingest`` of the whole table from Parquet. Runs,
warm-ups and scale are those of ``rewrite``. After the last run Java reads both tables: row counts and sums of row hashes must
agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import lineitem
from benchmarks.java_peer import CATALOG, NAMESPACE, SharedLake
from benchmarks.side_by_side import Side, compare
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from spark_jobs.jobs.dispatch import run as run_job

_MODES = {"mor": "merge-on-read", "cow": "copy-on-write"}
_CHOSEN = "pmod(l_orderkey * 7 + l_linenumber, 100) = 17"
_SET = {"l_quantity": "l_quantity + 1", "l_comment": "concat(l_comment, '!')"}
_ON = "target.l_orderkey = source.l_orderkey AND target.l_linenumber = source.l_linenumber"
LINES = (*(f"{mode}-{statement}" for mode in _MODES for statement in ("delete", "update", "merge")), "ingest")


def run(lines: Sequence[str] = LINES) -> Iterator[dict[str, Any]]:
    """One record for each of ``lines``, as they complete."""
    lake = lineitem.lake()
    try:
        for line in lines:
            yield _ingest(lake) if line == "ingest" else _statement(lake, *line.split("-"))
    finally:
        lake.close()


def _statement(lake: SharedLake, short: str, statement: str) -> dict[str, Any]:
    mode = _MODES[short]
    parts, sql = _STATEMENTS[statement](lake, mode)

    def java(table: str) -> None:
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.{statement}.mode' = '{mode}')")
        lake.sql(sql.format(table=table))

    mine = Side(lambda table: run_job(lake.session, JobSpec(job=statement, table=table, catalog=lake.config, **parts)))
    return compare(lake, f"{short}-{statement}", lineitem.plain(lake), mine, Side(java), read_by_java)


def _delete(lake: SharedLake, mode: Any) -> tuple[Mapping[str, Any], str]:
    return {"where": _CHOSEN, "change": RowChange(mode=mode)}, f"DELETE FROM {{table}} WHERE {_CHOSEN}"


def _update(lake: SharedLake, mode: Any) -> tuple[Mapping[str, Any], str]:
    assigned = ", ".join(f"{name} = {value}" for name, value in _SET.items())
    return {"where": _CHOSEN, "change": RowChange(mode=mode, set=_SET)}, f"UPDATE {{table}} SET {assigned} WHERE {_CHOSEN}"


def merge_parts(lake: SharedLake, mode: Any) -> tuple[Mapping[str, Any], str]:
    """The statement as parts of a job, and as SQL."""
    path = lineitem.changes(lake)
    clauses = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
    parts = {
        "source": Source(format="parquet", paths=[str(path)]),
        "change": RowChange(mode=mode, on=_ON, clauses=clauses),
    }
    matched = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    return parts, f"MERGE INTO {{table}} AS target USING parquet.`{path}` AS source ON {_ON} {matched}"


_STATEMENTS: dict[str, Callable[[SharedLake, Any], tuple[Mapping[str, Any], str]]] = {
    "delete": _delete,
    "update": _update,
    "merge": merge_parts,
}


def _ingest(lake: SharedLake) -> dict[str, Any]:
    path = lineitem.raw()
    source = Source(format="parquet", paths=[str(path)])
    mine = Side(lambda table: run_job(lake.session, JobSpec(job="append", table=table, catalog=lake.config, source=source)))
    java = Side(lambda table: lake.sql(f"INSERT INTO {table} SELECT * FROM parquet.`{path}`"))
    return compare(lake, "ingest", lineitem.empty(lake), mine, java, read_by_java)


def read_by_java(lake: SharedLake, name: str) -> tuple[int, int]:
    """The number of rows of a table read by Java, and the sum of their hashes."""
    columns = ", ".join(f"`{f.name}`" for f in lake.catalog.load_table((NAMESPACE, name)).schema.fields)
    table = f"{CATALOG}.{NAMESPACE}.{name}"
    rows, total = lake.sql(f"SELECT count(*), sum(CAST(xxhash64({columns}) AS DECIMAL(38, 0))) FROM {table}")[0]
    return int(rows), int(total or 0)
