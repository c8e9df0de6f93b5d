"""Only the deletion package deletes files, and only it and the stores have the code to do so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("iceberg_ops", "spark_jobs", "plugins", "dags")
DELETES = frozenset({"delete", "delete_many"})
"""Methods of a FileIO. Nothing else in the product has methods of these names."""
REMOVES = frozenset({"unlink", "remove", "rmdir", "rmtree", "removedirs"})
"""Functions of ``os``, ``shutil`` and ``pathlib``."""
STORES = frozenset(f"iceberg_ops/io/{name}.py" for name in ("local", "memory", "mapped", "resolving", "wrapped")) | frozenset(
    f"iceberg_ops/io/{name}.py"
    for name in (
        "stores/creation",
        "stores/deletes",
        "stores/object_store",
        "hdfs/hdfs_file_io",
        "hdfs/hdfs_output",
        "hdfs/cluster",
    )
)
OWN_DOCUMENTS = frozenset(
    f"plugins/iceberg_airflow/{name}.py" for name in ("guard", "job_folder", "job_sweep", "policy_operators", "processes")
) | {
    "iceberg_ops/actions/workers/worker_main.py",
    "iceberg_ops/actions/workers/worker_processes.py",
    "iceberg_ops/io/output_places.py",
    "spark_jobs/jobs/interrupts.py",
}
"""Folders of jobs, temporary folders, pipes and unfinished outputs of this machine, which hold no file of any table."""


def calls(path: Path) -> Iterator[tuple[str, str, int]]:
    """(receiver, method, line) of every call of an attribute."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr, node.lineno


def modules() -> Iterator[tuple[str, Path]]:
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def test_no_other_module_calls_the_delete_of_a_file_io() -> None:
    found = [
        f"{name}:{line}: {receiver}.{method}"
        for name, path in modules()
        if name not in STORES and not name.startswith("iceberg_ops/deletion/")
        for receiver, method, line in calls(path)
        if method in DELETES
    ]
    assert found == []


def test_only_the_stores_remove_files_and_folders_of_this_machine() -> None:
    found = [
        f"{name}:{line}: {receiver}.{method}"
        for name, path in modules()
        if name not in STORES | OWN_DOCUMENTS
        for receiver, method, line in calls(path)
        if method in REMOVES and (receiver in ("os", "shutil", "pathlib") or method in ("unlink", "rmtree"))
    ]
    assert found == []


def test_the_test_sees_calls(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("table.io.delete_many([x])\nself._io.delete(x)\nos.unlink(x)\n")
    assert [(r, m) for r, m, _ in calls(tmp_path / "m.py")] == [
        ("table.io", "delete_many"),
        ("self._io", "delete"),
        ("os", "unlink"),
    ]
