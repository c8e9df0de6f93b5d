from __future__ import annotations

import inspect

import pytest

from iceberg_ops.commit import cherry_pick, manifest_filter, snapshot_draft, validation
from iceberg_ops.commit.removals import RowFilter
from iceberg_ops.errors import BadInputError, IcebergOpsError, ValidationError
from tests.commit.scenarios import SCENARIOS, Scenario, run

CASES = [(s, v) for s in SCENARIOS for v in s.versions]


@pytest.mark.parametrize(("scenario", "version"), CASES, ids=lambda x: x.name if isinstance(x, Scenario) else f"v{x}")
def test_scenario(scenario: Scenario, version: int) -> None:
    if scenario.refused is None:
        run(scenario, version)
        return
    with pytest.raises((ValidationError, BadInputError)) as refused:
        run(scenario, version)
    assert str(refused.value).startswith(scenario.refused)


VALIDATIONS = sorted(
    name
    for name, f in inspect.getmembers(validation, inspect.isfunction)
    if name.startswith("no_") and f.__module__ == validation.__name__
)
OTHERS = (
    (manifest_filter, "forbid_missing"),
    (RowFilter, "forbid_partial"),
    (snapshot_draft, "_forbid_new_rows"),
    (snapshot_draft.SnapshotDraft, "_forbid_second_vectors"),
    (cherry_pick, "no_double_publish"),
)
TESTED_ELSEWHERE = {"no_file_twice"}
"""Checked when the operation is made, by test_operations."""


@pytest.mark.parametrize(
    "owner_and_name", [*((validation, n) for n in VALIDATIONS if n not in TESTED_ELSEWHERE), *OTHERS], ids=lambda x: x[1]
)
def test_switching_a_validation_off_is_noticed(owner_and_name: tuple[object, str], monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = owner_and_name
    concerned = [(s, v) for s, v in CASES if s.refused is not None]
    monkeypatch.setattr(owner, name, lambda *a, **k: None)
    missed = 0
    for scenario, version in concerned:
        try:
            run(scenario, version)
        except IcebergOpsError as e:
            missed += not str(e).startswith(scenario.refused or "")
        else:
            missed += 1
    assert missed, f"nothing fails without {name}"
