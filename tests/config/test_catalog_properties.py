"""Names of a catalog's properties: a misspelt one is an error, one of another engine has no effect."""

from __future__ import annotations

import pytest

from iceberg_ops.config import catalog_properties
from iceberg_ops.config.catalog_properties import check_names, is_known, relative_place, unread
from iceberg_ops.errors import OptionError

TYPES = ("filesystem", "glue", "hive", "nessie", "rest", "sql")
NAMES = sorted({(kind, name) for kind in TYPES for name in (*catalog_properties._OF_TYPE[kind], *catalog_properties._EVERYWHERE)})
TOO_SHORT = {"ref", "ugi", "uri", "user"}


def typos(name: str) -> set[str]:
    """One letter left out, one letter in other case, another separator."""
    found = {name[:i] + name[i + 1 :] for i in range(len(name))}
    found |= {name[:i] + name[i].upper() + name[i + 1 :] for i in range(len(name))}
    found |= {name.replace("-", "_"), name.replace("-", ".")}
    return {typo for typo in found if typo != name}


def is_refused(kind: str, name: str) -> bool:
    try:
        check_names("catalog lake", kind, [name])
    except OptionError:
        return True
    return False


@pytest.mark.parametrize("kind", TYPES)
def test_every_property_that_is_misspelt_is_refused(kind: str) -> None:
    passed = [
        (name, typo)
        for of, name in NAMES
        if of == kind
        for typo in typos(name)
        if not is_known(kind, typo) and not is_refused(kind, typo)
    ]
    assert passed == []


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("nessie", "reff", "ref"),
        ("glue", "glue.catalog-id", "glue.id"),
        ("filesystem", "s3.endpoint-url", "s3.endpoint"),
        ("filesystem", "endpoint", "s3.endpoint"),
        ("filesystem", "readonly", "read-only"),
        ("hive", "hive.lock-enabled", "engine.hive.lock-enabled"),
        ("rest", "Warehouse", "warehouse"),
        ("nessie", "branch", "ref"),
        ("nessie", "Reference", "ref"),
        ("glue", "catalog_id", "glue.id"),
        ("glue", "aws_region", "client.region"),
        ("glue", "region", "client.region"),
        ("glue", "profile", "client.profile-name"),
        ("sql", "AWS_ENDPOINT_URL", "s3.endpoint"),
        ("sql", "s3.url", "s3.endpoint"),
        ("rest", "warehouse_name", "warehouse"),
        ("rest", "Header.Polaris-Realm", "header.Polaris-Realm"),
        ("rest", "headers.X-Tenant", "header.X-Tenant"),
        ("nessie", "header_x", "header.x"),
    ],
)
def test_the_nearest_name_is_told(kind: str, name: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_names("catalog lake", kind, [name])
    assert str(caught.value).startswith(f"catalog lake: there is no property {name!r} (did you mean {meant!r}?)")


@pytest.mark.parametrize("kind", TYPES)
def test_what_other_engines_read_is_permitted_and_has_no_effect(kind: str) -> None:
    others = sorted(catalog_properties._OF_OTHERS - catalog_properties._OF_TYPE[kind])
    check_names("catalog lake", kind, others)
    assert unread(kind, others) == others
    check_names("catalog lake", kind, ["comment", "owner", "glue.id", "ref", "header.X", "token", "hadoop.fs.s3a.endpoint"])


@pytest.mark.parametrize("start", ["", "nessie."])
@pytest.mark.parametrize(
    "name",
    [
        "authentication.oauth2.impersonation.client-id",
        "authentication.oauth2.token-exchange.subject-token",
        "authentication.oauth2.auth-code-flow.web-port",
        "authentication.oauth2.default-access-token-lifespan",
        "authentication.aws.region",
        "client-builder-impl",
        "transport.disable-compression",
    ],
)
def test_what_the_client_of_nessie_reads_is_no_misspelling(start: str, name: str) -> None:
    check_names("catalog lake", "nessie", [start + name])
    assert unread("nessie", [start + name]) == [start + name]


@pytest.mark.parametrize(
    "name",
    ["s3.acl", "client.credentials-provider.x", "gcs.impersonate.service-account", "hadoop.dfs.nameservices", "adls.token.acc"],
)
def test_what_is_read_or_refused_has_an_effect(name: str) -> None:
    assert unread("sql", [name]) == []


def test_a_name_that_may_stand_beside_them_can_be_meant() -> None:
    for name in ("store-conn-id", "stores", "store_id", "aws_conn_id", "s3_conn_ids"):
        with pytest.raises(OptionError, match="did you mean 'store_conn_id'"):
            check_names("connection c", "sql", [name], ["store_conn_id"])
        check_names("catalog c", "sql", [name])


def test_words_for_a_property_of_another_type_have_no_effect() -> None:
    check_names("catalog c", "sql", ["branch", "catalog-id", "header.X", "Header.X", "hash"])


@pytest.mark.parametrize(
    ("kind", "properties", "said"),
    [
        ("sql", {"warehouse": "wh"}, "warehouse 'wh'"),
        ("filesystem", {"warehouse": "file:wh"}, "warehouse 'file:wh'"),
        ("filesystem", {"warehouse": "wh:2026/x"}, "warehouse 'wh:2026/x'"),
        ("hive", {"warehouse": "s3:bucket/wh"}, "warehouse 's3:bucket/wh'"),
        ("sql", {"uri": "sqlite:///s3cret.db"}, "the database file"),
        ("sql", {"uri": "sqlite+pysqlite:///./s3cret.db?timeout=5"}, "the database file"),
        ("sql", {"uri": "sqlite:///file:s3cret.db?uri=true"}, "the database file"),
        ("sql", {"uri": "sqlite+pysqlcipher://:s3cret@/lake.db"}, "the database file"),
    ],
)
def test_a_place_that_depends_on_the_working_folder_is_told(kind: str, properties: dict[str, str], said: str) -> None:
    """From another folder the lake seemed to be empty; SQLite made a new database there."""
    found = relative_place(kind, properties)
    assert found is not None
    assert found.startswith(said)
    assert "is relative to the working folder" in found
    assert "s3cret" not in found


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("sql", {"uri": "sqlite:////data/c.db", "warehouse": "file:/wh"}),
        ("sql", {"uri": "sqlite:///file:/data/c.db?uri=true", "warehouse": "S3://b"}),
        ("sql", {"uri": "sqlite:///:memory:", "warehouse": "hdfs:/wh"}),
        ("sql", {"uri": "sqlite://", "warehouse": "/wh"}),
        ("sql", {"uri": "postgresql+psycopg2://db/lake"}),
        ("rest", {"uri": "http://h", "warehouse": "prod"}),
        ("memory", {"warehouse": "memory://warehouse"}),
    ],
)
def test_other_places_are_not(kind: str, properties: dict[str, str]) -> None:
    assert relative_place(kind, properties) is None
