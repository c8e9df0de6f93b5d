"""Files that a catalog of Spark reads through Hadoop's own clients, as the settings of Spark and of the catalog configure them.

Most catalogs read all files through them, unless their ``io-impl`` says otherwise. A REST catalog reads those in S3 through
Iceberg's own client, and so does Glue: Spark's settings for S3 are not for them, but for Spark's other sources.

S3 is ``fs.s3a.*``, of which ``fs.s3a.bucket.NAME.*`` is for one bucket. HDFS is ``dfs.*``, and ``fs.viewfs.*`` for mount tables. A
warehouse without scheme lies in ``fs.defaultFS``, and so does one of HDFS without a name node (``hdfs:///wh``).
Settings of the catalog (``hadoop.*``) count before Spark's (``spark.hadoop.*``). Sources: Hadoop 3.4, "Hadoop-AWS module"; Iceberg
1.11, ``SparkUtil.hadoopConfCatalogOverrides``, ``RESTSessionCatalog``, ``GlueCatalog``, ``ResolvingFileIO``.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from iceberg_ops.catalog.foreign.taken import UnusableCatalog
from iceberg_ops.errors import OptionError
from iceberg_ops.io.hadoop_settings import DEFAULT as _DEFAULT
from iceberg_ops.io.hadoop_settings import OLD_DEFAULT, SCHEMES, HadoopSettings, with_default_file_system
from iceberg_ops.io.load import IO_IMPL

_HADOOP, _BY_SCHEME = "org.apache.iceberg.hadoop.HadoopFileIO", "org.apache.iceberg.io.ResolvingFileIO"
_FILES_OF = {"rest": _BY_SCHEME, "glue": "org.apache.iceberg.aws.s3.S3FileIO"}
"""The ``io-impl`` of a type of catalog that names none, where it is not Hadoop's."""
_OF_CATALOG, _OF_SPARK = "hadoop.", "spark.hadoop."
_S3A = {
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "s3.region",
    "fs.s3a.access.key": "s3.access-key-id",
    "fs.s3a.secret.key": "s3.secret-access-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.path.style.access": "s3.path-style-access",
}
"""Only properties of files: ``client.region`` is also the region of Glue, and of a REST catalog's signatures."""
_TLS = "fs.s3a.connection.ssl.enabled"
_BUCKET = "fs.s3a.bucket."
_WHO_AND_HOW = ("fs.s3a.assumed.role.arn", "fs.s3a.encryption.algorithm", "fs.s3a.server-side-encryption-algorithm")
"""Settings for S3 that change who acts, or what a written file is."""
_OF_HDFS = ("dfs.", "fs.viewfs.")


def hadoop_files(kind: str, given: Mapping[str, str], settings: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """The properties here of a catalog of type ``kind`` with the properties ``given``. Raises Unusable for a warehouse in a default
    file system that is not supported."""
    files = given.get(IO_IMPL) or _FILES_OF.get(kind, _HADOOP)
    of_catalog = {key.removeprefix(_OF_CATALOG): value for key, value in given.items() if key.startswith(_OF_CATALOG)}
    if files not in (_HADOOP, _BY_SCHEME):
        notes += [f"hadoop.{key} has no effect beside its {IO_IMPL}" for key in sorted(of_catalog)]
        return {}
    of_spark = {key.removeprefix(_OF_SPARK): value for key, value in settings.items() if key.startswith(_OF_SPARK)}
    both = with_default_file_system(of_spark) | with_default_file_system(of_catalog)
    warehouse = urlsplit(given.get("warehouse", ""))
    of_hdfs = {f"{_OF_CATALOG}{key}": value for key, value in both.items() if key.startswith(_OF_HDFS)}
    is_by_scheme = files == _BY_SCHEME
    notes += [f"hadoop.{key} has no effect here" for key in sorted(of_catalog) if not _has_effect(key, is_by_scheme)]
    default = dict[str, str]()
    if not warehouse.scheme and warehouse.path and (kind == "filesystem" or not (is_by_scheme or kind == "rest")):
        default = _in_default_file_system(both, of_hdfs)
    elif warehouse.scheme.lower() in SCHEMES and not warehouse.netloc and _DEFAULT in both:
        default = {f"{_OF_CATALOG}{_DEFAULT}": both[_DEFAULT]}
    return of_hdfs | default | ({} if is_by_scheme else _of_s3a(given, both, warehouse.netloc, notes))


def _has_effect(key: str, is_by_scheme: bool) -> bool:
    """Whether one of the catalog's own settings of Hadoop is read. Those for S3 are not where Iceberg's own client reads S3."""
    if key in (_DEFAULT, OLD_DEFAULT) or key.startswith(_OF_HDFS):
        return True
    return not is_by_scheme and (key in (*_S3A, _TLS) or key.startswith(_BUCKET))


def _in_default_file_system(both: Mapping[str, str], of_hdfs: Mapping[str, str]) -> dict[str, str]:
    """What a location without scheme means; the settings of HADOOP_CONF_DIR are read where Spark's own name nothing."""
    default = {f"{_OF_CATALOG}{_DEFAULT}": both[_DEFAULT]} if _DEFAULT in both else {}
    try:
        named = HadoopSettings.of({**of_hdfs, **default}).values.get(_DEFAULT, "")
    except OptionError as e:
        raise UnusableCatalog(str(e)) from None
    scheme = urlsplit(named).scheme.lower()
    if scheme in SCHEMES:
        return {**default, IO_IMPL: "hdfs"}
    if scheme not in ("", "file"):
        raise UnusableCatalog(
            f"its warehouse has no scheme, and is in {_DEFAULT} {scheme}:// then: write the scheme and authority before it"
        )
    return {}


def _of_s3a(given: Mapping[str, str], both: Mapping[str, str], bucket: str, notes: list[str]) -> dict[str, str]:
    of_bucket = f"{_BUCKET}{bucket}."
    others = sorted(key for key in both if key.startswith(_BUCKET) and not (bucket and key.startswith(of_bucket)))
    notes += [f"{key} has no effect here, because its warehouse is in another bucket" for key in others]
    both = {**both, **{f"fs.s3a.{key.removeprefix(of_bucket)}": both[key] for key in both if bucket and key.startswith(of_bucket)}}
    notes += [f"{key} has no effect here" for key in _WHO_AND_HOW if key in both]
    properties = {_S3A[key]: value for key, value in both.items() if key in _S3A}
    if (endpoint := properties.get("s3.endpoint")) and "://" not in endpoint:
        properties["s3.endpoint"] = f"{'http' if both.get(_TLS, 'true').lower() == 'false' else 'https'}://{endpoint}"
    unread = sorted(name for name, value in properties.items() if given.get(name, value) != value)
    notes += [f"{name} has no effect, because Spark reads fs.s3a.* for its files" for name in unread]
    return properties
