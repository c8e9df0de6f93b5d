"""Whether a glob can match any table, decided exactly like the matcher over all names."""

from __future__ import annotations

import itertools
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iceberg_ops.config.globs import glob_problem, may_match

PARTS = ["".join(p) for n in (1, 2) for p in itertools.product("ab", repeat=n)]
NAMES = [".".join(("p", *rest)) for count in (2, 3) for rest in itertools.product(PARTS, repeat=count)]


@given(st.text(alphabet="pab.*?[]!", max_size=9))
@example("p*b")
@example("p.[!.]?b.a")
@example("[p].a*a")
@example("?.a.b")
@example("p[.]a[.]b")
@example("p.a.")
@example("*.")
@example("p.a.[]ab]")
def test_a_glob_may_match_exactly_what_the_matcher_matches(pattern: str) -> None:
    """Names over a and b are enough for globs over a and b but for sets that leave these out, which are drawn with a wider
    alphabet."""
    wide = [
        *NAMES,
        "p.p.a",
        "p.a.p",
        "p.p.p",
        "p.x.y",
        "p.].[",
        "p.!.*",
        "p.a.]",
        "p.a.[",
        "p.].a",
        "p.[.a",
        "p.aa.p",
        "p.pp.pp",
        "p.!.a",
        "p.a.!",
    ]
    if any(fnmatchcase(name, pattern) for name in wide):
        assert may_match(pattern, "p")
        assert may_match(pattern)
    elif not any(c in pattern for c in "[]!") and len(pattern) <= 6:
        assert not may_match(pattern, "p")


@pytest.mark.parametrize("unit", ["*", "*a", "*?", "?", "a", ".", "*.", "[", "[a]", "[!a]*", "]"])
def test_a_glob_is_judged_in_time_in_proportion_to_its_length(unit: str) -> None:
    """Twenty thousand stars hung every reader of the policy, the parsing of DAGs among them."""

    def seconds(length: int) -> float:
        pattern = unit * (length // len(unit))
        begun = time.process_time()
        glob_problem(pattern)
        may_match(pattern)
        may_match(pattern, "prod")
        return time.process_time() - begun

    assert seconds(40_000) < 5.0


@pytest.mark.parametrize(
    "pattern", ["prod.nyc.*", "*", "*.*.raw_*", "p*", "prod.*", "*.raw", "pr?d.a.b", "[!a]rod.a.b", "prod*b", "prod.a.b.c"]
)
def test_globs_over_a_catalogs_tables(pattern: str) -> None:
    assert may_match(pattern, "prod")


@pytest.mark.parametrize(
    "pattern",
    [
        "test.nyc.*",
        "foo*.x.y",
        "prod",
        "prod.a",
        "prod.?",
        "prod.[z-a].x",
        "prod..a",
        "prod.a.",
        ".prod.a.b",
        "Prod.a.b",
        "pro?.*.",
        "prods.*",
    ],
)
def test_globs_that_no_table_of_the_catalog_can_match(pattern: str) -> None:
    assert not may_match(pattern, "prod")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("prod.{a,b}.*", "braces"), ("prod.a.[b", "never closed"), (" prod.a.*", "space"), ("", "space"), ("prod.[]", "never closed")],
)
def test_what_the_matcher_would_take_as_text_is_refused(pattern: str, said: str) -> None:
    assert said in (glob_problem(pattern) or "")


@pytest.mark.parametrize("pattern", ["prod.a.[bc]", "prod.a.[!b]*", "prod.a.[]b]", "*", "prod.a b.c"])
def test_globs_without_a_problem(pattern: str) -> None:
    assert glob_problem(pattern) is None
