"""Compaction of little data, by this package and Iceberg Java: ``small-warm`` (8 files, 17 MB, both in running processes; this
package without Spark), ``small-cold`` (the same from a cold start: ``iceberg-ops run`` against ``spark-sql -e CALL``), and
``many-small-partitions`` (100 partitions of 30 files of 100 rows, both on Spark).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyspark

from benchmarks import lineitem
from benchmarks.java_peer import CATALOG, SharedLake
from benchmarks.side_by_side import Side, compare, ours, theirs

LINES = ("small-warm", "small-cold", "many-small-partitions")
_ALL = "options => map('rewrite-all', 'true')"


def run(lines: Sequence[str] = LINES) -> Iterator[dict[str, Any]]:
    """One record for each of ``lines``, as they complete."""
    lake = lineitem.lake()
    try:
        for line in lines:
            yield _WORKS[line](lake)
    finally:
        lake.close()


def _warm(lake: SharedLake) -> dict[str, Any]:
    mine = Side(lambda table: ours(lake, table, {"rewrite-all": "true"}, spark=False))
    return compare(lake, "small-warm", lineitem.small(lake), mine, Side(lambda table: theirs(lake, table, _ALL)))


def _cold(lake: SharedLake) -> dict[str, Any]:
    return compare(
        lake, "small-cold", lineitem.small(lake), Side(lambda t: _by_cli(lake, t)), Side(lambda t: _by_spark_sql(lake, t), 0)
    )


def _many(lake: SharedLake) -> dict[str, Any]:
    mine, java = Side(lambda table: ours(lake, table, {})), Side(lambda table: theirs(lake, table, "options => map()"))
    return compare(lake, "many-small-partitions", lineitem.many_partitions(lake), mine, java)


def _by_cli(lake: SharedLake, table: str) -> None:
    catalogs = lake.folder / "catalogs.yml"
    catalogs.write_text(json.dumps({"catalogs": [{"name": CATALOG, "type": "sql", "properties": lake.config.properties}]}))
    environment = {**os.environ, "ICEBERG_OPS_CATALOGS": str(catalogs)}
    program = str(Path(sys.executable).with_name("iceberg-ops"))
    command = [program, "run", "rewrite_data_files", table, "--option", "rewrite-all=true"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def _by_spark_sql(lake: SharedLake, table: str) -> None:
    home = Path(pyspark.__file__).parent
    program = [str(home / "bin" / "spark-sql"), "--master", "local[2]"]
    for key, value in lake.spark_configuration().items():
        program += ["--conf", f"{key}={value}"]
    call = f"CALL {CATALOG}.system.rewrite_data_files(table => '{table.partition('.')[2]}', {_ALL})"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))} | {"SPARK_HOME": str(home)}
    quiet = subprocess.DEVNULL
    subprocess.run([*program, "-e", call], env=environment, check=True, cwd=lake.folder, stdout=quiet, stderr=quiet)


_WORKS = {"small-warm": _warm, "small-cold": _cold, "many-small-partitions": _many}
