"""A row operation refuses the fields of a job spec that it would ignore."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source, check_fields
from iceberg_ops.errors import OptionError

SOURCE = Source(format="parquet", paths=["/rows"])
MERGE = RowChange(on="target.id = source.id", clauses=[MergeClause(when="matched", action="delete")])


def job(name: str, **parts: Any) -> JobSpec:
    return JobSpec(job=name, table="c.n.t", catalog=CatalogConfig(name="c", type="memory"), **parts)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("append", {"source": SOURCE}),
        ("overwrite", {"source": SOURCE, "where": "day = DATE '2026-07-01'"}),
        ("delete", {"where": "id = 1", "change": RowChange(mode="merge-on-read")}),
        ("update", {"change": RowChange(set={"a": "1"})}),
        ("merge", {"source": SOURCE, "change": MERGE}),
    ],
)
def test_what_an_operation_reads_is_taken(name: str, parts: dict[str, Any]) -> None:
    check_fields(job(name, **parts))


@pytest.mark.parametrize(
    ("name", "parts", "field"),
    [
        ("append", {"source": SOURCE, "where": "id = 1"}, "append takes no where"),
        ("append", {"source": SOURCE, "change": RowChange(mode="merge-on-read")}, "append takes no change.mode"),
        ("overwrite", {"source": SOURCE, "change": MERGE}, "overwrite takes no change.on"),
        ("delete", {"where": "id = 1", "source": SOURCE}, "delete takes no source"),
        ("delete", {"where": "id = 1", "change": RowChange(set={"a": "1"})}, "delete takes no change.set"),
        ("update", {"change": MERGE}, "update takes no change.on"),
        ("merge", {"source": SOURCE, "change": MERGE, "where": "id = 1"}, "merge takes no where"),
    ],
)
def test_what_an_operation_would_ignore_is_refused(name: str, parts: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionError, match=field):
        check_fields(job(name, **parts))
