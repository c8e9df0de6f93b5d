"""A live manifest names a partition spec that the metadata lacks (because of another engine's expiry beside a writer, or a damaged
file): every job that needs the spec reports it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSpec
from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import bucket
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.actions.rows_place import RowsPlace

ROWS = pa.schema({"k": pa.int64(), "v": pa.string()})


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    """Files and deletes of specs 1 and 2, of which the metadata has lost the first; a commit would merge manifests."""
    found = RowsPlace.at(tmp_path)
    schema = Schema.of(NestedField(1, "k", LONG), NestedField(2, "v", STRING))
    found.create(schema, format__version="2")
    for n in (4, 8):
        evolution = SpecEvolution.of_table(found.table().metadata).add_field("k", bucket(n))
        commit(found.catalog, found.table(), UpdateSpec(spec=evolution.apply()))
        for _ in range(2):
            found.run("upsert", source=found.source([{"k": n, "v": "old"}], ROWS), options={"upsert-keys": "k"})
    folder = Path(found.table().location.removeprefix("file://")) / "metadata"
    newest = max(folder.glob("v*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
    document = json.loads(newest.read_text())
    document["partition-specs"] = [s for s in document["partition-specs"] if s["spec-id"] != 1]
    newest.write_text(json.dumps(document))
    return found


JOBS: dict[str, dict[str, Any]] = {
    "upsert": {"options": {"upsert-keys": "k"}},
    "merge": {"change": RowChange(on="target.k = source.k", clauses=[MergeClause(when="matched", action="update")])},
    "overwrite": {"where": "k = 4"},
    "update": {"where": "k = 4", "change": RowChange(set={"v": "'x'"})},
    "delete": {"where": "k = 4"},
    "rewrite_data_files": {"options": {"rewrite-all": "true"}},
    "rewrite_position_delete_files": {"options": {"rewrite-all": "true"}},
    "convert_equality_deletes": {},
    "compute_table_stats": {},
    "compute_partition_stats": {},
}
TAKE_ROWS = ("append", "upsert", "merge", "overwrite")


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("job", JOBS)
def test_a_job_names_the_spec_that_is_missing(place: RowsPlace, job: str, dry_run: bool) -> None:
    source = {"source": place.source([{"k": 4, "v": "new"}], ROWS)} if job in TAKE_ROWS else {}
    with pytest.raises(CorruptTableError, match="partition spec 1"):
        place.run(job, dry_run=dry_run, **JOBS[job], **source)


def test_an_append_that_merges_manifests_names_it_too(place: RowsPlace) -> None:
    with pytest.raises(CorruptTableError, match="partition spec 1 is not in the metadata"):
        place.run("append", source=place.source([{"k": 4, "v": "new"}], ROWS))
