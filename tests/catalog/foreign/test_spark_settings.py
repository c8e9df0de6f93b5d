"""``spark.sql.catalog.*`` of a properties file, and what Java's names are here."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from iceberg_ops.catalog.foreign.java_properties import parse_properties
from iceberg_ops.catalog.foreign.spark_settings import spark_catalogs, spark_file
from iceberg_ops.catalog.foreign.taken import ForeignCatalog
from iceberg_ops.errors import OptionError

SPARK = "org.apache.iceberg.spark.SparkCatalog"


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    """The examples of ``java.util.Properties.load``, and what Spark's own template has."""
    text = (
        "# spark.master  local\n! also a comment\n\nTruth = Beauty\n  Truth2:Beauty\nTruth3\t\t\t:Beauty\n"
        "fruits apple, banana, \\\n       pear\ncheeses\nspark.driver.memory              5g\n"
        "a\\=b\\:c\\ d=e\\tf\\u00e9\\\\\nwindows=C:\\\\x\nends=with\\\\\nlast value  \nlast  second=x = y\r\nopen=a\\"
    )
    assert parse_properties(text) == {
        "Truth": "Beauty",
        "Truth2": "Beauty",
        "Truth3": "Beauty",
        "fruits": "apple, banana, pear",
        "cheeses": "",
        "spark.driver.memory": "5g",
        "a=b:c d": "e\tfé\\",
        "windows": "C:\\x",
        "ends": "with\\",
        "last": "second=x = y",
        "open": "a",
    }


def read(tmp_path: Path, *lines: str, kind: str = SPARK) -> ForeignCatalog:
    path = tmp_path / "spark-defaults.conf"
    begun = [line if line.startswith("spark.") else f"spark.sql.catalog.lake.{line}" for line in lines]
    path.write_text("\n".join(["spark.master local[2]", f"spark.sql.catalog.lake {kind}", *begun, ""]))
    (found,) = spark_catalogs(path, {"SECRET_OF_REST": "id:s3cret"})
    return found


@pytest.mark.parametrize(
    ("lines", "kind", "properties"),
    [
        (["type hadoop", "warehouse /wh"], "filesystem", {"warehouse": "/wh"}),
        (["catalog-impl org.apache.iceberg.hadoop.HadoopCatalog", "warehouse /wh"], "filesystem", {"warehouse": "/wh"}),
        (
            ["catalog-impl org.apache.iceberg.nessie.NessieCatalog", "uri http://h/api/v2", "ref dev", "warehouse /wh"],
            "nessie",
            {"uri": "http://h/api/v2", "ref": "dev", "warehouse": "/wh"},
        ),
        (["uri thrift://h:9083"], "hive", {"uri": "thrift://h:9083"}),
        (["type hive", "spark.hadoop.hive.metastore.uris thrift://h:1"], "hive", {"uri": "thrift://h:1"}),
        (
            ["type rest", "uri http://h", "credential id:s3cret", "header.X-Tenant-Id a", "rest.sigv4-enabled true"],
            "rest",
            {"uri": "http://h", "credential": "id:s3cret", "header.X-Tenant-Id": "a", "rest.sigv4-enabled": "true"},
        ),
        (
            ["catalog-impl org.apache.iceberg.aws.glue.GlueCatalog", "glue.id 1", "client.region eu-west-1", "warehouse s3://b/wh"],
            "glue",
            {"glue.id": "1", "client.region": "eu-west-1", "warehouse": "s3://b/wh"},
        ),
        (
            ["type rest", "uri http://h", "io-impl org.apache.iceberg.aws.s3.S3FileIO", "s3.endpoint http://s3"],
            "rest",
            {"uri": "http://h", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.endpoint": "http://s3"},
        ),
        (["type hadoop", "warehouse /wh", "cache-enabled false", "default-namespace x"], "filesystem", {"warehouse": "/wh"}),
        (
            ["type hadoop", "warehouse s3a://b", "spark.hadoop.fs.s3a.access.key AKIA", "hadoop.fs.s3a.endpoint h:9000"],
            "filesystem",
            {"warehouse": "s3a://b", "s3.access-key-id": "AKIA", "s3.endpoint": "https://h:9000"},
        ),
        (
            [
                *("type hadoop", "warehouse s3a://b", "spark.hadoop.fs.s3a.endpoint h:9000", "s3.access-key-id AKIA"),
                *("spark.hadoop.fs.s3a.connection.ssl.enabled false", "spark.hadoop.fs.s3a.access.key AKIA"),
            ],
            "filesystem",
            {"warehouse": "s3a://b", "s3.access-key-id": "AKIA", "s3.endpoint": "http://h:9000"},
        ),
        (  # Spark's settings for S3 and its default file system are not for a REST catalog, whose warehouse is a name
            [
                *("type rest", "uri http://h", "warehouse prod", "spark.hadoop.fs.defaultFS hdfs://a:8020"),
                *("spark.hadoop.fs.s3a.endpoint minio:9000", "spark.hadoop.fs.s3a.access.key AKIA", "spark.hadoop.dfs.x y"),
            ],
            "rest",
            {"uri": "http://h", "warehouse": "prod", "hadoop.dfs.x": "y"},
        ),
        (
            ["type rest", "uri http://h", "spark.hadoop.fs.defaultFS s3a://b", "spark.hadoop.fs.s3a.secret.key s3cret"],
            "rest",
            {"uri": "http://h"},
        ),
        (
            ["type glue", "warehouse s3://b/wh", "spark.hadoop.fs.s3a.endpoint minio:9000", "spark.hadoop.fs.s3a.access.key AKIA"],
            "glue",
            {"warehouse": "s3://b/wh"},
        ),
        (
            [
                *("type rest", "uri http://h", "io-impl org.apache.iceberg.hadoop.HadoopFileIO"),
                *("warehouse prod", "spark.hadoop.fs.defaultFS hdfs://a:8020", "spark.hadoop.fs.s3a.endpoint minio:9000"),
            ],
            "rest",
            {
                "uri": "http://h",
                "warehouse": "prod",
                "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
                "s3.endpoint": "https://minio:9000",
            },
        ),
        (  # client.region is Glue's own region, too: another one is another lake
            [
                *("type glue", "warehouse s3a://b/wh", "client.region eu-west-1", "hadoop.fs.s3a.endpoint.region us-east-1"),
                "io-impl org.apache.iceberg.hadoop.HadoopFileIO",
            ],
            "glue",
            {
                "warehouse": "s3a://b/wh",
                "client.region": "eu-west-1",
                "s3.region": "us-east-1",
                "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            },
        ),
        (  # what has no scheme is Hadoop's
            [
                *("type hadoop", "warehouse /wh", "io-impl org.apache.iceberg.io.ResolvingFileIO"),
                *("spark.hadoop.fs.defaultFS hdfs://a:8020", "spark.hadoop.fs.s3a.endpoint minio:9000"),
            ],
            "filesystem",
            {"warehouse": "/wh", "hadoop.fs.defaultFS": "hdfs://a:8020", "io-impl": "hdfs"},
        ),
        (
            [
                *("type hive", "uri thrift://h:1", "warehouse hdfs:///wh", "hadoop.fs.defaultFS hdfs://a:8020"),
                "io-impl org.apache.iceberg.io.ResolvingFileIO",
            ],
            "hive",
            {
                "uri": "thrift://h:1",
                "warehouse": "hdfs:///wh",
                "hadoop.fs.defaultFS": "hdfs://a:8020",
                "io-impl": "org.apache.iceberg.io.ResolvingFileIO",
            },
        ),
        (
            ["type hadoop", "warehouse /wh", "spark.hadoop.fs.default.name hdfs://old:8020"],
            "filesystem",
            {"warehouse": "/wh", "hadoop.fs.defaultFS": "hdfs://old:8020", "io-impl": "hdfs"},
        ),
        (  # what is for the bucket counts before what is for all
            [
                *("type hadoop", "warehouse s3a://b/wh", "hadoop.fs.s3a.endpoint all:1", "spark.hadoop.fs.s3a.access.key ALL"),
                *("spark.hadoop.fs.s3a.bucket.b.endpoint http://own:2", "hadoop.fs.s3a.bucket.b.access.key OWN"),
            ],
            "filesystem",
            {"warehouse": "s3a://b/wh", "s3.endpoint": "http://own:2", "s3.access-key-id": "OWN"},
        ),
        (["Type hadoop", "WAREHOUSE /wh", "spark.hadoop.hive.metastore.uris thrift://h:1"], "filesystem", {"warehouse": "/wh"}),
        (["type nessie", "uri http://h/api/v2", "Ref dev"], "nessie", {"uri": "http://h/api/v2", "ref": "dev"}),
        (
            ["type hadoop", "warehouse /wh", "spark.hadoop.fs.defaultFS hdfs://a:8020", "hadoop.fs.defaultFS hdfs://lake"],
            "filesystem",
            {"warehouse": "/wh", "hadoop.fs.defaultFS": "hdfs://lake", "io-impl": "hdfs"},
        ),
        (
            [
                *("type hadoop", "warehouse viewfs://all/wh", "spark.hadoop.dfs.ha.namenodes.lake a,b"),
                *("hadoop.fs.viewfs.mounttable.all.link./wh hdfs://lake/wh", "spark.hadoop.fs.defaultFS hdfs://lake"),
            ],
            "filesystem",
            {
                "warehouse": "viewfs://all/wh",
                "hadoop.dfs.ha.namenodes.lake": "a,b",
                "hadoop.fs.viewfs.mounttable.all.link./wh": "hdfs://lake/wh",
            },
        ),
        (
            ["type hadoop", "warehouse hdfs:///wh", "spark.hadoop.fs.defaultFS hdfs://a:8020"],
            "filesystem",
            {"warehouse": "hdfs:///wh", "hadoop.fs.defaultFS": "hdfs://a:8020"},
        ),
        (
            ["type hadoop", "warehouse file:///wh", "spark.hadoop.fs.defaultFS hdfs://a:8020"],
            "filesystem",
            {"warehouse": "file:///wh"},
        ),
        (
            ["type rest", "uri http://h", "credential env:SECRET_OF_REST", "scope env:NOT_SET"],
            "rest",
            {"uri": "http://h", "credential": "id:s3cret"},
        ),
    ],
)
def test_a_catalog_of_java_is_one_here(lines: list[str], kind: str, properties: dict[str, str], tmp_path: Path) -> None:
    found = read(tmp_path, *lines)
    assert (found.usable().type, found.usable().properties, found.notes) == (kind, properties, ())


@pytest.mark.parametrize(
    ("lines", "url", "notes"),
    [
        (["uri jdbc:postgresql://db:5432/ice"], "postgresql+psycopg2://db:5432/ice", []),
        (
            ["uri jdbc:postgresql://db/ice", "jdbc.user me", "jdbc.password p@ss/word", "jdbc.schema-version V1"],
            "postgresql+psycopg2://me:p%40ss%2Fword@db/ice",
            [],
        ),
        (
            ["uri jdbc:postgresql://db/ice?user=me&password=p%40ss&sslmode=require&tcpKeepAlive=true"],
            "postgresql+psycopg2://me:p%40ss@db/ice?sslmode=require",
            ["tcpKeepAlive of its JDBC connection has no effect here"],
        ),
        (  # the driver ignores a property that the URL has, too
            ["uri jdbc:postgresql://db/ice?user=me", "jdbc.user you", "jdbc.password p"],
            "postgresql+psycopg2://me:p@db/ice",
            [],
        ),
        (  # other tables in the same database
            ["uri jdbc:postgresql://db/ice?currentSchema=prod", "jdbc.currentSchema test"],
            "postgresql+psycopg2://db/ice?options=-c%20search_path%3Dprod",
            [],
        ),
        (
            ["uri jdbc:postgresql://db/ice", "jdbc.currentSchema a, b", "jdbc.options -c lock_timeout=9s"],
            "postgresql+psycopg2://db/ice?options=-c%20lock_timeout%3D9s%20-c%20search_path%3Da%2C%5C%20b",
            [],
        ),
        (["uri jdbc:postgresql://db/ice?ssl=true"], "postgresql+psycopg2://db/ice?sslmode=verify-full", []),
        (["uri jdbc:postgresql://db/ice", "jdbc.ssl true"], "postgresql+psycopg2://db/ice?sslmode=verify-full", []),
        (["uri jdbc:postgresql:ice"], "postgresql+psycopg2://localhost/ice", []),
        (["uri jdbc:sqlite:/data/c.db"], "sqlite:////data/c.db", []),
        (["uri jdbc:sqlite:file:c.db?cache=shared"], "sqlite:///c.db", []),
    ],
)
def test_a_jdbc_url_becomes_one_of_sqlalchemy(lines: list[str], url: str, notes: list[str], tmp_path: Path) -> None:
    found = read(tmp_path, "type jdbc", *lines)
    assert found.usable().properties == {"uri": url}
    assert make_url(url)
    assert list(found.notes) == notes


@pytest.mark.parametrize(
    ("lines", "notes"),
    [
        (["io-impl my.FileIO"], ["io-impl my.FileIO has no effect here: files are read by the scheme of their location"]),
        (["table-default.write.format.default orc"], ["table-default.write.format.default has no effect here"]),
        (["hadoop.fs.s3a.committer x"], ["hadoop.fs.s3a.committer has no effect here"]),
        (
            ["io-impl org.apache.iceberg.aws.s3.S3FileIO", "hadoop.fs.s3a.access.key s3cret"],
            ["hadoop.fs.s3a.access.key has no effect beside its io-impl"],
        ),
        (["nessie.ref s3cret"], ["nessie.ref has no effect, as in Java: it is ref there"]),
        (
            ["s3.endpoint http://s3cret", "spark.hadoop.fs.s3a.endpoint h:9000"],
            ["s3.endpoint has no effect, because Spark reads fs.s3a.* for its files"],
        ),
        (["s3.staging-dir private"], ["s3.staging-dir has no effect here"]),
        (["warehous /s3cret"], ["warehous has no effect here"]),
        (["spark.hadoop.fs.s3a.assumed.role.arn s3cret"], ["fs.s3a.assumed.role.arn has no effect here"]),
        (["spark.hadoop.fs.s3a.bucket.b.endpoint s3cret"], ["fs.s3a.bucket.b.endpoint has no effect here, because its warehouse"]),
    ],
)
def test_what_has_no_effect_is_noted_by_name(lines: list[str], notes: list[str], tmp_path: Path) -> None:
    found = read(tmp_path, "type hadoop", "warehouse /wh", *lines)
    assert len(found.notes) == len(notes)
    assert all(told.startswith(note) for told, note in zip(found.notes, notes, strict=True)), found.notes
    assert "s3cret" not in str(found.notes)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["type hive"], "it has no uri of its Hive Metastore, and hive-site.xml is not read"),
        (["type rest", "catalog-impl org.apache.iceberg.rest.RESTCatalog"], "type and catalog-impl are both set"),
        (["type hadoop", "warehouse /a", "Warehouse /b"], "its property warehouse is set twice, in another case"),
        (
            ["type hadoop", "warehouse /a", "spark.hadoop.fs.defaultFS s3a://b"],
            "its warehouse has no scheme, and is in fs.defaultFS s3a",
        ),
        (["catalog-impl my.Catalog"], "catalog-impl 'my.Catalog' is not a class that is known here"),
        (["type bigquery"], "a catalog of type 'bigquery' is not supported"),
        (["type jdbc", "uri jdbc:mysql://me:geheim@h/d"], "its uri (not shown) is neither a jdbc:postgresql:"),
        (["type jdbc", "uri jdbc:postgresql://a,b/geheim"], "its uri names several servers"),
        (["type jdbc"], "its uri (not shown) is neither a jdbc:postgresql:"),
    ],
)
def test_what_cannot_be_used_says_why(lines: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        read(tmp_path, *lines).usable()
    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_warehouse_without_scheme_is_where_hadoops_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    site = tmp_path / "core-site.xml"
    site.write_text("<configuration><property><name>fs.defaultFS</name><value>hdfs://lake</value></property></configuration>")
    assert read(tmp_path, "type hadoop", "warehouse /wh").usable().properties == {"warehouse": "/wh", "io-impl": "hdfs"}
    site.write_text("no XML")
    with pytest.raises(OptionError, match=r"cannot be used: Hadoop's settings .* cannot be read"):
        read(tmp_path, "type hadoop", "warehouse /wh").usable()


def test_only_catalogs_of_iceberg_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"
    path.write_text(
        f"spark.sql.catalog.a {SPARK}\nspark.sql.catalog.a.type hadoop\nspark.sql.catalog.a.warehouse /wh\n"
        "spark.sql.catalog.b org.apache.spark.sql.delta.catalog.DeltaCatalog\n"
        f"spark.sql.catalog.a.catalog-impl2 {SPARK}\nspark.sql.catalogImplementation hive\n"
    )
    assert [found.name for found in spark_catalogs(path, {})] == ["a"]


def test_the_file_is_where_spark_looks() -> None:
    assert spark_file({"SPARK_HOME": "/opt/spark"}) == Path("/opt/spark/conf/spark-defaults.conf")
    assert spark_file({"SPARK_HOME": "/opt/spark", "SPARK_CONF_DIR": "/etc/spark"}) == Path("/etc/spark/spark-defaults.conf")
    with pytest.raises(OptionError, match="neither SPARK_CONF_DIR nor SPARK_HOME is set"):
        spark_file({})
