"""Builds a catalog from its configuration. A new kind is one entry in ``_KINDS``, imported only when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.config.catalog_properties import check_names, of_files
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.errors import OptionError, RuntimeMissingError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.read_only import READ_ONLY
from iceberg_ops.io.stores.settings import flag

_FILES_ALONE = ("filesystem", "memory")
"""Types of catalogs whose tables are files and nothing else."""


def load_catalog(config: CatalogConfig, io: FileIO | None = None) -> Catalog:
    """Build the catalog; ``io`` overrides the FileIO of the properties. Raises OptionError, also for a misspelt property, and
    CatalogUnavailableError."""
    try:
        build = _KINDS[config.type]
    except KeyError:
        raise OptionError(
            f"catalog {config.name}: type {config.type!r} is not known{did_you_mean(config.type, _KINDS)}: must be one of "
            f"{', '.join(sorted(_KINDS))}"
        ) from None
    check_names(f"catalog {config.name}", config.type, config.properties)
    if config.type not in _FILES_ALONE and flag(config.properties, READ_ONLY, False):
        raise OptionError(
            f"catalog {config.name}: {READ_ONLY} protects files, but a catalog of type {config.type} also has records, which would "
            "still be dropped and renamed: leave it out, and give its user only the right to read"
        )
    return build(config, io)


def _required(config: CatalogConfig, key: str) -> str:
    value = config.properties.get(key)
    if not value:
        raise OptionError(f"catalog {config.name} (type {config.type}) needs the property {key}")
    return value


def _io(config: CatalogConfig, io: FileIO | None) -> FileIO:
    return load_file_io(of_files(config.type, config.properties)) if io is None else io


@contextmanager
def _needs(config: CatalogConfig, *packages: str) -> Iterator[None]:
    """Raises RuntimeMissingError, which names the extra, if one of the packages is not installed."""
    try:
        yield
    except ModuleNotFoundError as e:
        if (package := (e.name or "").partition(".")[0]) not in packages:
            raise
        raise RuntimeMissingError(
            f"catalog {config.name} (type {config.type}) needs the package {package}, which is not installed: "
            f"pip install 'iceberg-ops[{config.type}]'"
        ) from None


def _memory(config: CatalogConfig, io: FileIO | None) -> Catalog:
    from iceberg_ops.catalog.memory import MemoryCatalog  # noqa: PLC0415 - a back-end chosen by name

    return MemoryCatalog(config.name, _io(config, io), warehouse=config.properties.get("warehouse", "memory://warehouse"))


def _file_system(config: CatalogConfig, io: FileIO | None) -> Catalog:
    from iceberg_ops.catalog.filesystem import FileSystemCatalog  # noqa: PLC0415 - a back-end chosen by name

    return FileSystemCatalog(config.name, _io(config, io), warehouse=_required(config, "warehouse"))


def _sql(config: CatalogConfig, io: FileIO | None) -> Catalog:
    from iceberg_ops.catalog.sql import SqlCatalog  # noqa: PLC0415 - a back-end chosen by name

    return SqlCatalog(config.name, _required(config, "uri"), _io(config, io), warehouse=config.properties.get("warehouse"))


def _hive(config: CatalogConfig, io: FileIO | None) -> Catalog:
    with _needs(config, "pymetastore", "thrift"):
        from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog  # noqa: PLC0415 - a back-end chosen by name
        from iceberg_ops.catalog.hive.metastore import Metastore  # noqa: PLC0415 - a back-end chosen by name

    properties = config.properties
    if flag(properties, "hive.kerberos-authentication", False):
        raise OptionError(
            f"catalog {config.name}: hive.kerberos-authentication is not supported: the metastore must take plain thrift"
        )
    metastore = Metastore(config.name, _required(config, "uri"), properties.get("ugi", ""))
    locks = flag(properties, "engine.hive.lock-enabled", flag(properties, "iceberg.engine.hive.lock-enabled", True))
    return HiveCatalog(config.name, metastore, _io(config, io), warehouse=properties.get("warehouse"), locks=locks)


def _rest(config: CatalogConfig, io: FileIO | None) -> Catalog:
    """The server also defines properties of the FileIO."""
    with _needs(config, "httpx"):
        from iceberg_ops.catalog.rest.rest_catalog import RestCatalog  # noqa: PLC0415 - a back-end chosen by name

    return RestCatalog(config.name, config.properties, io)


def _glue(config: CatalogConfig, io: FileIO | None) -> Catalog:
    with _needs(config, "httpx"):
        from iceberg_ops.catalog.glue.glue_catalog import GlueCatalog  # noqa: PLC0415 - a back-end chosen by name
        from iceberg_ops.catalog.glue.glue_client import Glue  # noqa: PLC0415 - a back-end chosen by name

    properties = config.properties
    skip_archive = flag(properties, "glue.skip-archive", True)
    warehouse = properties.get("warehouse")
    glue = Glue(config.name, properties)
    return GlueCatalog(config.name, glue, _io(config, io), warehouse=warehouse, skip_archive=skip_archive)


def _nessie(config: CatalogConfig, io: FileIO | None) -> Catalog:
    with _needs(config, "httpx"):
        from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog  # noqa: PLC0415 - a back-end chosen by name
        from iceberg_ops.catalog.nessie.nessie_client import Nessie  # noqa: PLC0415 - a back-end chosen by name
        from iceberg_ops.catalog.nessie.settings import files_only  # noqa: PLC0415 - a back-end chosen by name

    files = load_file_io(files_only(config.properties)) if io is None else io
    return NessieCatalog(config.name, Nessie(config.name, config.properties), files, warehouse=config.properties.get("warehouse"))


_KINDS: Mapping[str, Callable[[CatalogConfig, FileIO | None], Catalog]] = {
    "memory": _memory,
    "filesystem": _file_system,
    "glue": _glue,
    "hive": _hive,
    "nessie": _nessie,
    "rest": _rest,
    "sql": _sql,
}
