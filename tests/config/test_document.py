"""YAML documents of users, read strictly: duplicate keys are refused, and errors show no value."""

from __future__ import annotations

import time
import traceback
from typing import Any

import pytest

from iceberg_ops.catalog.configuration import CatalogFile
from iceberg_ops.config.document import from_yaml
from iceberg_ops.config.policy import Policy
from iceberg_ops.errors import OptionError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\ndefaults: {owner: a}\ndefaults: {}", "line 3: key 'defaults' is given twice, first in line 2"),
        ("version: 1\ncatalogs:\n  p: {type: sql}\n  p: {type: sql}", "line 4: key 'p' is given twice, first in line 3"),
        ("version: 1\ntables:\n- match: p.a.b\n  match: p.a.c", "line 4: key 'match' is given twice, first in line 3"),
        ("{version: 1, version: 1}", "line 1: key 'version' is given twice, first in line 1"),
        ("version: 1\n'version': 1", "line 2: key 'version' is given twice, first in line 1"),
        ("a: &a [*a]", "line 1: an alias refers to what contains it"),
        ("? [a]\n: b", "not YAML: line 1, column 3: found unhashable key"),
        ("version: 1\n---\nversion: 1", "not YAML: line 2, column 1: found another document"),
        ("", "Expected `object`, got `null`"),
    ],
)
def test_what_yaml_would_pass_over_is_an_error_with_its_line(text: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        from_yaml(text, Policy, "p.yml")
    assert str(caught.value).startswith("p.yml: ")
    assert said in str(caught.value)


def test_a_merged_mapping_may_be_overridden() -> None:
    text = "version: 1\ndefaults: &d {owner: a, lane: local}\nnamespaces: {p.q: {<<: *d, owner: b}}"
    found = from_yaml(text, Policy, "p.yml").namespaces["p.q"]
    assert (found.owner, found.lane) == ("b", "local")


@pytest.mark.parametrize(
    "value",
    [
        "geheim: 1",
        "!geheim",
        "*geheim",
        "&geheim",
        "@geheim",
        "%geheim",
        "`geheim`",
        "'geheim",
        '"geheim\\q"',
        "{geheim",
        "- geheim",
        "|geheim",
    ],
)
def test_an_error_in_a_catalogs_file_shows_no_value(value: str) -> None:
    """A password is often what breaks the YAML: it begins with a character that YAML knows."""
    text = f"catalogs:\n  - name: lake\n    type: sql\n    properties:\n      uri: sqlite:///x\n      password: {value}\n"
    with pytest.raises(OptionError) as caught:
        from_yaml(text, CatalogFile, "catalogs.yml")
    assert "geheim" not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["2026-02-30", "2026-07-01 25:00:00", "0x_", "!!int abc", "!!int ''", "!!bool maybe", "!!timestamp soon"]
)
def test_a_scalar_that_its_yaml_type_does_not_have_is_an_error_with_its_line(value: str) -> None:
    text = f"version: 1\ncatalogs:\n  p:\n    type: {value}\n"
    with pytest.raises(OptionError, match=r"^p\.yml: line 4: reads as a YAML \w+ but is not valid: put text in quotes$"):
        from_yaml(text, Policy, "p.yml")


@pytest.mark.parametrize("text", ['version: 1\ncatalogs: {p: {type: "\\uD800"}}', 'version: 1\ncatalogs: {"\\uDC00": {type: sql}}'])
def test_half_of_a_surrogate_pair_is_no_text(text: str) -> None:
    with pytest.raises(OptionError, match=r"^p\.yml: line 2: text with half of a surrogate pair is not Unicode$"):
        from_yaml(text, Policy, "p.yml")


def _aliases(depth: int, form: str) -> str:
    named = (f"a{i}: &a{i} {form % ','.join([f'*a{i - 1}'] * 9)}\n" for i in range(1, depth))
    return "a0: &a0 {k: 1}\n" + "".join(named)


@pytest.mark.parametrize("form", ["{<<: [%s]}", "[%s]", "{x: [%s]}"])
def test_aliases_that_repeat_millions_of_values_are_refused_at_once(form: str) -> None:
    """Ten lines of a policy kept the DAG processor busy for ever."""
    begun = time.process_time()
    with pytest.raises(OptionError, match="aliases and merge keys repeat more than 100,000 values"):
        from_yaml(_aliases(30, form), dict[str, Any], "policy.yml")
    assert time.process_time() - begun < 5
    assert from_yaml(_aliases(5, form), dict[str, Any], "policy.yml")


@pytest.mark.parametrize("number", ["0x" + "F" * 4_000, str(2**63), str(-(2**63) - 1), "0b" + "1" * 64, "1" * 5_000])
@pytest.mark.parametrize("form", ["a: {}", "{}: a", "a: [1, {}]"])
def test_a_number_beyond_64_bits_is_refused_with_its_line(number: str, form: str) -> None:
    """Python writes none of more than 4,300 digits: its ValueError ended lint, health and the parsing of DAGs."""
    with pytest.raises(OptionError, match=r"^policy.yml: (not YAML: )?line 2[,:] "):
        from_yaml("x: 1\n" + form.format(number), Any, "policy.yml")
    assert from_yaml("a: 9223372036854775807", Any, "policy.yml") == {"a": 2**63 - 1}


@pytest.mark.parametrize("depth", [500, 20_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ("{a: ", "}")])
def test_a_document_nested_too_deeply_is_refused_as_such(depth: int, begin: str, end: str) -> None:
    with pytest.raises(OptionError, match=r"^policy.yml: lists and mappings are nested too deeply$"):
        from_yaml(begin * depth + "1" + end * depth, Any, "policy.yml")


@pytest.mark.parametrize("text", ["job: &a [*a]", "&a {job: *a}", "x: 1\ny: &a {z: [1, *a]}", "&a\n<<: *a\njob: x"])
def test_an_alias_to_what_contains_it_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"^policy.yml: line \d: an alias refers to what contains it$"):
        from_yaml(text, Any, "policy.yml")


def test_a_large_document_without_aliases_is_read() -> None:
    assert len(from_yaml("".join(f"k{i}: {i}\n" for i in range(60_000)), dict[str, int], "policy.yml")) == 60_000
