"""All problems of a policy in one run, each with its line."""

from __future__ import annotations

import re

import pytest

from iceberg_ops.catalog import load
from iceberg_ops.config.document import from_yaml
from iceberg_ops.config.document_problems import with_lines
from iceberg_ops.config.job_spec import CATALOG_TYPES
from iceberg_ops.config.policy import Policy
from iceberg_ops.config.policy_lint import problems_in
from iceberg_ops.errors import OptionError

BAD = """version: 1
defaults:
  schedule: weekly
  maintnance: []
  maintenance:
    - action: rewrite_data_file
    - action: expire_snapshots
      options: {older: 3d}
      lane: foo
    - {options: {}}
catalogs:
  prod:
    type: sqll
    properties: {uri: "sqlite:///x", a: 1}
  other:
    properties: {warehouse: /x}
  5: {type: sql}
namespaces:
  prod.web: {shedule: "@daily"}
tables:
  - match: prod.web.*
    options: {rewrite_data_files: {min-input-file: 3}}
  - match: prod.web.a
    enabled: 7
"""


def test_every_problem_is_told_with_its_line_in_the_order_of_the_text() -> None:
    found = problems_in(BAD, "p.yml")
    places = [problem.partition(": ")[2].split(": ")[0] for problem in found]
    assert [(int(problem.split(":")[1]), place) for problem, place in zip(found, places, strict=True)] == [
        (3, "defaults.schedule"),
        (4, "defaults.maintnance"),
        (6, "defaults.maintenance[0].action"),
        (8, "defaults.maintenance[1].options"),
        (9, "defaults.maintenance[1].lane"),
        (10, "defaults.maintenance[2]"),
        (13, "catalogs.prod.type"),
        (14, "catalogs.prod.properties.a"),
        (15, "catalogs.other"),
        (17, "catalogs.5"),
        (19, "namespaces.prod.web.shedule"),
        (22, "tables[0].options.rewrite_data_files"),
        (24, "tables[1].enabled"),
    ]
    assert "did you mean 'maintenance'?" in found[1]
    assert "must be one of auto, local, spark" in found[4]
    assert "key 'action' is missing" in found[5]
    assert "unknown type 'sqll' (did you mean 'sql'?): must be one of sql, filesystem, glue, hive, nessie, rest, memory" in found[6]


@pytest.mark.parametrize(
    "text", ["", "5", "[]", "version: 1\ntables: {a: 1}\n", "version: 2\n", "a: &a [*a]", "a: {", "defaults: {maintenance: [1]}"]
)
def test_what_parsing_refuses_has_problems(text: str) -> None:
    with pytest.raises(OptionError):
        from_yaml(text, Policy, "p.yml")
    found = problems_in(text, "p.yml")
    assert found
    assert all(re.match(r"p\.yml(:\d+)?: ", problem) for problem in found)


def test_names_with_dots_and_what_is_merged_have_the_line_of_the_longest_key() -> None:
    text = "a: 1\na.b: {c.d: 1, c: {d: 2}}\nx: &x {deep: 1}\ny:\n  <<: *x\n"
    problems = [f"{path}: wrong" for path in ("a", "a.b.c.d", "a.b.c", "nothing", "y.deep", "x.deep")]
    lines = {problem: line for line, problem in with_lines(text, problems)}
    assert [lines[problem] for problem in problems] == [1, 2, 2, 1, 4, 3]


def test_the_types_that_are_known_are_those_that_can_be_loaded() -> None:
    assert set(CATALOG_TYPES) == set(load._KINDS)
