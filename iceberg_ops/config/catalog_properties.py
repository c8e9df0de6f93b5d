"""The properties of a catalog that this package reads, by type. Other properties have no effect here.

Unknown properties are not an error, because other engines may read them from the same place; a warning names them. A misspelled one
is an error: without ``s3.endpoint``, ``ref`` or ``glue.id`` a job would use another catalog or store. A new store adds its names
here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from iceberg_ops.config.near_names import near_names
from iceberg_ops.errors import OptionError

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
        *("adls.endpoint", "adls.anonymous", "memory.name"),
        *("hdfs.conf-dir", "hdfs.answer-timeout-s", "hdfs.kerberos-principal", "hdfs.kerberos-keytab", "hdfs.kerberos-cache"),
        *(f"{store}.retry.{name}" for store in ("s3", "gcs", "adls") for name in ("num-retries", "min-wait-ms", "max-wait-ms")),
    }
) | _aws("s3", "client")

_OF_NESSIE = frozenset(
    {
        *("uri", "ref", "ref.hash", "user", "client-api-version", "transport.connect-timeout", "transport.read-timeout"),
        *(f"authentication.{name}" for name in ("type", "token", "username", "password")),
        *(f"authentication.oauth2.{name}" for name in ("token-endpoint", "client-id", "client-secret", "client-scopes")),
        *(f"authentication.oauth2.{name}" for name in ("grant-type", "issuer-url", "extra-params")),
    }
)

_OF_NESSIES_CLIENT = frozenset(
    {
        *(f"authentication.oauth2.{name}" for name in ("auth-endpoint", "device-auth-endpoint", "username", "password")),
        *(f"authentication.oauth2.default-{name}-token-lifespan" for name in ("access", "refresh")),
        *(f"authentication.oauth2.{name}" for name in ("refresh-safety-window", "preemptive-token-refresh-idle-timeout")),
        *(f"authentication.oauth2.{name}" for name in ("background-thread-idle-timeout", "token-exchange-enabled")),
        *("authentication.aws.region", "authentication.aws.profile", "client-builder-impl", "client-builder-name"),
        *("transport.disable-compression", "http2-upgrade", "http-redirects", "force-url-connection-client", "tracing"),
        *("enable-api-compatibility-check", "is-nessie-catalog", "gc.no-warning"),
        *(f"ssl.{name}" for name in ("cipher-suites", "no-certificate-verification", "protocols", "sni-hosts", "sni-matcher")),
    }
)
"""Properties of Nessie's own client that have no effect here."""
_GROUPS_OF_NESSIES_CLIENT = ("token-exchange.", "impersonation.", "auth-code-flow.", "device-code-flow.")

_OF_TYPE: Mapping[str, frozenset[str]] = {
    "filesystem": frozenset(),
    "glue": frozenset({"glue.id", "glue.endpoint", "glue.region", "glue.skip-archive"}) | _aws("glue"),
    "hive": frozenset(
        {"uri", "ugi", "engine.hive.lock-enabled", "iceberg.engine.hive.lock-enabled", "hive.kerberos-authentication"}
    ),
    "memory": frozenset(),
    "nessie": _OF_NESSIE | {f"nessie.{name}" for name in _OF_NESSIE},
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
_PREFIXES = (
    *("adls.sas-token.", "adls.connection-string.", "adls.account-key.", "adls.auth.shared-key.account.key."),
    *("adls.auth.shared-key.account.name.", "adls.account-name.", "adls.token."),
)
"""Prefixes of properties that end with the name of an account."""
_HADOOP, _OF_HADOOPS_CLIENTS = "hadoop.", ("hadoop.fs.s3a.", "hadoop.fs.gs.", "hadoop.fs.azure.")
"""Hadoop's settings are for HDFS: object stores have properties of their own."""
_WITH_HEADERS = ("nessie", "rest")

_REFUSED = frozenset(
    {
        *("client.credentials-provider", "s3.acl", "s3.write.storage-class", "gcs.encryption-key", "gcs.decryption-key"),
        *("gcs.user-project", "adls.token-credential-provider", "adls.account-host", "adls.blob-storage-authority"),
    }
)
_REFUSED_PREFIXES = (
    *("client.assume-role.tags.", "s3.access-points.", "s3.write.tags.", "s3.delete.tags.", "gcs.impersonate."),
    "client.credentials-provider.",
)
"""Prefixes of properties that the stores refuse, because they change the identity that is used or what a file is."""

_OF_OTHERS = frozenset(
    {
        *("client.factory", "client.refresh-credentials-enabled", "client.refresh-credentials-endpoint"),
        *("s3.connect-timeout", "s3.request-timeout", "s3.proxy-uri", "s3.resolve-region", "s3.retry-strategy-impl", "s3.signer"),
        *("s3.signer.uri", "s3.signer.endpoint", "s3.sse.md5", "s3.staging-dir", "s3.session-token-expires-at-ms"),
        *("s3.delete.batch-size", "s3.delete.num-threads", "s3.multipart.num-threads", "s3.multipart.threshold"),
        *("s3.client-factory-impl", "s3.preload-client-enabled", "s3.use-arn-region-enabled", "s3.acceleration-enabled"),
        *("s3.dualstack-enabled", "s3.cross-region-access-enabled", "s3.crt.enabled", "s3.crt.max-concurrency"),
        *("s3.write.table-tag-enabled", "s3.write.namespace-tag-enabled", "s3.access-grants.enabled"),
        *("s3.access-grants.fallback-to-iam", "s3.force-virtual-addressing", "s3.server-side-encryption", "s3.sse-kms-key-id"),
        *("gcs.access", "gcs.consistency", "gcs.cache-timeout", "gcs.requester-pays", "gcs.session-kwargs", "gcs.default-location"),
        *("gcs.version-aware", "gcs.client-lib-token", "gcs.delete.batch-size", "gcs.oauth2.token-expires-at"),
        *("gcs.channel.read.chunk-size-bytes", "gcs.channel.write.chunk-size-bytes", "gcs.oauth2.refresh-credentials-enabled"),
        *("gcs.oauth2.refresh-credentials-endpoint", "adls.sas-token-expires-at-ms", "adls.read.block-size-bytes"),
        *("adls.write.block-size-bytes", "adls.refresh-credentials-enabled", "adls.refresh-credentials-endpoint"),
        *("adls.dfs-storage-authority", "adls.blob-storage-scheme", "adls.dfs-storage-scheme"),
        *("adls.credential", "glue.account-id", "glue.lakeformation-enabled", "glue.skip-name-validation", "glue.max-retries"),
        *("glue.retry-mode", "hive.hive2-compatible", "hive.kerberos-service-name", "hive.metastore.uris"),
        *(
            "rest-metrics-reporting-enabled",
            "rest-scan-planning-enabled",
            "rest.client.max-connections",
            "rest.client.connections-per-route",
        ),
        *("rest.client.proxy.hostname", "rest.client.proxy.port", "rest.client.proxy.username", "rest.client.proxy.password"),
        *("rest.client.max-retries", "rest.client.user-agent", "rest.client.tls.configurer-impl", "kms.endpoint", "oss.endpoint"),
        *("rest-scan-planning.poll-timeout-ms", "s3.chunked-encoding-enabled", "client.factory-impl", "engine.hive.enabled"),
        *("adls.anon", "hdfs.host", "hdfs.port", "hdfs.user", "hdfs.kerberos_ticket", "hf.endpoint", "rest.sigv4.max-retries"),
        *("iceberg.engine.hive.enabled", "client.access-key-secret", "client.security-token"),
        *("token-expires-in-ms", "token-refresh-enabled", "token-exchange-enabled", "type", "catalog-impl", "py-io-impl", "user"),
        "credentials.uri",
        *_OF_NESSIES_CLIENT,
        *(f"nessie.{name}" for name in _OF_NESSIES_CLIENT),
    }
)
"""Properties of Iceberg Java and pyiceberg that have no effect here but resemble a property that has."""
_OF_OTHERS_PREFIXES = (
    "adls.sas-token-expires-at-ms.",
    *(f"{start}authentication.oauth2.{group}" for start in ("", "nessie.") for group in _GROUPS_OF_NESSIES_CLIENT),
)
_OURS = ("s3.", "client.", "gcs.", "adls.", "hdfs.", "glue.", "rest.", "rest-", "nessie.", "authentication.", "transport.")
_LIKENESS, _LIKENESS_OF_OURS = 0.8, 0.6
_OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("branch", "reference", "ref-name", "ref.name", "tag"), ("ref",)),
    "hash": ("ref.hash",),
    **dict.fromkeys(("catalog-id", "catalogid", "account-id"), ("glue.id",)),
    **dict.fromkeys(("region", "aws-region", "aws.region", "region-name"), ("client.region",)),
    **dict.fromkeys(("profile", "aws-profile", "aws.profile"), ("client.profile-name",)),
    **dict.fromkeys(("s3.url", "s3.host", "endpoint-url", "aws-endpoint-url", "aws-endpoint-url-s3"), ("s3.endpoint",)),
    **dict.fromkeys(("conf-dir", "hadoop-conf-dir"), ("hdfs.conf-dir",)),
    **dict.fromkeys((f"warehouse-{word}" for word in ("dir", "id", "location", "name", "path")), ("warehouse",)),
    **dict.fromkeys(("store", "stores", "store-id", "store-ids", "store-connection", "store-connections"), ("store_conn_id",)),
}
"""What people may write, in lower case and with ``-`` for ``_`` -> the property that they mean."""
_HEADER = re.compile(r"headers?[.-](?=.)")
_STORE_CONN_ID = "store_conn_id"
"""A key of a connection of Airflow, which calls such keys ``aws_conn_id``."""
_ABSOLUTE = re.compile(r"/|[a-z][a-z0-9+.-]*://|(file|hdfs|viewfs|webhdfs|swebhdfs):/", re.IGNORECASE)
"""Places that do not depend on the working folder: ``file:wh`` and ``wh:1`` are relative paths (``io.locations.is_absolute``)."""
_SQLITE = re.compile(r"sqlite(?:\+\w+)?://[^/]*/(?:file:)?([^?]+)")
"""A SQLite database in a file, and its path."""


def is_known(kind: str, name: str) -> bool:
    """Whether a catalog of type ``kind`` reads or refuses the property; always true for an unknown type."""
    if (known := _OF_TYPE.get(kind)) is None:
        return True
    return name in known or _is_known_everywhere(name) or (kind in _WITH_HEADERS and name.startswith("header."))


def of_files(kind: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that workers need for files: without those that only the catalog uses, some of which are secret."""
    return {name: value for name, value in properties.items() if name not in _OF_TYPE.get(kind, ())}


def unread(kind: str, names: Iterable[str]) -> list[str]:
    """The properties that have no effect here."""
    return sorted(name for name in names if not is_known(kind, name))


def check_names(where: str, kind: str, names: Iterable[str], more: Iterable[str] = ()) -> None:
    """Raise OptionError for an unknown name that resembles a property of a catalog of type ``kind``, for example in other case, or
    is another word for one (``branch`` for ``ref``). ``more``: further allowed names."""
    known = [*_OF_TYPE.get(kind, ()), *_EVERYWHERE, *more]
    for name in unread(kind, names):
        near = _other_words(kind, name, known)
        if not near and name not in known and not _is_of_others(name):
            near = near_names(name, known, likeness=_LIKENESS_OF_OURS if name.startswith(_OURS) else _LIKENESS)
        if near:
            raise OptionError(
                f"{where}: there is no property {name!r} (did you mean {near[0]!r}?): correct it, or leave it out, because a job "
                "without it may work on another lake"
            )


def relative_place(kind: str, properties: Mapping[str, str]) -> str | None:
    """The problem with a warehouse, or the file of a SQLite database, that is a relative path: working folders differ between
    processes, and SQLite makes a new, empty database where there is none. None for other places, and for the warehouse of a REST
    catalog, which is a name."""
    where = "is relative to the working folder, which may differ between processes: write an absolute path"
    warehouse = properties.get("warehouse", "/")
    if kind != "rest" and _ABSOLUTE.match(warehouse) is None:
        return f"warehouse {warehouse!r} {where}"
    database = _SQLITE.match(properties.get("uri", ""))
    if kind == "sql" and database is not None and not database[1].startswith(("/", ":memory:")):
        return f"the database file of its uri (not shown) {where}, with four slashes: sqlite:////data/catalog.db"
    return None


def _other_words(kind: str, name: str, known: Collection[str]) -> list[str]:
    """The property that is meant by a name that does not resemble it."""
    folded = name.lower().replace("_", "-")
    if kind in _WITH_HEADERS and (header := _HEADER.match(folded)) is not None:
        return [f"header.{name[header.end() :]}"]
    if _STORE_CONN_ID in known and folded.endswith(("-conn-id", "-conn-ids")):
        return [_STORE_CONN_ID]
    return [meant for meant in _OTHER_WORDS.get(folded, ()) if meant in known]


def _is_of_others(name: str) -> bool:
    """Whether another engine, or a catalog of another type, has the property."""
    return name in _OF_OTHERS or name.startswith(_OF_OTHERS_PREFIXES) or any(name in of_type for of_type in _OF_TYPE.values())


def _is_known_everywhere(name: str) -> bool:
    if name.startswith(_HADOOP):
        return not name.startswith(_OF_HADOOPS_CLIENTS)
    return name in _EVERYWHERE or name in _REFUSED or name.startswith((*_PREFIXES, *_REFUSED_PREFIXES))
