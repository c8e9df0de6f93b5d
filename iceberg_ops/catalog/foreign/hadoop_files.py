"""Files that a catalog of Spark reads through Hadoop's own clients, as the settings of Spark and of the catalog configure them.

S3 is ``fs.s3a.*``, of which ``fs.s3a.bucket.NAME.*`` is for one bucket. HDFS is ``dfs.*``, and ``fs.viewfs.*`` for mount tables. A
warehouse without scheme lies in ``fs.defaultFS``, and so does one of HDFS without a name node (``hdfs:///wh``).
Settings of the catalog (``hadoop.*``) count before Spark's (``spark.hadoop.*``). Sources: Hadoop 3.4, "Hadoop-AWS module"; Iceberg
1.11, ``SparkUtil.hadoopConfCatalogOverrides``.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from iceberg_ops.catalog.foreign.taken import Unusable
from iceberg_ops.errors import OptionError
from iceberg_ops.io.hadoop_settings import SCHEMES, HadoopSettings
from iceberg_ops.io.load import IO_IMPL

_HADOOP_FILES = (None, "org.apache.iceberg.hadoop.HadoopFileIO")
_OF_CATALOG, _OF_SPARK = "hadoop.", "spark.hadoop."
_S3A = {
    "fs.s3a.endpoint": "s3.endpoint",
    "fs.s3a.endpoint.region": "client.region",
    "fs.s3a.access.key": "s3.access-key-id",
    "fs.s3a.secret.key": "s3.secret-access-key",
    "fs.s3a.session.token": "s3.session-token",
    "fs.s3a.path.style.access": "s3.path-style-access",
}
_TLS = "fs.s3a.connection.ssl.enabled"
_BUCKET = "fs.s3a.bucket."
_WHO_AND_HOW = ("fs.s3a.assumed.role.arn", "fs.s3a.encryption.algorithm", "fs.s3a.server-side-encryption-algorithm")
"""Settings for S3 that change who acts, or what a written file is."""
_DEFAULT = "fs.defaultFS"
_OF_HDFS = ("dfs.", "fs.viewfs.")


def hadoop_files(given: Mapping[str, str], settings: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """The properties here of a catalog with the properties ``given``. Raises Unusable for a warehouse in a default file system that
    is not supported."""
    own = {key.removeprefix(_OF_CATALOG): value for key, value in given.items() if key.startswith(_OF_CATALOG)}
    if given.get(IO_IMPL) not in _HADOOP_FILES:
        notes += [f"hadoop.{key} has no effect beside its {IO_IMPL}" for key in sorted(own)]
        return {}
    both = {key.removeprefix(_OF_SPARK): value for key, value in settings.items() if key.startswith(_OF_SPARK)} | own
    warehouse = urlsplit(given.get("warehouse", ""))
    notes += [f"hadoop.{key} has no effect here" for key in sorted(own) if not _has_effect(key)]
    of_hdfs = {f"{_OF_CATALOG}{key}": value for key, value in both.items() if key.startswith(_OF_HDFS)}
    default = dict[str, str]()
    if not warehouse.scheme and warehouse.path:
        default = _in_default_file_system(both, of_hdfs)
    elif warehouse.scheme.lower() in SCHEMES and not warehouse.netloc and _DEFAULT in both:
        default = {f"{_OF_CATALOG}{_DEFAULT}": both[_DEFAULT]}
    return of_hdfs | default | _of_s3a(given, both, warehouse.netloc, notes)


def _has_effect(key: str) -> bool:
    return key in (*_S3A, _TLS, _DEFAULT) or key.startswith((_BUCKET, *_OF_HDFS))


def _in_default_file_system(both: Mapping[str, str], of_hdfs: Mapping[str, str]) -> dict[str, str]:
    """What a location without scheme means; the settings of HADOOP_CONF_DIR are read where Spark's own name nothing."""
    default = {f"{_OF_CATALOG}{_DEFAULT}": both[_DEFAULT]} if _DEFAULT in both else {}
    try:
        named = HadoopSettings.of({**of_hdfs, **default}).values.get(_DEFAULT, "")
    except OptionError as e:
        raise Unusable(str(e)) from None
    scheme = urlsplit(named).scheme.lower()
    if scheme in SCHEMES:
        return {**default, IO_IMPL: "hdfs"}
    if scheme not in ("", "file"):
        raise Unusable(
            f"its warehouse has no scheme, and is in {_DEFAULT} {scheme}:// then: write the scheme and authority before it"
        )
    return {}


def _of_s3a(given: Mapping[str, str], both: Mapping[str, str], bucket: str, notes: list[str]) -> dict[str, str]:
    of_bucket = f"{_BUCKET}{bucket}."
    others = sorted(key for key in both if key.startswith(_BUCKET) and not (bucket and key.startswith(of_bucket)))
    notes += [f"{key} has no effect here, because its warehouse is in another bucket" for key in others]
    both = {**both, **{f"fs.s3a.{key.removeprefix(of_bucket)}": both[key] for key in both if bucket and key.startswith(of_bucket)}}
    notes += [f"{key} has no effect here" for key in _WHO_AND_HOW if key in both]
    found = {_S3A[key]: value for key, value in both.items() if key in _S3A and _S3A[key] not in given}
    if (endpoint := found.get("s3.endpoint")) and "://" not in endpoint:
        found["s3.endpoint"] = f"{'http' if both.get(_TLS, 'true').lower() == 'false' else 'https'}://{endpoint}"
    return found
