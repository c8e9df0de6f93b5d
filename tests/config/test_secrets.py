"""Secrets of a catalog's properties: found in every form, and never shown."""

from __future__ import annotations

import json
import logging
import sys
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.secrets import (
    HIDDEN,
    HidingFormatter,
    hide,
    hide_in_path,
    hide_in_sql,
    hide_passwords,
    holds_secret,
    is_secret,
    secrets_in,
    secrets_in_properties,
    without_secrets,
)

PASSWORDS = st.text(alphabet="ab%@:/?# +&=\"'\\é0123", min_size=6, max_size=20).filter(lambda p: p.strip() == p)
NAMES = [
    "password",
    "s3.secret-access-key",
    "s3.access-key-id",
    "token",
    "credential",
    "header.Authorization",
    "s3.session-token",
    "s3.sse.key",
    "gcs.oauth2.token",
    "gcs.decryption-key",
    "adls.account-key",
    "adls.auth.shared-key.account.key",
    "adls.sas-token.account.blob.core.windows.net",
    "adls.connection-string.account",
    "adls.client-secret",
    "adls.token",
    "sslpassword",
    "db_pwd",
    "DB_PASS",
    "db.pwd",
    "adls_sas",
    "sas2",
    "dbPass",
]
PLAIN_NAMES = [
    "uri",
    "warehouse",
    "io-impl",
    "spark-from-bytes",
    "s3.endpoint",
    "s3.sse.type",
    "s3.path-style-access",
    "client.region",
    "gcs.project-id",
    "adls.account-name",
    "read-only",
    "location-mapping",
    "key-prefix",
    "bypass",
    "compass.url",
    "sassy",
    "signal",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_say_secret(name: str) -> None:
    assert is_secret(name)
    assert without_secrets({name: "x"}) == {name: HIDDEN}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret(name)


def test_a_value_may_hold_a_secret_under_any_name() -> None:
    assert holds_secret("db_pwd", "x")
    assert holds_secret("spark.app.source", "jdbc:postgresql://me:geheim1@db/x")
    assert holds_secret("spark.driver.extraJavaOptions", "-Xss4m -Djavax.net.ssl.keyStorePassword=geheim1")
    assert not holds_secret("spark.app.source", "jdbc:postgresql://db/x")


@given(PASSWORDS)
def test_a_password_is_hidden_in_every_form_that_programs_print(password: str) -> None:
    encoded = quote(password, safe="")
    secrets = secrets_in_properties({"uri": f"postgresql://me:{encoded}@db:5432/ice"})
    for form in (password, encoded, quote(password), quote_plus(password), json.dumps(password)[1:-1]):
        assert password not in hide(f"<{form}>", secrets)
        assert hide(f"<{form}>", secrets) == f"<{HIDDEN}>"


@given(st.text(alphabet="abc@:/", min_size=6, max_size=12).map(lambda p: f"x{p}y"))
def test_a_password_that_was_not_encoded_is_hidden_as_written(password: str) -> None:
    uri = f"postgresql://me:{password}@db:5432/ice"
    assert hide(f"cannot parse {uri}", secrets_in_properties({"uri": uri})) == f"cannot parse postgresql://me:{HIDDEN}@db:5432/ice"
    assert password not in without_secrets({"uri": uri})["uri"]


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("sqlite:////data/a:b@c/catalog.db", "sqlite:////data/a:b@c/catalog.db"),
        ("postgresql://db:5432/ice", "postgresql://db:5432/ice"),
        ("postgresql://me@db:5432/ice", "postgresql://me@db:5432/ice"),
        ("postgresql://me:geheim@db/ice?sslpassword=other1&x=y", "postgresql://me:***@db/ice?sslpassword=***&x=y"),
    ],
)
def test_what_is_no_secret_stays(uri: str, shown: str) -> None:
    assert without_secrets({"uri": uri}) == {"uri": shown}


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("mssql+pyodbc:///?odbc_connect=DRIVER%3D%7BODBC%7D%3BSERVER%3Ddb%3BUID%3Dsa%3BPWD%3DS3cretPw1", "S3cretPw1"),
        ("mssql+pyodbc:///?odbc_connect=UID%3Dsa%3BPWD%3D%7BS3%3Bcret%7D%7DPw1%7D", "S3;cret}Pw1"),
        ("sqlite+pysqlcipher://:Passphrase1@//data/c.db?cipher=aes-256-cfb", "Passphrase1"),
        ("sqlite+pysqlcipher://:Pass/phrase1@//data/c.db?cipher=aes-256-cfb", "Pass/phrase1"),
        ("Driver={ODBC};Server=db;UID=sa;PWD=S3 cretPw1;Encrypt=yes", "S3 cretPw1"),
        ("host=db user=me password=geheim1 dbname=x", "geheim1"),
        ("jdbc:sqlserver://db;user=sa;password=geheim1;encrypt=true", "geheim1"),
        ("postgresql:///ice?host=db&user=me&password=geheim1", "geheim1"),
        ("https://store/warehouse?sv=2020&sig=geheim1%2Bx", "geheim1+x"),
    ],
)
def test_a_password_is_found_wherever_an_address_may_have_it(value: str, secret: str) -> None:
    properties = {"uri": value}
    assert secret not in without_secrets(properties)["uri"]
    assert len(secret) < 4 or secret not in hide(f"cannot log in with {secret}", secrets_in_properties(properties))


def test_a_path_of_sqlite_and_a_condition_are_no_secrets() -> None:
    assert secrets_in_properties({"uri": "sqlite:////data/a:b@c/catalog.db", "warehouse": "/data/a=b;c=d"}) == ()
    assert secrets_in({"where": "has_password = true", "set": {"token": "'abcd'"}, "query": "SELECT 'a://b:c@d' AS secret"}) == ()


def test_secrets_are_found_in_a_document() -> None:
    catalog = {"name": "other", "type": "sql", "properties": {"uri": "postgresql://me:geheim1@db/x", "token": "t0ken"}}
    assert {"geheim1", "t0ken"} <= set(secrets_in({"format": "table", "catalog": catalog}))
    assert "geheim2" in secrets_in([{"paths": ["s3://key:geheim2@bucket/x"]}])


@pytest.mark.parametrize(
    "text",
    [
        "https://me:geheim1@h/my file.csv",
        "https://h/my file.csv?X-Amz-Signature=geheim1&x=1",
        "SELECT * FROM csv.`s3a://key:geheim1@b/x`",
        "SELECT * FROM csv.`https://h/x?sig=geheim1` WHERE a = 1",
        "SELECT * FROM a JOIN csv.`https://h/x?x=1&sig=geheim1`)",
        "SELECT * FROM parquet.`s3://b/x`,csv.`https://h/x?sig=geheim1`,t",
        "SELECT * FROM csv.`https://h/my file.csv?x=1&sig=geheim1` WHERE a = 'it`s'",
        "SELECT 'it`s', \"it`s\" FROM csv.`https://me:geheim1@h/my file.csv`",
    ],
)
def test_a_secret_of_a_uri_is_found_in_sql_and_in_a_path_with_spaces(text: str) -> None:
    """Airflow showed it among the rendered fields, and Spark's own lines in the log."""
    secrets = secrets_in({"source": {"query": text}})
    assert "geheim1" not in hide("cannot read geheim1, geheim1 x", secrets)
    assert "geheim1" not in hide_in_sql(text, secrets)


def test_a_text_in_back_quotes_stays_as_it_is_where_it_is_no_location() -> None:
    text = "SELECT 'it`s http://h:80' FROM `my table` WHERE mail = 'joe@x' AND `a` = 'it`s'"
    assert (hide_in_sql(text, ()), secrets_in({"query": text})) == (text, ())


@pytest.mark.parametrize(
    "name", ["x-goog-user-project", "Polaris-Realm", "X-Iceberg-Access-Delegation", "X-Tenant-Id", "Accept", "user-agent", "X-Env"]
)
def test_a_header_that_names_something_is_no_secret(name: str) -> None:
    """A tenant may be called as its bucket, its catalog or a namespace: reports and logs would tell none of them."""
    properties = {f"header.{name}": "analytics-eu-1", "warehouse": "analytics-eu-1"}
    assert (secrets_in_properties(properties), without_secrets(properties)) == ((), properties)


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "Cookie", "X-Custom", "X-Tenant-Token", "X-Project-Key-Of-Ours"])
def test_any_other_header_is_a_secret(name: str) -> None:
    assert secrets_in_properties({f"header.{name}": "analytics"}) == ("analytics",)


def test_the_secret_of_a_credential_is_hidden_alone_too() -> None:
    assert hide("client geheim1 refused", secrets_in_properties({"credential": "me:geheim1"})) == f"client {HIDDEN} refused"


def test_very_short_secrets_do_not_destroy_the_message() -> None:
    assert hide("a table", secrets_in_properties({"password": "a"})) == "a table"


def test_passwords_of_uris_are_hidden_where_secrets_are_not_known() -> None:
    assert hide_passwords("no postgresql://me:p@ss/w@db/x, no http://db/x") == "no postgresql://me:***@db/x, no http://db/x"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("location abfss://c@a.dfs/x?sv=1&sig=geheim1&x=y of", "location abfss://c@a.dfs/x?sv=1&sig=***&x=y of"),
        ("at jdbc:sqlserver://db;user=sa;password=geheim1: no", "at jdbc:sqlserver://db;user=sa;password=*** no"),
        ("mssql:///?odbc_connect=UID%3Dsa%3BPWD%3Dgeheim1", "mssql:///?odbc_connect=UID%3Dsa%3BPWD%3D***"),
        ("https://u:geheim1@h/x?TOKEN=geheim1", "https://u:***@h/x?TOKEN=***"),
        ("sftp://me@corp.com:geheim1@host/folder", "sftp://me@corp.com:***@host/folder"),
        ("abfss://c@a.dfs:443/x", "abfss://c@a.dfs:443/x"),
        ("WHERE token = 'x' AND a?b=1", "WHERE token = 'x' AND a?b=1"),
        ("'a://u:p@h','b://v:q@i'", "'a://u:***@h','b://v:***@i'"),
        ("no postgresql://u:pa'geheim1@h/db, no", "no postgresql://u:***@h/db, no"),
        ("URL 'postgresql://u:pa\"gehe'im1@h/db'", "URL 'postgresql://u:***@h/db'"),
        ("{'uri': 'a://u:ge''heim@h', 'mail': 'x@y'}", "{'uri': 'a://u:***@h', 'mail': 'x@y'}"),
        ('{"uri":"a://u:geh"eim@h","mail":"x@y"}', '{"uri":"a://u:***@h","mail":"x@y"}'),
        ("https://h/p#access_token=geheim1&state=1", "https://h/p#access_token=***&state=1"),
        ("https://h/p#id_token=gehe'im1", "https://h/p#id_token=***"),
        ("postgresql://h/db?user=u&password=SE'geheim1", "postgresql://h/db?user=u&password=***"),
        ("http://h/?password[]=geheim1", "http://h/?password[]=***"),
        ('invalid dsn "host=h password=gehe\'im1 dbname=x"', 'invalid dsn "host=h password=*** dbname=x"'),
        ("dsn host=h password='ge heim' sslpassword=geheim1", "dsn host=h password=*** sslpassword=***"),
        ("WHERE user_password = 'x' AND token='y'", "WHERE user_password = 'x' AND token='y'"),
        ("a://b:c a://:@h 1a://:p@h", "a://b:c a://:@h 1a://:***@h"),
    ],
)
def test_secret_parameters_are_hidden_where_secrets_are_not_known(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a://",
        "a://:",
        "://:@",
        "?a",
        "&sig=",
        "a=",
        "a={;",
        "a='",
        "pwd ",
        "pwd  =",
        "%3B",
        "a.b-",
        "{",
        "\\",
        "@",
        "'",
        "a://b:'",
        "#token='",
        "password='",
    ],
)
@pytest.mark.parametrize("end", ["", ";", "@", "="])
def test_hiding_takes_time_in_proportion_to_the_text(unit: str, end: str) -> None:
    """An error line with a long word took minutes: ten times the text took a hundred times as long."""

    def seconds(length: int) -> float:
        text = unit * (length // len(unit)) + end
        begun = time.process_time()
        hide(text, secrets_in_properties({"uri": text}))
        hide(text, secrets_in_properties({"uri": f"a://{text}"}))
        return time.process_time() - begun

    assert seconds(100_000) < 5.0


def test_log_lines_and_their_tracebacks_have_no_secret() -> None:
    try:
        raise ValueError("no https://u:geheim1@h/x")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "at %s", ("https://u:geheim1@h/x?sig=geheim1",), sys.exc_info())
    said = HidingFormatter("%(levelname)s %(message)s").format(record)
    assert said.startswith("ERROR at https://u:***@h/x?sig=***")
    assert "ValueError: no https://u:***@h/x" in said
    assert "geheim1" not in said


def test_no_repr_of_a_job_has_a_secret() -> None:
    catalog = CatalogConfig(name="lake", type="sql", properties={"uri": "postgresql://me:geheim@db/x", "token": "t0ken"})
    job = JobSpec(job="append", table="lake.a.b", catalog=catalog)
    for text in (repr(catalog), str(catalog), repr(job), f"{job}", repr([job])):
        assert "geheim" not in text
        assert "t0ken" not in text


PLACES = [
    "/wh/db/t/data/pwd=%2Fhome/00000-1-abc.parquet",
    "s3://b/wh/data/password=x/region=eu/0.parquet",
    "password=x/region=eu/0.parquet",
    "/wh/data/flag=true/0.parquet",
    "s3://landing/ts=2024-01-01T10:00:00/mail@host/x.parquet",
    "hdfs://nn:8020/in/team@corp/x.parquet",
    "hdfs://nn1:8020,nn2:8020/in/team@corp/x.parquet",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_path_without_a_secret_is_no_secret_and_stays(place: str) -> None:
    """Orphans of a table with a partition column ``pwd`` could not be found by their report."""
    assert secrets_in({"paths": [place]}) == ()
    assert secrets_in_properties({"warehouse": place}) == () or place.startswith(("hdfs:", "s3://landing", "password"))
    secrets = secrets_in_properties({"token-refresh-enabled": "true", "password": "data", "db-password": "wh"})
    assert hide_in_path(place, secrets) == place
    assert hide_in_sql(f"SELECT * FROM parquet.`{place}` WHERE data = 1", secrets).count(HIDDEN) == 0
    assert place.startswith("password=") or hide(f"{place} is gone", ()) == f"{place} is gone" or "nn2" in place


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("s3a://KEY:geheim1@b/mail@host/x", "s3a://KEY:***@b/mail@host/x"),
        ("s3a://KEY:gehe/im1@b/x", "s3a://KEY:***@b/x"),
        ("sftp://me@corp.com:8020@h/x", "sftp://me@corp.com:***@h/x"),
        ("abfss://c@a.dfs/t?sv=1&sig=geheim1", "abfss://c@a.dfs/t?sv=1&sig=***"),
        ("/wh/t0ken-77/x", "/wh/***/x"),
    ],
)
def test_a_path_loses_its_own_secrets_and_those_that_are_known(place: str, shown: str) -> None:
    secrets = secrets_in_properties({"token": "t0ken-77"})
    assert hide_in_path(place, secrets) == shown
    assert hide_in_sql(f"SELECT '{place}'", secrets) == f"SELECT '{shown}'"
    assert HIDDEN not in place or secrets_in([place])


@pytest.mark.parametrize(
    "sql", ["pwd='x' AND id = 1", "a = 1 or password='x'", "UPDATE t SET pwd='abc' WHERE (password='y') and b"]
)
def test_conditions_stay_in_messages_and_in_sql(sql: str) -> None:
    assert hide_passwords(f"cannot parse {sql}") == f"cannot parse {sql}"
    assert hide_in_sql(sql, ()) == sql


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("token-refresh-enabled", "true", False),
        ("password", "TRUE", False),
        ("token-expires-in-ms", "3600000", False),
        *((name, "3600000", False) for name in ("tokenExpiresInMs", "maxTokenSize", "MAX_TOKEN_SIZE", "token_count")),
        ("password-length", "3600000", False),
        *((name, "3600000", False) for name in ("token.refresh.interval", "sessionTokenLifetimeSec", "token-refresh-s")),
        *((name, "48151623", True) for name in ("admin.password", "account-key", "db_account_pwd", "minio.secret-key")),
        *((name, "48151623", True) for name in ("adminPassword", "resize.token", "refresh-token", "pam-s.token")),
        ("token", "36000000", True),
        ("password", "48151623", True),
    ],
)
def test_switches_and_numbers_about_secrets_are_none(name: str, value: str, secret: bool) -> None:
    assert holds_secret(name, value) == secret
    assert (secrets_in_properties({name: value}) != ()) == secret


def test_a_setting_with_a_long_name_is_found() -> None:
    name = "spark.hadoop.fs.azure.account.oauth2.client.secret.account-of-24-characters.dfs.core.windows.net"
    assert "geheim1" in secrets_in_properties({"options": f"-Dx=y -D{name}=geheim1"})
