"""Rules for a folder of DAG files: they load without a catalog, a table or an engine, are thin, and have an owner and a
description."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = ("__future__", "airflow.sdk", "datetime", "iceberg_airflow", "iceberg_ops.config", "os", "pathlib", "typing")
HEAVY = (
    *("pyarrow", "pandas", "polars", "pyspark", "fastavro", "sqlglot", "demo", "iceberg_ops.actions", "iceberg_ops.table"),
    *("iceberg_ops.scan", "iceberg_ops.data", "iceberg_ops.commit", "iceberg_ops.catalog"),
)


class DagFolderSuite:
    """Inherited by the tests of a folder, which give ``folder`` and the ``ids`` of its DAGs."""

    folder: Path
    ids: frozenset[str]

    @pytest.fixture(scope="class")
    @classmethod
    def bag(cls) -> DagBag:
        return DagBag(str(cls.folder))

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.py"))

    def test_every_file_loads(self, bag: DagBag) -> None:
        assert bag.import_errors == {}
        assert set(bag.dags) == self.ids

    def test_a_dag_has_owner_tags_documentation_retries_and_a_time_limit(self, bag: DagBag) -> None:
        for dag in bag.dags.values():
            assert dag.tags
            assert dag.doc_md
            assert not dag.catchup
            for task in dag.tasks:
                assert task.owner == "data-platform", task.task_id
                assert task.retries >= 1, task.task_id
                assert task.execution_timeout, task.task_id

    def test_tasks_retry_by_the_kind_of_error(self, bag: DagBag) -> None:
        assert [task.task_id for dag in bag.dags.values() for task in dag.tasks if task.retry_policy is None] == []

    def test_a_dag_survives_serialization(self, bag: DagBag) -> None:
        for dag_id, dag in bag.dags.items():
            document = json.loads(json.dumps(DagSerialization.to_dict(dag)))
            assert DagSerialization.from_dict(document).dag_id == dag_id

    def test_a_dag_file_is_thin(self) -> None:
        for path in self.files:
            tree = ast.parse(path.read_text())
            assert sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) < 40, path
            assert not [n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)], path

    def test_a_dag_file_imports_only_the_authoring_interface(self) -> None:
        top_level = {
            (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
            for path in self.files
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert [m for m in top_level if not m.startswith(ALLOWED)] == []

    def test_parsing_loads_no_engine_and_no_heavy_library(self) -> None:
        program = f"""
import runpy, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "plugins")!r}]
for path in {[str(p) for p in self.files]!r}:
    runpy.run_path(path)
print([m for m in {HEAVY!r} if m in sys.modules])
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.stdout.strip().splitlines()[-1:] == ["[]"], done.stderr[-2000:]
