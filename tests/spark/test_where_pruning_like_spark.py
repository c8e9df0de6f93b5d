"""Pruning by generated WHERE conditions: a pruned file holds no row that Spark keeps, a file that is claimed to match holds only
such rows, and the residual of a partition keeps the same rows.

Requirements: SCAN-03, SCAN-05, SCAN-06, SCAN-07, SCAN-08.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.evaluators import (
    manifest_may_match,
    metrics_all_match,
    metrics_may_match,
    partition_matches,
    residual,
    row_filter,
)
from iceberg_ops.expressions.projection import project_inclusive, project_strict
from tests.data.where_tables import random_spec
from tests.expressions.file_model import data_files, manifests
from tests.expressions.test_no_row_is_lost import group_key, partition_of
from tests.expressions.where_rows import POOLS, SCHEMA, TYPES
from tests.spark.where_world import STATEMENTS, World, by_column

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

TOGETHER = 50
"""Conditions tried on one file: drawing a file takes longer than trying one."""


def test_no_matching_row_is_pruned_and_no_other_is_claimed(world: World) -> None:
    pools: dict[str, list[Any]] = {str(type_): POOLS[name] for name, type_ in TYPES.items()}
    values = [by_column(row) for row in world.rows]
    cases = [(case, bind(SCHEMA, case.where)) for case in world.answered]

    @settings(max_examples=max(60, STATEMENTS // 5), deadline=None)
    @given(st.data(), st.integers(0, 2**16), st.integers(0, max(0, len(cases) - TOGETHER)))
    def check(data: st.DataObject, seed: int, start: int) -> None:
        spec = random_spec(random.Random(seed), SCHEMA)
        ids = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=6, unique=True))
        groups: dict[Any, list[int]] = {}
        for i in ids:
            groups.setdefault(group_key(partition_of(spec, values[i], SCHEMA)), []).append(i)
        group = data.draw(st.sampled_from(list(groups.values())))
        partition = partition_of(spec, values[group[0]], SCHEMA)
        types = spec.partition_type(SCHEMA.fields_by_id)
        file = data.draw(data_files(SCHEMA, [values[i] for i in group], partition, pools))
        manifest = data.draw(manifests(types, [partition]))
        for case, bound in cases[start : start + TOGETHER]:
            hits = [case.truths[i] is True for i in group]
            shown = (case.text, [str(f) for f in spec.fields], partition)
            inclusive, strict = project_inclusive(bound, spec, SCHEMA), project_strict(bound, spec, SCHEMA)
            left = row_filter(residual(bound, spec, partition))
            assert [left(world.rows[i]) for i in group] == hits, shown
            if any(hits):
                assert metrics_may_match(bound, file), shown
                assert partition_matches(inclusive, partition), shown
                assert manifest_may_match(inclusive, manifest, types), shown
            if metrics_all_match(bound, file) or partition_matches(strict, partition):
                assert all(hits), shown

    check()
