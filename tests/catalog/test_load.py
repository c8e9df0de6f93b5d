"""What of a catalog's configuration is refused before it is opened: what would be passed over, or read as something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import OptionError

HIVE, REST = {"uri": "thrift://127.0.0.1:1"}, {"uri": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("kind", "properties", "said"),
    [
        ("filesystem", {"warehouse": "s3://lake/wh", "s3.endpont": "http://minio:9000"}, "no property 's3.endpont'"),
        ("filesystem", {"warehouse": "/wh", "read_only": "true"}, "no property 'read_only' (did you mean 'read-only'?)"),
        ("nessie", {"uri": "http://127.0.0.1:1/api/v2", "Ref": "dev"}, "no property 'Ref' (did you mean 'ref'?)"),
        ("glue", {"client.region": "eu-west-1", "glue-id": "1"}, "no property 'glue-id' (did you mean 'glue.id'?)"),
        ("filesystem", {"warehouse": "/wh", "read-only": "yes"}, "property read-only 'yes': must be true or false"),
        ("sql", {"uri": "sqlite://", "read-only": "true"}, "read-only protects files, but a catalog of type sql also has records"),
        ("rest", {**REST, "read-only": "true"}, "a catalog of type rest also has records"),
        ("hive", {**HIVE, "engine.hive.lock-enabled": "1"}, "property engine.hive.lock-enabled '1': must be true or false"),
        ("hive", {**HIVE, "iceberg.engine.hive.lock-enabled": "on"}, "must be true or false"),
        ("hive", {**HIVE, "hive.kerberos-authentication": "yes"}, "must be true or false"),
        ("glue", {"client.region": "eu-west-1", "glue.skip-archive": "0"}, "must be true or false"),
        ("rest", {**REST, "rest.sigv4-enabled": "yes"}, "must be true or false"),
        ("filesystem", {"warehouse": "/wh", "location-mapping": '["ab", "cd"]'}, "must be a JSON list of [from, to] pairs"),
    ],
)
def test_what_would_be_passed_over_is_refused(kind: str, properties: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        load_catalog(CatalogConfig(name="lake", type=kind, properties=properties))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        (
            "glue",
            {"client.region": "eu-west-1", "glue.access-key-id": "AKIA", "glue.secret-access-key": "geheim", "s3.region": "x"},
        ),
        ("hive", {"uri": "thrift://me:geheim@127.0.0.1:1", "ugi": "geheim", "s3.region": "x"}),
        ("sql", {"uri": "sqlite:///geheim", "s3.region": "x"}),
        (
            "nessie",
            {
                "uri": "http://127.0.0.1:1/api/v2",
                "authentication.type": "BEARER",
                "nessie.authentication.token": "geheim",
                "s3.region": "x",
            },
        ),
    ],
)
def test_what_is_the_catalogs_alone_is_not_sent_to_workers(
    kind: str, properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    io = load_catalog(CatalogConfig(name="lake", type=kind, properties=properties)).io
    assert io.properties["s3.region"] == "x"
    assert "geheim" not in str(dict(io.properties))
