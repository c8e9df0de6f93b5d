"""Policies: layers, provenance, and lint that names the path."""

from __future__ import annotations

import re

import pytest

from iceberg_ops.config.document import from_yaml
from iceberg_ops.config.policy import Policy, effective
from iceberg_ops.config.policy_lint import lint, load_policy
from iceberg_ops.errors import OptionError

P = "catalogs: {p: {type: sql}}"

POLICY = """
version: 1
defaults:
  schedule: "@daily"
  owner: platform
  maintenance:
    - action: rewrite_data_files
      options: {target-file-size-bytes: 134217728, min-input-files: 5}
    - action: expire_snapshots
      schedule: "@weekly"
catalogs:
  prod:
    type: sql
    properties: {uri: "sqlite:///c.db", warehouse: "file:/wh"}
    lane: local
namespaces:
  prod.nyc: {owner: transport}
tables:
  - match: prod.nyc.flights
    options: {rewrite_data_files: {rewrite-all: true}}
  - match: prod.nyc.*
    options: {rewrite_data_files: {min-input-files: 2}}
  - match: "*.*.raw_*"
    enabled: false
"""


def test_later_layers_win_field_by_field_and_say_so() -> None:
    found = effective(load_policy(POLICY, "p.yml"), "prod.nyc.flights")
    assert (found.settings["owner"].value, found.settings["owner"].source) == ("transport", "namespaces.prod.nyc")
    assert found.settings["schedule"].source == "defaults"
    options = found.steps[0].options
    assert {name: (o.value, o.source) for name, o in options.items()} == {
        "target-file-size-bytes": ("134217728", "defaults"),
        "min-input-files": ("2", "tables[1] (prod.nyc.*)"),
        "rewrite-all": ("true", "tables[0] (prod.nyc.flights)"),
    }
    assert found.steps[0].option_texts()["rewrite-all"] == "true"
    assert [step.schedule for step in found.steps] == ["@daily", "@weekly"]
    assert {step.lane for step in found.steps} == {"local"}


def test_an_exact_name_wins_over_a_glob_wherever_it_is_written() -> None:
    text = POLICY.replace("{rewrite-all: true}", "{min-input-files: 9}")
    assert effective(load_policy(text, "p.yml"), "prod.nyc.flights").steps[0].options["min-input-files"].value == "9"


def test_a_list_of_steps_is_replaced_as_a_whole() -> None:
    text = POLICY + "  - match: prod.web.*\n    maintenance: [{action: rewrite_manifests}]\n"
    found = effective(load_policy(text, "p.yml"), "prod.web.clicks")
    assert [step.action for step in found.steps] == ["rewrite_manifests"]


def test_options_of_a_weaker_layer_do_not_beat_a_steps_own() -> None:
    text = POLICY.replace("  owner: platform\n", "  owner: platform\n  options: {rewrite_manifests: {spec-id: 1, sort-by: a}}\n")
    text += "  - match: prod.web.*\n    maintenance: [{action: rewrite_manifests, options: {spec-id: 2}}]\n"
    options = effective(load_policy(text, "p.yml"), "prod.web.clicks").steps[0].options
    assert {name: o.value for name, o in options.items()} == {"spec-id": "2", "sort-by": "a"}


def test_a_table_can_be_switched_off() -> None:
    assert not effective(load_policy(POLICY, "p.yml"), "prod.nyc.raw_flights").enabled
    assert effective(load_policy(POLICY, "p.yml"), "prod.nyc.flights").enabled


def test_the_catalog_of_a_policy_is_a_job_specs_catalog() -> None:
    config = load_policy(POLICY, "p.yml").catalog_config("prod")
    assert (config.name, config.type, config.properties["warehouse"]) == ("prod", "sql", "file:/wh")
    with pytest.raises(OptionError, match="no catalog 'test'"):
        load_policy(POLICY, "p.yml").catalog_config("test")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version: 1", "version: 2", ("version",)),
        ("  owner: platform", "  ownr: platform", ("ownr", "defaults.ownr")),
        ("action: expire_snapshots", "action: vacuum", ("defaults.maintenance[1].action", "'vacuum'", "expire_snapshots")),
        ("min-input-files: 5}", "min-inputs: 5}", ("defaults.maintenance[0].options", "min-inputs", "min-input-files")),
        ("min-input-files: 5}", "min-input-files: many}", ("defaults.maintenance[0].options", "'many'", "whole number")),
        ("{rewrite-all: true}", "{rewrite: true}", ("tables[0].options.rewrite_data_files", "unknown option rewrite")),
        ("options: {rewrite_data_files: {rewrite-all", "options: {compact: {rewrite-all", ("tables[0].options", "'compact'")),
        ('schedule: "@daily"', 'schedule: "daily"', ("defaults.schedule", "'daily'", "cron")),
        ("match: prod.nyc.flights", "match: flights", ("tables[0].match", "catalog.namespace.name")),
        ("match: prod.nyc.*", "match: test.nyc.*", ("tables[1].match", "no catalog", "prod")),
        ("prod.nyc: {", "test.nyc: {", ("namespaces.test.nyc", "prod")),
        ('schedule: "@weekly"', "where: id > 1", ("maintenance[1].where", "takes no where")),
        ("action: expire_snapshots", "action: rewrite_data_files", ("two steps are called", "give one a name")),
        ("version: 1", "version: [", ("not YAML",)),
        ('schedule: "@weekly"', "name: expire now", ("maintenance[1].name", "task ids carry it")),
        ('schedule: "@weekly"', "name: ''", ("maintenance[1].name", "task ids carry it")),
        ('schedule: "@weekly"', "name: a/b", ("maintenance[1].name", "'a/b'")),
        ('"@weekly"', '"61 * * * *"', ("maintenance[1].schedule", "is not a cron expression", "61")),
        ("match: prod.nyc.*", "match: 'prod.nyc.{a,b}'", ("tables[1].match", "braces")),
        ("match: prod.nyc.*", "match: 'prod.nyc.[ab'", ("tables[1].match", "never closed")),
        ("match: prod.nyc.*", "match: 'prods*.nyc.x'", ("tables[1].match", "no catalog", "prod")),
        ("prod.nyc: {", "prod: {", ("namespaces.prod", "in full")),
        ("prod.nyc: {", "'prod.nyc*': {", ("namespaces.prod.nyc*", "globs are for tables")),
        ("prod.nyc: {", "prod.nyc.: {", ("namespaces.prod.nyc.", "in full")),
        ("  prod:\n", "  prod.eu:\n", ("catalogs.prod.eu", "no dot")),
    ],
)  # fmt: skip
def test_a_wrong_policy_is_refused_with_the_path_and_the_rule(old: str, new: str, words: tuple[str, ...]) -> None:
    assert old in POLICY
    with pytest.raises(OptionError) as e:
        load_policy(POLICY.replace(old, new, 1), "p.yml")
    assert re.match(r"p\.yml(:\d+)?: ", str(e.value))
    for word in words:
        assert word in str(e.value)


def test_lists_that_disagree_on_the_order_are_refused_by_lint_already() -> None:
    steps = "  - match: prod.web.*\n    maintenance: [{action: expire_snapshots}, {action: rewrite_data_files}]\n"
    with pytest.raises(OptionError, match="maintenance lists disagree on the order of"):
        load_policy(POLICY + steps, "p.yml")


def test_maintenance_that_is_for_no_catalog_is_refused() -> None:
    with pytest.raises(OptionError, match=r"p\.yml:1: catalogs: the policy names no catalog"):
        load_policy("version: 1\ndefaults: {maintenance: [{action: remove_orphan_files}]}", "p.yml")


def test_defaults_are_for_the_catalogs_that_the_policy_names() -> None:
    found = effective(load_policy(POLICY, "p.yml"), "test.nyc.flights")
    assert (found.settings, found.steps) == ({}, ())
    assert effective(load_policy(POLICY, "p.yml"), "flights").steps == ()


def test_a_namespace_may_be_called_like_its_catalog() -> None:
    text = POLICY.replace("prod.nyc: {owner: transport}", "prod.prod: {owner: transport}")
    policy = load_policy(text, "p.yml")
    assert effective(policy, "prod.prod.flights").setting("owner") == "transport"
    assert effective(policy, "prod.nyc.flights").setting("owner") == "platform"


def test_lint_lists_every_problem() -> None:
    text = POLICY.replace("@daily", "x").replace("rewrite-all", "rewrite-everything")
    assert len(lint(from_yaml(text, Policy, "p.yml"))) == 2


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("catalogs: {p: {type: ''}}", "catalogs.p.type"),
        ("catalogs: {p: {type: sql, properties: {warehouse: ' '}}}", "catalogs.p.properties.warehouse"),
        ("defaults: {owner: ''}", "defaults.owner"),
        (f"{P}\ndefaults: {{options: {{expire_snapshots: {{older-than: ''}}}}}}", "defaults.options.expire_snapshots.older-than"),
        (f"{P}\ndefaults: {{maintenance: [{{action: rewrite_manifests, branch: ''}}]}}", "defaults.maintenance[0].branch"),
        (
            f"{P}\ndefaults: {{maintenance: [{{action: expire_snapshots, options: {{retain-last: ' '}}}}]}}",
            "defaults.maintenance[0].options.retain-last",
        ),
    ],
)
def test_what_is_given_and_blank_is_a_problem(text: str, path: str) -> None:
    with pytest.raises(OptionError) as caught:
        load_policy(f"version: 1\n{text}\n", "p.yml")
    assert re.match(rf"p\.yml:\d+: {re.escape(path)}: is blank: leave it out, or give it a value", str(caught.value))


def test_an_owner_that_no_database_stores_is_a_problem() -> None:
    with pytest.raises(OptionError, match=r"defaults\.owner: must have no NUL character"):
        load_policy('version: 1\ndefaults: {owner: "a\\0b"}\ncatalogs: {p: {type: sql}}\n', "p.yml")
