"""From a catalog's configuration to the catalog. A new kind is one entry in ``_KINDS``, imported only when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.errors import OptionError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io


def load_catalog(config: CatalogConfig, io: FileIO | None = None) -> Catalog:
    """Build the catalog; ``io`` overrides what the properties say. Raises OptionError, CatalogUnavailableError."""
    try:
        build = _KINDS[config.type]
    except KeyError:
        raise OptionError(
            f"catalog {config.name}: type {config.type!r} is not known{did_you_mean(config.type, _KINDS)}: must be one of "
            f"{', '.join(sorted(_KINDS))}"
        ) from None
    return build(config, io or load_file_io(config.properties))


def _required(config: CatalogConfig, key: str) -> str:
    value = config.properties.get(key)
    if not value:
        raise OptionError(f"catalog {config.name} (type {config.type}) needs the property {key}")
    return value


def _memory(config: CatalogConfig, io: FileIO) -> Catalog:
    from iceberg_ops.catalog.memory import MemoryCatalog  # noqa: PLC0415 - a back-end chosen by name

    return MemoryCatalog(config.name, io, warehouse=config.properties.get("warehouse", "memory://warehouse"))


def _file_system(config: CatalogConfig, io: FileIO) -> Catalog:
    from iceberg_ops.catalog.filesystem import FileSystemCatalog  # noqa: PLC0415 - a back-end chosen by name

    return FileSystemCatalog(config.name, io, warehouse=_required(config, "warehouse"))


def _sql(config: CatalogConfig, io: FileIO) -> Catalog:
    from iceberg_ops.catalog.sql import SqlCatalog  # noqa: PLC0415 - a back-end chosen by name

    return SqlCatalog(config.name, _required(config, "uri"), io, warehouse=config.properties.get("warehouse"))


def _hive(config: CatalogConfig, io: FileIO) -> Catalog:
    from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog  # noqa: PLC0415 - a back-end chosen by name
    from iceberg_ops.catalog.hive.metastore import Metastore  # noqa: PLC0415 - a back-end chosen by name

    properties = config.properties
    if properties.get("hive.kerberos-authentication", "false").lower() == "true":
        raise OptionError(
            f"catalog {config.name}: hive.kerberos-authentication is not supported: the metastore must take plain thrift"
        )
    metastore = Metastore(config.name, _required(config, "uri"), properties.get("ugi", ""))
    locks = properties.get("engine.hive.lock-enabled", properties.get("iceberg.engine.hive.lock-enabled", "true")).lower() == "true"
    return HiveCatalog(config.name, metastore, io, warehouse=properties.get("warehouse"), locks=locks)


_KINDS: Mapping[str, Callable[[CatalogConfig, FileIO], Catalog]] = {
    "memory": _memory,
    "filesystem": _file_system,
    "sql": _sql,
    "hive": _hive,
}
