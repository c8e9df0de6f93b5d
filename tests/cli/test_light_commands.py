"""Commands that read no row load no Arrow, no engine and no host: they answer as fast as Python starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.builders import data_file

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("obstore", "pyarrow", "numpy", "pandas", "pyspark", "airflow", "sqlglot")

PROGRAM = """
import json, sys
sys.argv = ["iceberg-ops", *json.loads(sys.argv[1])]
from iceberg_ops.cli.main import main
try:
    main()
except SystemExit as e:
    print(json.dumps([e.code, sorted(sys.modules)]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with a table of four snapshots, and a policy."""
    folder = tmp_path_factory.mktemp("light")
    properties = {"warehouse": str(folder / "warehouse")}
    (folder / "catalogs.yml").write_text(
        json.dumps({"catalogs": [{"name": "lake", "type": "filesystem", "properties": properties}]})
    )
    (folder / "policy.yml").write_bytes((ROOT / "dags" / "policies" / "maintenance.yml").read_bytes())
    catalog = load_catalog(CatalogConfig(name="lake", type="filesystem", properties=properties))
    catalog.create_namespace(("web",))
    table = catalog.create_table(("web", "events"), Schema.of(NestedField(1, "id", LONG)))
    for i in range(4):
        added = data_file(f"{table.location}/data/{i}.parquet")
        table.io.write(added.file_path, bytes(added.file_size_in_bytes))
        table = commit(catalog, table, AppendFiles(added=(added,))).table
    return folder


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--help", 0),
        ("run --help", 0),
        ("inspect lake.web.events snapshots", 0),
        ("inspect lake.web.events files", 0),
        ("policy lint policy.yml", 0),
        ("policy explain policy.yml lake.web.events", 0),
        ("plan expire_snapshots lake.web.events --option older-than=1s --option retain-last=3", 2),
        ("run expire_snapshots lake.web.events --option older-than=1s --option retain-last=3", 0),
        ("run rewrite_manifests lake.web.events", 0),
        ("run remove_orphan_files lake.web.events", 0),
    ],
)
def test_a_command_that_reads_no_row_loads_nothing_heavy(command: str, code: int, folder: Path) -> None:
    assert [name for name in HEAVY if name in modules_of(command, code, folder)] == []


@pytest.mark.parametrize("command", ["--help", "inspect lake.web.events snapshots", "inspect lake.web.events refs"])
def test_a_command_that_reads_no_manifest_loads_no_decoder_of_avro(command: str, folder: Path) -> None:
    assert "fastavro" not in modules_of(command, 0, folder)


def modules_of(command: str, code: int, folder: Path) -> list[str]:
    """What a command has loaded when it ends, with the expected code."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ICEBERG_OPS_")} | {"PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", PROGRAM, json.dumps(command.split())]
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    ended, modules = json.loads(done.stderr.splitlines()[-1])
    assert ended == code, done.stderr[:2000]
    return [str(module) for module in modules]
