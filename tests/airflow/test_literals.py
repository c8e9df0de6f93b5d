"""A wrong literal in a DAG file is reported as its import error."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

import iceberg_airflow
from iceberg_airflow import IcebergAppendOperator, IcebergMergeOperator, IcebergOpsOperator, IcebergPlanOperator
from iceberg_ops.errors import OptionError

pytestmark = pytest.mark.airflow
FILES = {"format": "parquet", "paths": ["/x"]}
MAINTAIN = {"job": "rewrite_data_files", "table": "a.b"}
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (IcebergOpsOperator, {"job": "rewrite_datafiles", "table": "a.b"}, "no job 'rewrite_datafiles' (did you mean"),
    (IcebergPlanOperator, {"job": "vacuum", "table": "a.b"}, "there is no job 'vacuum': the jobs are rewrite_data_files, "),
    (IcebergOpsOperator, {**MAINTAIN, "lane": "sparc"}, "lane 'sparc' must be auto, local or spark (did you mean 'spark'?)"),
    (IcebergOpsOperator, {**MAINTAIN, "options": {"min-input-file": 2}}, "option min-input-file (did you mean 'min-input-files'"),
    (IcebergOpsOperator, {**MAINTAIN, "options": {"rewrite-all": "{{ x }}", "all": 1}}, "unknown option all: the options are "),
    (IcebergOpsOperator, {**MAINTAIN, "options": {5: True}}, "rewrite_data_files: unknown option 5: the options are "),
    (IcebergOpsOperator, {**MAINTAIN, "options": {"rewrite-all": "yes"}}, "option rewrite-all = 'yes': must be true or false"),
    (IcebergAppendOperator, {"table": "a.b", "source": FILES, "options": {"merge_schema": True}}, "(did you mean 'merge-schema'?)"),
    (
        IcebergMergeOperator,
        {"table": "a.b", "source": FILES, "on": "true", "clauses": [], "lane": "local "},
        "lane 'local ' must be auto, local or spark (did you mean 'local'?)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "fields", "said"), WRONG, ids=[said[:40] for _, _, said in WRONG])
def test_a_mistake_is_told_when_the_operator_is_made(make: Any, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        make(task_id="tidy", **fields)
    assert str(caught.value).startswith("test_literals.py:")
    assert "task 'tidy': " in str(caught.value)
    assert said in str(caught.value)


def test_a_mistake_in_a_mapped_operator_is_told_too() -> None:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        with pytest.raises(OptionError, match=r"test_literals.py:\d+: task 'tidy': there is no job 'rewrite_datafiles'"):
            IcebergOpsOperator.partial(task_id="tidy", job="rewrite_datafiles").expand(table=["a.b"])
        with pytest.raises(OptionError, match=r"append: unknown option merge_schema \(did you mean 'merge-schema'\?\)"):
            IcebergAppendOperator.partial(task_id="tidy", table="a.b", options={"merge_schema": True}).expand(source=[FILES])
        IcebergOpsOperator.partial(task_id="right", job="rewrite_data_files", options={"rewrite-all": True}).expand(table=["a.b"])


@pytest.mark.parametrize(
    "fields",
    [
        {"job": "{{ params.job }}", "table": "a.b", "options": {"any": "thing"}, "lane": "{{ params.lane }}"},
        {"job": "rewrite_data_files", "table": "a.b", "options": "{{ params.options }}"},
        {"job": "rewrite_data_files", "table": "a.b", "options": {"min-input-files": "{{ params.n }}", "rewrite-all": True}},
        {"job": "remove_orphan_files", "table": "a.b", "options": {"older-than": "3d"}},
        {"job": "rewrite_data_files", "table": "a.b", "options": {"min-file-size-bytes": "900MB"}},
    ],
    ids=str,
)
def test_what_a_template_or_the_table_gives_is_known_later(fields: dict[str, Any]) -> None:
    assert IcebergOpsOperator(task_id="t", **fields).table == "a.b"


def test_airflow_shows_file_line_and_what_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from airflow.sdk import DAG\n"
        "from iceberg_airflow import IcebergOpsOperator\n"
        "with DAG('d', schedule=None):\n"
        "    IcebergOpsOperator(task_id='t', job='expire_snapshot', table='a.b')\n"
    )
    (told,) = DagBag(str(tmp_path)).import_errors.values()
    assert "OptionError: mine.py:4: task 't': there is no job 'expire_snapshot' (did you mean 'expire_snapshots'?)" in told


@pytest.mark.parametrize("name", iceberg_airflow.__all__)
def test_everything_for_a_dag_file_comes_from_one_import(name: str) -> None:
    assert getattr(iceberg_airflow, name).__name__ == name


def test_a_name_that_is_not_there_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="IcebergVacuumOperator"):
        from iceberg_airflow import IcebergVacuumOperator  # type: ignore[attr-defined] # noqa: F401
