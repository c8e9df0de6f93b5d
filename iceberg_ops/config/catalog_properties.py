"""The properties of a catalog that this package reads, by the catalog's type: what else a configuration holds has no effect here.

Unknown properties are no error, because other engines may read them from the same place; whoever takes over such a configuration is
told which they are. A store that is added adds its names here.
"""

from __future__ import annotations

from collections.abc import Mapping

_AWS = ("access-key-id", "secret-access-key", "session-token", "profile-name", "role-arn", "role-session-name")


def _aws(*services: str) -> frozenset[str]:
    return frozenset(f"{service}.{name}" for service in services for name in _AWS)


_EVERYWHERE = frozenset(
    {
        *("warehouse", "io-impl", "location-mapping", "read-only", "spark-from-bytes"),
        *("client.region", "client.assume-role.arn", "client.assume-role.region", "client.assume-role.external-id"),
        *("client.assume-role.session-name", "client.assume-role.timeout-sec"),
        *("s3.endpoint", "s3.path-style-access", "s3.region", "s3.anonymous", "s3.sse.type", "s3.sse.key", "s3.checksum-enabled"),
        *("s3.multipart.part-size-bytes", "s3.delete-enabled", "s3.remote-signing-enabled"),
        *("gcs.oauth2.token", "gcs.service.host", "gcs.no-auth", "gcs.project-id"),
        *("adls.account-name", "adls.account-key", "adls.auth.shared-key.account.name", "adls.auth.shared-key.account.key"),
        *("adls.sas-token", "adls.connection-string", "adls.token", "adls.tenant-id", "adls.client-id", "adls.client-secret"),
        *("adls.endpoint", "adls.anonymous"),
        *("hdfs.conf-dir", "hdfs.answer-timeout-s", "hdfs.kerberos-principal", "hdfs.kerberos-keytab", "hdfs.kerberos-cache"),
        *(f"{store}.retry.{name}" for store in ("s3", "gcs", "adls") for name in ("num-retries", "min-wait-ms", "max-wait-ms")),
    }
) | _aws("s3", "client")

_OF_TYPE: Mapping[str, frozenset[str]] = {
    "filesystem": frozenset(),
    "glue": frozenset({"glue.id", "glue.endpoint", "glue.region", "glue.skip-archive"}) | _aws("glue"),
    "hive": frozenset(
        {"uri", "ugi", "engine.hive.lock-enabled", "iceberg.engine.hive.lock-enabled", "hive.kerberos-authentication"}
    ),
    "memory": frozenset(),
    "rest": frozenset(
        {
            *("uri", "prefix", "credential", "token", "oauth2-server-uri", "scope", "audience", "resource"),
            *("rest.auth.type", "rest.auth.basic.username", "rest.auth.basic.password", "rest.sigv4-enabled"),
            *("rest.signing-name", "rest.signing-region", "rest-page-size", "namespace-separator"),
            *("rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"),
        }
    )
    | _aws("rest"),
    "sql": frozenset({"uri"}),
}
_PREFIXES = ("adls.sas-token.", "adls.connection-string.", "adls.account-key.", "adls.auth.shared-key.account.key.")
"""Of properties that end with the name of an account."""


def is_known(kind: str, name: str) -> bool:
    """Whether a catalog of type ``kind`` reads the property. Of a type without a list every property counts as read."""
    if (known := _OF_TYPE.get(kind)) is None:
        return True
    return name in known or name in _EVERYWHERE or name.startswith(_PREFIXES) or (kind == "rest" and name.startswith("header."))
