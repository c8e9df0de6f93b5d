"""A misspelt environment variable is an error while the one that is meant is not set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iceberg_ops.config.variables import VARIABLES, variable
from iceberg_ops.errors import OptionError

ROOT = Path(__file__).resolve().parents[2]
_READ = re.compile(r"\bICEBERG_OPS_[A-Z_]*[A-Z]\b")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("ICEBERG_OPS_CATALOG", "ICEBERG_OPS_CATALOGS"),
        ("iceberg_ops_catalogs", "ICEBERG_OPS_CATALOGS"),
        ("ICEBERG_OPS_CATALOGS_FILE", "ICEBERG_OPS_CATALOGS"),
        ("ICEBERG_OPS_POLICIES", "ICEBERG_OPS_POLICY"),
        ("ICEBERG_OPS_POLICY_FILE", "ICEBERG_OPS_POLICY"),
        ("ICEBERG_OPS_JOB", "ICEBERG_OPS_JOBS"),
        ("ICEBERG_OPS_JOB_KEEP", "ICEBERG_OPS_JOBS_KEEP"),
        ("ICEBERG_OPS_SPARKMASTER", "ICEBERG_OPS_SPARK_MASTER"),
    ],
)
def test_a_misspelt_variable_is_refused_unless_the_right_one_is_set(given: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        variable(meant, {given: "s3cret"})
    assert str(caught.value).startswith(f"the environment has {given}, which nothing reads (did you mean {meant}?)")
    assert "s3cret" not in str(caught.value)
    assert variable(meant, {given: "other", meant: "right"}) == "right"
    assert all(variable(other, {given: "x"}) == "" for other in VARIABLES if other != meant)


def test_no_variable_is_a_misspelling_of_another() -> None:
    everything = dict.fromkeys(VARIABLES, "") | {"ICEBERG_OPS_LANDING": "x", "ICEBERG_OPS_FIXTURES": "x", "ICEBERG_OPS_SEED": "1"}
    assert {name: variable(name, everything) for name in VARIABLES} == dict.fromkeys(VARIABLES, "")


@pytest.mark.parametrize(
    "given",
    [
        *("CATALOG_PORT", "JOBS_PORT", "POLICY_PORT", "SPARK_MASTER_PORT"),  # Kubernetes, for services of such names
        *("SPARK_HOME", "SPARK_IMAGE", "SPARK_CONF", "SPARK_MEMORY", "DRIVER_CORES", "EXECUTOR_MEMORY"),
    ],
)
def test_a_variable_of_other_meaning_is_not_refused(given: str) -> None:
    assert {variable(name, {f"ICEBERG_OPS_{given}": "x"}) for name in VARIABLES} == {""}


def test_all_that_the_package_reads_are_listed() -> None:
    files = [path for folder in ("iceberg_ops", "plugins", "dags", "spark_jobs") for path in (ROOT / folder).rglob("*.py")]
    found = {name for path in files for name in _READ.findall(path.read_text(encoding="utf-8"))}
    assert found - set(VARIABLES) == {"ICEBERG_OPS_CATALOG"}  # the example of a misspelt one
    assert set(VARIABLES) <= found
