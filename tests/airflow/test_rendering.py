"""Template fields keep their meaning: numbers stay text, and a condition without a value never means every row."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.definitions._internal.expandinput import DictOfListsExpandInput
from airflow.sdk.definitions.xcom_arg import PlainXComArg

from iceberg_airflow.operators import (
    IcebergAppendOperator,
    IcebergDeleteOperator,
    IcebergMergeOperator,
    IcebergOpsOperator,
    IcebergUpdateOperator,
)
from iceberg_airflow.rendering import flag
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.errors import OptionError
from tests.airflow.fakes import a_context
from tests.airflow.test_operators import job_of

pytestmark = pytest.mark.airflow

PARAMS: dict[str, Any] = {
    **{"none": None, "empty": "", "blank": "  ", "no": False, "yes": True},
    **{"year": "2024", "month": "2024.10", "listed": "1,2", "count": 7, "float": 0.25, "where": "day = DATE '2024-10-01'"},
    **{"options": {"min-input-files": "2"}, "paths": ["/x", "/y"], "true": "true"},
}


def rendered(make: Any, *, native: bool, **fields: Any) -> JobSpec:
    """The job of an operator in a DAG, its templates rendered as Airflow does."""
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native):
        operator = make(task_id="t", **fields)
    context = a_context(params=PARAMS)
    operator.render_template_fields(context)
    return job_of(operator, context)


def delete(where: Any, *, native: bool) -> JobSpec:
    return rendered(IcebergDeleteOperator, native=native, table="a.b", where=where)


BLANKS = ["{{ params.none }}", "{{ params.empty }}", "{{ params.blank }}", "", "   ", None, False]
BLANKS += ["{% if params.no %}id = 1{% endif %}"]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("where", BLANKS, ids=repr)
def test_a_where_without_a_value_changes_no_row(where: Any, native: bool) -> None:
    for make, fields in ((IcebergDeleteOperator, {}), (IcebergUpdateOperator, {"set": {"x": "1"}})):
        with pytest.raises(OptionError, match="where"):
            rendered(make, native=native, table="a.b", where=where, **fields)


@pytest.mark.parametrize("where", ["{{ params.no }}", "{{ params.yes }}", "{{ params.count > 3 }}"])
def test_a_flag_is_no_condition(where: str) -> None:
    """Natively False, which once meant every row; as text the SQL word False, which matches none."""
    with pytest.raises(OptionError, match=r"where must be text; the template gave (True|False) \(bool\)"):
        delete(where, native=True)
    assert delete(where, native=False).where in ("True", "False")


@pytest.mark.parametrize("native", [False, True])
def test_every_row_is_said_in_a_word(native: bool) -> None:
    assert delete("true", native=native).where == "true"
    assert delete("{{ params.true }}", native=native).where == "true"


@pytest.mark.parametrize("native", [False, True])
def test_a_where_arrives_as_written(native: bool) -> None:
    assert delete("{{ params.where }}", native=native).where == "day = DATE '2024-10-01'"
    assert delete("id = {{ params.year }}", native=native).where == "id = 2024"


BRACES = "note = '{{ 1 + 1 }}'"
PARTS = [
    (IcebergUpdateOperator, {"where": "true"}, "set", {"note": BRACES}),
    (IcebergMergeOperator, {"source": {"format": "sql", "query": "SELECT 1"}, "on": "true"}, "clauses", [{"condition": BRACES}]),
    (IcebergOpsOperator, {"job": "update", "where": "true"}, "change", {"set": {"note": BRACES}}),
]


def mapped(make: Any, native: bool, field: str, value: Any, monkeypatch: pytest.MonkeyPatch, **fixed: Any) -> Any:
    """The operator of one value of a field that is mapped over what another task gives, rendered."""
    monkeypatch.setattr(PlainXComArg, "resolve", lambda *_given, **_named: [value])
    monkeypatch.setattr(DictOfListsExpandInput, "_get_map_lengths", lambda *_given: {field: 1})
    monkeypatch.setattr("airflow.sdk.execution_time.context.context_update_for_unmapped", lambda c, t: c.update(task=t))
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native) as dag:

        @task
        def find() -> list[Any]:
            return [value]

        operator = make.partial(task_id="t", table="{{ params.month }}", **fixed).expand(**{field: find()})
    context = a_context(params=PARAMS, map_index=0, dag=dag, dag_run=SimpleNamespace(conf={}), task=operator)
    context["ti"].task = operator
    operator.render_template_fields(context)
    assert context["task"].table == "2024.10"
    return context["task"]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("value", [BRACES, "path = 'a{#b' OR note = 'c#}d'", "{{ params.where }}", {"a": "{{ 1 + 1 }}"}])
def test_what_comes_from_xcom_is_no_template(value: Any, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Braces in data changed the condition in a native DAG, and could run code in the worker."""
    assert mapped(IcebergDeleteOperator, native, "where", value, monkeypatch).where == value


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("make", "fixed", "field", "value"), PARTS)
def test_parts_of_a_change_that_come_from_xcom_are_no_templates(
    make: Any, fixed: dict[str, Any], field: str, value: Any, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SET and clauses were copied, and their copies rendered."""
    change = mapped(make, native, field, value, monkeypatch, **fixed).change
    assert (change if field == "change" else change[field]) == value


@pytest.mark.parametrize("native", [False, True])
def test_templates_in_set_and_clauses_are_rendered(native: bool) -> None:
    updated = rendered(IcebergUpdateOperator, native=native, table="a.b", set={"y": "{{ params.year }}"}, where="true").change
    assert updated is not None
    assert updated.set == {"y": "2024"}
    clause = {"when": "matched", "action": "delete", "condition": "y = {{ params.year }}"}
    source = {"format": "parquet", "paths": ["/x"]}
    merged = rendered(IcebergMergeOperator, native=native, table="a.b", source=source, on="true", clauses=(clause,)).change
    assert merged is not None
    assert [c.condition for c in merged.clauses] == ["y = 2024"]


def test_set_and_clauses_may_be_what_another_task_gives() -> None:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):

        @task
        def find() -> Any: ...

        update = IcebergUpdateOperator(task_id="u", table="a.b", set=cast("Any", find()), where="true")
        merge = IcebergMergeOperator(task_id="m", table="a.b", source={"format": "parquet"}, on="true", clauses=cast("Any", find()))
    assert (update.upstream_task_ids, merge.upstream_task_ids) == ({"find"}, {"find__1"})


def test_an_empty_where_of_an_overwrite_does_not_become_one_of_partitions() -> None:
    with pytest.raises(OptionError, match="where is empty"):
        rendered(IcebergOpsOperator, native=True, job="overwrite", table="a.b", where="{{ params.empty }}")
    assert rendered(IcebergOpsOperator, native=True, job="overwrite", table="a.b", where="{{ params.none }}").where is None


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("condition", ["{{ params.none }}", "{{ params.empty }}", "", None])
def test_a_condition_of_a_clause_without_a_value_is_refused(condition: Any, native: bool) -> None:
    with pytest.raises(OptionError, match="condition"):
        rendered(
            IcebergMergeOperator,
            native=native,
            table="a.b",
            source={"format": "parquet", "paths": ["/x"]},
            on="target.id = source.id",
            clauses=[{"when": "matched", "action": "delete", "condition": condition}],
        )


@pytest.mark.parametrize("native", [False, True])
def test_what_looks_like_a_number_stays_the_text_it_is(native: bool) -> None:
    job = rendered(
        IcebergOpsOperator,
        native=native,
        job="upsert",
        table="{{ params.month }}",
        branch="{{ params.year }}",
        run_key="{{ params.month }}",
        options={"wap-id": "{{ params.month }}", "upsert-keys": "{{ params.listed }}", "write-tasks": "{{ params.count }}"},
        source={"format": "parquet", "paths": ["/day={{ params.year }}", "{{ params.month }}"]},
    )
    assert (job.table, job.branch, job.run_key) == ("lake.2024.10", "2024", "2024.10")
    assert job.options == {"wap-id": "2024.10", "upsert-keys": "1,2", "write-tasks": "7"}
    assert job.source is not None
    assert job.source.paths == ["/day=2024", "2024.10"]


@pytest.mark.parametrize(
    ("field", "value"), [("table", "{{ params.float }}"), ("branch", "{{ params.float }}"), ("run_key", "{{ params.yes }}")]
)
def test_a_value_that_cannot_be_what_was_written_is_refused(field: str, value: str) -> None:
    fields = {"job": "rewrite_manifests", "table": "a.b", field: value}
    with pytest.raises(OptionError, match=rf"{field} must be text; the template gave"):
        rendered(IcebergOpsOperator, native=True, **fields)


@pytest.mark.parametrize("field", ["table", "branch", "run_key", "work", "plan_id"])
def test_the_text_none_is_a_template_without_a_value(field: str) -> None:
    """A run key None would be shared by every run; the first one would be the only one that does anything."""
    fields = {"job": "rewrite_manifests", "table": "a.b", field: "{{ params.none }}"}
    with pytest.raises(OptionError, match=f"{field} is the text None: its template had no value"):
        rendered(IcebergOpsOperator, native=False, **fields)


def test_an_option_without_a_value_is_refused() -> None:
    for native in (False, True):
        with pytest.raises(OptionError, match="option wap-id"):
            rendered(IcebergOpsOperator, native=native, job="append", table="a.b", options={"wap-id": "{{ params.none }}"})


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("word", ["{{ params.none }}", "{{ params.empty }}", "{{ params.blank }}"])
def test_a_dry_run_flag_without_a_value_runs_nothing(word: str, native: bool) -> None:
    """It ran the job for real."""
    with pytest.raises(OptionError, match="plan_only"):
        rendered(IcebergOpsOperator, native=native, job="remove_orphan_files", table="a.b", plan_only=word)


FILES = {"format": "parquet", "paths": ["/x"]}
TABLE = {"format": "table", "table": "lake.a.c"}
DELETE = [{"when": "matched", "action": "delete"}]
NESTED: list[tuple[Any, dict[str, Any], str]] = [
    (
        IcebergAppendOperator,
        {"source": {"format": "csv", "paths": ["/x"], "options": {"sep": "{{ params.none }}"}}},
        "source.options.sep",
    ),
    (IcebergAppendOperator, {"source": {**FILES, "paths": ["/x", "{{ params.none }}"]}}, r"source\.paths\[1\]"),
    (IcebergAppendOperator, {"source": {**TABLE, "ref": "{{ params.none }}"}}, r"source\.ref"),
    (IcebergAppendOperator, {"source": {**TABLE, "snapshot-id": "{{ params.none }}"}}, r"source\.snapshot-id"),
    (IcebergUpdateOperator, {"where": "id = 1", "set": {"x": "{{ params.none }}"}}, r"change\.set\.x"),
    (IcebergMergeOperator, {"source": FILES, "on": "{{ params.none }}", "clauses": DELETE}, r"change\.on"),
    (IcebergMergeOperator, {"source": FILES, "on": "true", "clauses": DELETE, "mode": "{{ params.none }}"}, r"change\.mode"),
]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("make", "fields", "named"), NESTED, ids=[named for _, _, named in NESTED])
def test_a_part_of_a_field_without_a_value_is_refused(make: Any, fields: dict[str, Any], named: str, native: bool) -> None:
    """A ref without a value read the head of main instead."""
    with pytest.raises(OptionError, match=named):
        rendered(make, native=native, table="a.b", **fields)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("field", ["branch", "run_key", "work", "plan_id", "where"])
@pytest.mark.parametrize("word", ["{{ params.empty }}", "{{ params.blank }}"])
def test_a_field_that_a_template_left_blank_is_refused(field: str, word: str, native: bool) -> None:
    """A blank branch was made beside main, and the rows went there."""
    with pytest.raises(OptionError, match=rf"{field} is (blank|empty)"):
        rendered(IcebergOpsOperator, native=native, job="rewrite_data_files", table="a.b", **{field: word})


def test_mappings_and_lists_pass_whole_through_native_templates() -> None:
    job = rendered(
        IcebergOpsOperator,
        native=True,
        job="append",
        table="a.b",
        options="{{ params.options }}",
        source={"format": "parquet", "paths": "{{ params.paths }}"},
    )
    assert job.options == {"min-input-files": "2"}
    assert job.source is not None
    assert job.source.paths == ["/x", "/y"]
    with pytest.raises(OptionError, match="options must be a mapping; the template gave a str"):
        rendered(IcebergOpsOperator, native=False, job="append", table="a.b", options="{{ params.options }}")


@pytest.mark.parametrize("word", ["false", "False", "f", "no", "n", "off", "OFF", "0", False, 0])
def test_words_for_false(word: Any) -> None:
    assert flag("plan_only", word) is False


@pytest.mark.parametrize("word", ["true", "True", "t", "yes", "y", "on", "1", True, 1])
def test_words_for_true(word: Any) -> None:
    assert flag("plan_only", word) is True


@pytest.mark.parametrize("word", ["maybe", "2", "nope", 0.5, "", " ", "none", "None", None])
def test_a_word_for_neither_is_refused(word: Any) -> None:
    with pytest.raises(OptionError, match=r"plan_only .* must be true or false"):
        flag("plan_only", word)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nyc.flights", "lake.nyc.flights"),
        ("lake.nyc.flights", "lake.nyc.flights"),
        ("lake.flights", "lake.lake.flights"),
        ("lake.lake.flights", "lake.lake.flights"),
        ("nyc.lake.flights", "lake.nyc.lake.flights"),
    ],
)
def test_a_namespace_may_be_called_like_its_catalog(written: str, meant: str) -> None:
    assert job_of(IcebergOpsOperator(task_id="t", job="rewrite_manifests", table=written)).table == meant
