"""The connection types in Airflow's form: one for each kind of catalog, and one for each kind of store.

A new type is one entry in ``TYPES``: the form, the hook with its Test button and the reading of a connection follow from it. The
extra keys of a connection are properties under Iceberg's names; ``login`` and ``password`` name the properties that Airflow's own
fields hold.

A secret is the connection's password, or its name is one that Airflow hides (``secret``, ``token``, ``password``): Airflow shows
other keys of an extra to everyone who may see the connection. The address to which the password is sent is the connection's
``host``, because Airflow does not use a saved password to test a connection whose host was changed.

Imports nothing, because every Airflow process reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NAME, STORES, TEST_FOLDER, DEPLOYMENT = "name", "store_conn_id", "test-folder", "deployment"
"""Keys of an extra that are not properties of the catalog."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form, beside Airflow's own. ``among``: the values to choose from."""

    label: str
    help: str = ""
    kind: Literal["text", "secret", "flag"] = "text"
    among: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionType:
    """``type``: the catalog's, as in a job spec; empty for a store. ``own_fields``: which of Airflow's own fields it has, with
    their labels. ``login``, ``password``: the names of the properties in these fields, if each is one property. ``scheme``: the
    default scheme of the ``uri`` that is made of host, port and schema."""

    name: str
    title: str
    type: str = ""
    hook: str
    own_fields: Mapping[str, str]
    fields: Mapping[str, Field]
    placeholders: Mapping[str, str] = field(default_factory=dict)
    login: str = ""
    password: str = ""
    scheme: str = ""

    @property
    def is_store(self) -> bool:
        return not self.type

    def form(self) -> dict[str, object]:
        """The type in Airflow's provider metadata (``provider_info.schema.json``)."""
        standard_fields = {"host", "port", "schema", "login", "password"}
        return {
            "connection-type": self.name,
            "hook-class-name": f"iceberg_airflow.hook.{self.hook}",
            "hook-name": self.title,
            "ui-field-behaviour": {
                "hidden-fields": sorted(standard_fields - self.own_fields.keys()),
                "relabeling": dict(self.own_fields),
                "placeholders": dict(self.placeholders),
            },
            "conn-fields": {name: _form(form_field) for name, form_field in {**self.fields, **self._last()}.items()},
        }

    def _last(self) -> dict[str, Field]:
        return {TEST_FOLDER: _STORE_FOLDER} if self.is_store else {STORES: _STORE, TEST_FOLDER: _CATALOG_FOLDER}


def _form(form_field: Field) -> dict[str, object]:
    schema: dict[str, object] = {"type": ["boolean" if form_field.kind == "flag" else "string", "null"]}
    if form_field.kind == "secret":
        schema["format"] = "password"
    if form_field.among:
        schema["enum"] = list(form_field.among)
    return {"label": form_field.label, "schema": schema, **({"description": form_field.help} if form_field.help else {})}


_NAME = Field("Catalog name", "The first part of every table's name, such as lake in lake.shop.orders. Required.")
_WAREHOUSE = Field("Warehouse", "Where new tables go, such as s3://bucket/warehouse or /data/warehouse.")
_STORE = Field("Store connections", "Ids of the connections that give access to the tables' files, separated by commas.")
_STORE_FOLDER = Field("Folder for Test", "Test writes a small file there and deletes it, such as s3://bucket/folder.")
_CATALOG_FOLDER = Field(
    "Folder for Test", "Test writes a small file there and deletes it; default: the metadata folder of a table."
)
_REGION = Field("Region", "Such as eu-west-1; default: the environment's.")

_CATALOGS = (
    ConnectionType(
        name="iceberg_sql",
        title="Iceberg catalog: SQL (PostgreSQL)",
        type="sql",
        hook="SqlCatalogHook",
        own_fields={"host": "Host", "port": "Port", "schema": "Database", "login": "User", "password": "Password"},
        placeholders={"host": "db.example.com", "port": "5432", "schema": "iceberg"},
        scheme="postgresql+psycopg2",
        fields={
            NAME: _NAME,
            "uri": Field("URI", "Instead of host, port and database: SQLAlchemy's URL, without user and password."),
            "warehouse": _WAREHOUSE,
        },
    ),
    ConnectionType(
        name="iceberg_hive",
        title="Iceberg catalog: Hive Metastore",
        type="hive",
        hook="HiveCatalogHook",
        own_fields={"host": "Host", "port": "Port"},
        placeholders={"host": "metastore.example.com", "port": "9083"},
        scheme="thrift",
        fields={
            NAME: _NAME,
            "uri": Field("URI", "Instead of host and port: several servers, such as thrift://one:9083,thrift://two:9083."),
            "warehouse": _WAREHOUSE,
            "engine.hive.lock-enabled": Field("Locks", "Whether commits take the metastore's lock; default: true.", "flag"),
            "ugi": Field("Caller", "user:group1,group2, for a metastore that asks for it."),
        },
    ),
    ConnectionType(
        name="iceberg_rest",
        title="Iceberg catalog: REST",
        type="rest",
        hook="RestCatalogHook",
        own_fields={"host": "URI", "login": "Client id or user", "password": "Client secret, token or password"},
        placeholders={"host": "https://catalog.example.com/api/catalog"},
        scheme="https",
        fields={
            NAME: _NAME,
            "warehouse": Field("Warehouse", "Its name, if the server has several."),
            "prefix": Field("Prefix", "A part of every path; most servers set it themselves."),
            "rest.auth.type": Field(
                "Authentication",
                "Default: OAuth2 if there is a password (a client's secret, or alone a token), else none.",
                among=("none", "oauth2", "basic", "sigv4"),
            ),
            "oauth2-server-uri": Field("Token server", "Default: the catalog itself."),
            "scope": Field("Scope", "Of the token; default: catalog."),
            "rest.signing-name": Field("Signing name", "For sigv4: glue, s3tables or execute-api (the default)."),
            "client.region": _REGION,
        },
    ),
    ConnectionType(
        name="iceberg_glue",
        title="Iceberg catalog: AWS Glue",
        type="glue",
        hook="GlueCatalogHook",
        own_fields={"login": "Access key id", "password": "Secret access key"},
        login="glue.access-key-id",
        password="glue.secret-access-key",
        fields={
            NAME: _NAME,
            "client.region": _REGION,
            "warehouse": _WAREHOUSE,
            "glue.id": Field("Catalog id", "The account whose catalog it is, if it is another one."),
            "glue.endpoint": Field("Endpoint", "Another address than AWS's."),
            "glue.session-token": Field("Session token", kind="secret"),
            "client.profile-name": Field("Profile", "Of ~/.aws, on every machine that runs jobs."),
            "client.role-arn": Field("Role", "The ARN of a role to assume, for Glue and for S3."),
        },
    ),
    ConnectionType(
        name="iceberg_nessie",
        title="Iceberg catalog: Nessie",
        type="nessie",
        hook="NessieCatalogHook",
        own_fields={"host": "URI", "login": "Client id or user", "password": "Client secret, token or password"},
        placeholders={"host": "https://nessie.example.com/api/v2"},
        scheme="https",
        fields={
            NAME: _NAME,
            "warehouse": _WAREHOUSE,
            "ref": Field("Branch", "Or tag; default: the server's default branch."),
            "authentication.type": Field(
                "Authentication",
                "Default: BASIC for a user with a password, BEARER for a password alone (a token), else none.",
                among=("NONE", "BASIC", "BEARER", "OAUTH2"),
            ),
            "authentication.oauth2.token-endpoint": Field("Token server", "For OAUTH2: its address for tokens."),
            "authentication.oauth2.client-scopes": Field("Scopes", "For OAUTH2."),
        },
    ),
    ConnectionType(
        name="iceberg_filesystem",
        title="Iceberg catalog: file system",
        type="filesystem",
        hook="FileSystemCatalogHook",
        own_fields={},
        fields={NAME: _NAME, "warehouse": Field("Warehouse", "Where all tables are, such as /data/warehouse. Required.")},
    ),
)

_STORES = (
    ConnectionType(
        name="iceberg_s3",
        title="Iceberg store: S3",
        hook="S3StoreHook",
        own_fields={"login": "Access key id", "password": "Secret access key"},
        login="s3.access-key-id",
        password="s3.secret-access-key",
        fields={
            "client.region": _REGION,
            "s3.endpoint": Field("Endpoint", "Of a store that is not Amazon's, such as http://minio:9000."),
            "s3.path-style-access": Field("Bucket in the path", "true (the default), or false: in the host name.", "flag"),
            "s3.session-token": Field("Session token", kind="secret"),
            "s3.profile-name": Field("Profile", "Of ~/.aws, on every machine that runs jobs."),
            "s3.role-arn": Field("Role", "The ARN of a role to assume."),
            "s3.sse.type": Field("Encryption", "By the server.", among=("none", "s3", "kms", "dsse-kms")),
            "s3.sse.key": Field("KMS key", "The id of the key, for kms and dsse-kms."),
        },
    ),
    ConnectionType(
        name="iceberg_gcs",
        title="Iceberg store: Google Cloud Storage",
        hook="GcsStoreHook",
        own_fields={"password": "OAuth2 token"},
        password="gcs.oauth2.token",
        fields={
            "gcs.project-id": Field("Project"),
            "gcs.service.host": Field("Endpoint", "Another address than Google's."),
            "gcs.no-auth": Field("Anonymous", "Requests are not signed.", "flag"),
        },
    ),
    ConnectionType(
        name="iceberg_azure",
        title="Iceberg store: Azure Blob Storage",
        hook="AzureStoreHook",
        own_fields={"login": "Account name", "password": "Account key"},
        login="adls.account-name",
        password="adls.account-key",
        fields={
            "adls.sas-token": Field("SAS token", kind="secret"),
            "adls.tenant-id": Field("Tenant id"),
            "adls.client-id": Field("Client id"),
            "adls.client-secret": Field("Client secret", kind="secret"),
            "adls.endpoint": Field("Endpoint", "Another address than Azure's."),
        },
    ),
    ConnectionType(
        name="iceberg_hdfs",
        title="Iceberg store: HDFS",
        hook="HdfsStoreHook",
        own_fields={},
        fields={
            "hdfs.conf-dir": Field("Configuration", "The folder with core-site.xml and hdfs-site.xml; default: HADOOP_CONF_DIR."),
            "hdfs.kerberos-principal": Field("Kerberos principal"),
            "hdfs.kerberos-keytab": Field("Kerberos keytab", "Its path, on every machine that runs jobs."),
            "hdfs.kerberos-cache": Field("Kerberos cache", "Of tickets: its path, instead of a keytab."),
        },
    ),
)

ANY_CATALOG = "iceberg_ops"
"""A catalog of any type, all of whose settings are in the extra."""

TYPES: Mapping[str, ConnectionType] = {kind.name: kind for kind in (*_CATALOGS, *_STORES)}
