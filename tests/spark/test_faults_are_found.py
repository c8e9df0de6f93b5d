"""Known faults of conditions, literals and keys whose generators ask Spark: each is found once the old rule is back
(``tests.generated.test_faults_are_found`` has those that need no Spark)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from spark_jobs.runners.column_names import OWN
from tests.generated import as_it_was as was
from tests.generated.as_it_was import Switch
from tests.spark.conftest import Place
from tests.spark.test_upsert_keys import SEEDS, check_upserts
from tests.spark.test_where_like_spark import check_rows
from tests.spark.where_world import some_of_world
from tests.torture.switching import replaced

pytestmark = pytest.mark.spark


def keys_as_given(original: Any, rows: Any, schema: Any, options: Any, keys: Any) -> Any:
    """Keys were compared as the source has them."""
    given = {name.lower(): name for name in rows.columns}
    found = original(rows, schema, options, keys)
    return {**found, **{f"{OWN}key{i}": rows[given[f.name.lower()]] for i, f in enumerate(keys)}}


Check = Callable[[], None]
"""Made before the old rule is back."""


def upserts(seed: int) -> Callable[[Place], Check]:
    assert seed < SEEDS, "the generator's own test does not play that seed"
    return lambda place: lambda: check_upserts(place, seed)


def condition(number: int) -> Callable[[Place], Check]:
    """One of those that ``test_where_like_spark`` draws from the seed of a normal run."""

    def of_place(place: Place) -> Check:
        world = some_of_world(place.session, 0, [number])
        assert world.answered
        return lambda: check_rows(world)

    return of_place


@dataclass(frozen=True)
class Fault:
    """``switch`` restores it; ``says``: the message of the failure (a regular expression)."""

    switch: Switch
    check: Callable[[Place], Check]
    says: str


FAULTS: dict[str, Fault] = {
    "LIKE with a literal backslash": Fault({"data.columns.row_filter:_like": was.like_of_arrow}, condition(357), "LIKE"),
    "nanoseconds cut to microseconds": Fault(
        {"expressions.comparisons:timestamp_literal": was.cut_to_microseconds}, condition(19), r"TZNS IN .*\.\d{9}"
    ),
    "no cast to uuid": Fault({"expressions.literal_casts:cast": was.texts_alone}, condition(141), "(?i)uuid"),
    "two spellings of one uuid": Fault(
        {"spark_jobs.jobs.upsert:_stored_keys": keys_as_given}, upserts(0), "source rows of key|SELECT"
    ),
    "two decimals that are rounded to one": Fault(
        {"spark_jobs.jobs.upsert:_stored_keys": keys_as_given}, upserts(1), "source rows of key|SELECT"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_with_its_rule_as_it_was_the_fault_is_found(place: Place, name: str) -> None:
    fault = FAULTS[name]
    fails: Any = pytest.raises((Exception, pytest.fail.Exception))  # a wrong rule may fail in any way
    check = fault.check(place)
    with replaced(fault.switch), fails as e:
        check()
    assert re.search(fault.says, str(e.value)), e.value
