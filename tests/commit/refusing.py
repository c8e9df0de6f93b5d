"""Which validation refuses which scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from iceberg_ops.errors import IcebergOpsError
from tests.commit.scenarios import Scenario, run

Case = tuple[Scenario, int]
"""A scenario and a format version."""


def refusing(cases: Sequence[Case], validations: Sequence[tuple[object, str]]) -> dict[str, list[Case]]:
    """Name of a validation -> the cases that it refuses, of those that are to be refused: no other case can miss it."""
    found: dict[str, list[Case]] = {name: [] for _, name in validations}

    def noting(name: str, check: Callable[..., Any], case: Case) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            try:
                return check(*given, **named)
            except IcebergOpsError:
                found[name].append(case)
                raise

        return noted

    for case in cases:
        if case[0].refused is not None:
            with pytest.MonkeyPatch.context() as patch:
                for owner, name in validations:
                    patch.setattr(owner, name, noting(name, getattr(owner, name), case))
                assert not is_missed(*case)
    return found


def is_missed(scenario: Scenario, version: int) -> bool:
    """Whether a conflict is not refused as it should be."""
    try:
        run(scenario, version)
    except IcebergOpsError as e:
        return not str(e).startswith(scenario.refused or "")
    return True
