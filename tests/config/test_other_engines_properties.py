"""No property of Iceberg Java or pyiceberg counts as a misspelling of one of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pyiceberg
import pytest

from iceberg_ops.config.catalog_properties import check_names

_CONSTANT = re.compile(r'^[A-Z][A-Z0-9_]* = "([a-z][a-z0-9_.-]*)"$', re.MULTILINE)
OF_JAVA = (
    *("client.factory", "client.factory-impl", "s3.chunked-encoding-enabled", "s3.analytics-accelerator.enabled", "kms.endpoint"),
    *("s3.crt.max-concurrency", "adls.sas-token-expires-at-ms.account", "oss.endpoint", "iceberg.engine.hive.enabled"),
    *("rest.client.max-retries", "rest.client.user-agent", "rest.client.tls.configurer-impl", "rest-scan-planning.poll-timeout-ms"),
    *("rest.auth.sigv4.delegate-auth-type", "lock.table", "io.manifest.cache-enabled", "http-client.type", "dynamodb.endpoint"),
)
"""Of the constants of Iceberg 1.11, those that are nearest to properties of this package."""


def _of_pyiceberg() -> set[str]:
    """String constants of the modules that name properties of catalogs and files."""
    folder = Path(pyiceberg.__file__).parent
    files = [folder / "io" / "__init__.py", *(folder / "catalog").rglob("*.py")]
    return {name for file in files for name in _CONSTANT.findall(file.read_text(encoding="utf-8")) if "." in name or "-" in name}


@pytest.mark.parametrize("kind", ["filesystem", "glue", "hive", "nessie", "rest", "sql"])
def test_what_another_engine_knows_is_no_misspelling(kind: str) -> None:
    found = _of_pyiceberg()
    assert {"s3.endpoint", "adls.sas-token", "glue.id"} <= found
    check_names("catalog lake", kind, [*sorted(found), *OF_JAVA])
