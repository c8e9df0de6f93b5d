"""The Iceberg catalogs of a Spark configuration: ``spark.sql.catalog.NAME`` and the properties below that name.

Their type is ``type`` or ``catalog-impl``, by default hive; a Hive Metastore's address and what ``hadoop_files`` reads may be
Spark's own, as in ``spark.hadoop.fs.s3a.access.key``. Names of properties count in any case, but those of a REST catalog, which
takes values from the environment (``env:NAME``). Sources: Iceberg 1.11, ``SparkCatalog``, ``CatalogUtil``, ``CatalogProperties``,
``EnvironmentUtil``, ``NessieCatalog``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from iceberg_ops.catalog.foreign.hadoop_files import hadoop_files
from iceberg_ops.catalog.foreign.java_properties import parse_properties
from iceberg_ops.catalog.foreign.jdbc import sqlalchemy_url
from iceberg_ops.catalog.foreign.taken import ForeignCatalog, UnusableCatalog, taken, unusable
from iceberg_ops.config.catalog_properties import is_known
from iceberg_ops.errors import OptionError
from iceberg_ops.io.load import IO_IMPL, JAVA_NAMES

_CATALOG = "spark.sql.catalog."
_CLASSES = ("org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog")
_TYPES = {"hadoop": "filesystem", "jdbc": "sql"}
"""Java's name of a type -> the one here, where they differ."""
_IMPLEMENTATIONS = {
    "org.apache.iceberg.hadoop.HadoopCatalog": "filesystem",
    "org.apache.iceberg.hive.HiveCatalog": "hive",
    "org.apache.iceberg.rest.RESTCatalog": "rest",
    "org.apache.iceberg.aws.glue.GlueCatalog": "glue",
    "org.apache.iceberg.jdbc.JdbcCatalog": "sql",
    "org.apache.iceberg.nessie.NessieCatalog": "nessie",
}
_METASTORES = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris")
_OF_ENGINE = ("cache-enabled", "cache.", "clients", "client.pool.", "default-namespace", "metrics-reporter-impl")
"""About how Spark works with the catalog, not about what it is."""
_OF_JDBC = ("jdbc.schema-version", "jdbc.init-catalog-tables", "jdbc.strict-mode", "jdbc.add-view-support")
"""About how Java works with its tables; all else is for the driver."""
_OF_TABLES = ("table-default.", "table-override.")
_IGNORED_BY_JAVA = ("nessie.ref", "nessie.ref.hash", "nessie.client-api-version", "nessie.user")
"""Java's NessieCatalog reads its own properties without the prefix, and those of Nessie's client with it, too."""
_OF_EVERY_TYPE = ("type", "catalog-impl", IO_IMPL)
_FROM_ENVIRONMENT = "env:"


def spark_file(environment: Mapping[str, str]) -> Path:
    """Where Spark looks for its defaults. Raises OptionError."""
    if folder := environment.get("SPARK_CONF_DIR"):
        return Path(folder) / "spark-defaults.conf"
    if home := environment.get("SPARK_HOME"):
        return Path(home) / "conf" / "spark-defaults.conf"
    raise OptionError("spark: neither SPARK_CONF_DIR nor SPARK_HOME is set: name the file, as in spark:/etc/spark-defaults.conf")


def spark_catalogs(path: Path, environment: Mapping[str, str]) -> list[ForeignCatalog]:
    """The catalogs in a properties file. Raises OptionError for a file that is missing or not UTF-8."""
    if not path.is_file():
        raise OptionError(f"spark:{path}: there is no such file")
    try:
        settings = parse_properties(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError):
        raise OptionError(f"{path}: is not UTF-8 text") from None
    names = [key.removeprefix(_CATALOG) for key, value in settings.items() if key.startswith(_CATALOG) and value in _CLASSES]
    return [_taken(name, f"Spark ({path})", settings, environment) for name in names if "." not in name]


def _taken(name: str, source: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> ForeignCatalog:
    begun = f"{_CATALOG}{name}."
    given = {key.removeprefix(begun): value for key, value in settings.items() if key.startswith(begun)}
    notes: list[str] = []
    try:
        given = _spelled(given, lambda lower: lower in _OF_EVERY_TYPE)
        kind = _kind(given)
        if kind == "rest":
            given = dict(_of_environment(given, environment))
        else:
            given = _spelled(given, lambda lower: is_known(kind, lower))
        properties = _kept(given, notes)
        properties |= hadoop_files(kind, given, settings, notes)
        if kind == "hive" and not properties.get("uri"):
            properties["uri"] = _metastore(settings)
        if kind == "sql":
            of_driver = {key.removeprefix("jdbc."): properties.pop(key) for key in list(properties) if key.startswith("jdbc.")}
            properties["uri"] = sqlalchemy_url(properties.get("uri", ""), of_driver, notes)
        return taken(name, source, kind, properties, notes)
    except UnusableCatalog as e:
        return unusable(name, source, str(e))


def _spelled(given: Mapping[str, str], is_name: Callable[[str], bool]) -> dict[str, str]:
    """The properties with the names that ``is_name`` knows in lower case. Raises Unusable for one that is there twice."""
    spelled: dict[str, str] = {}
    for key, value in given.items():
        name = key.lower() if is_name(key.lower()) and not key.startswith("hadoop.") else key
        if spelled.setdefault(name, value) != value:
            raise UnusableCatalog(f"its property {name} is set twice, in another case, to different values: keep one of them")
    return spelled


def _of_environment(given: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """With the values of variables; without properties whose variable is not set, as in Java."""
    for key, value in given.items():
        name = value.removeprefix(_FROM_ENVIRONMENT)
        if name == value:
            yield key, value
        elif name in environment:
            yield key, environment[name]


def _kind(given: dict[str, str]) -> str:
    """Raises Unusable, as Java refuses both."""
    named, code = given.pop("type", ""), given.pop("catalog-impl", "")
    if named and code:
        raise UnusableCatalog("type and catalog-impl are both set: Iceberg takes one of them")
    if code:
        if code not in _IMPLEMENTATIONS:
            raise UnusableCatalog(f"catalog-impl {code!r} is not a class that is known here")
        return _IMPLEMENTATIONS[code]
    return _TYPES.get(named.lower(), named.lower() or "hive")


def _kept(given: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for key, value in given.items():
        if key == IO_IMPL and value not in JAVA_NAMES:
            notes.append(f"{key} {value} has no effect here: files are read by the scheme of their location")
        elif key.startswith(_OF_TABLES):
            notes.append(f"{key} has no effect here: set it as a property of the tables")
        elif key in _IGNORED_BY_JAVA:
            notes.append(f"{key} has no effect, as in Java: it is {key.removeprefix('nessie.')} there")
        elif not key.startswith((*_OF_ENGINE, *_OF_JDBC, "hadoop.")):
            properties[key] = value
    return properties


def _metastore(settings: Mapping[str, str]) -> str:
    uri = next((value for key in _METASTORES if (value := settings.get(key))), None)
    if uri is None:
        raise UnusableCatalog("it has no uri of its Hive Metastore, and hive-site.xml is not read: set its property uri")
    return uri
