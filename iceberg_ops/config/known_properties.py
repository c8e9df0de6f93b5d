"""Checks table properties that people set: a value that is invalid for every reader is refused, an unknown key causes a warning.

Engines may keep their own properties in a table, so an unknown key is stored; the warning comes only if it resembles one of
Iceberg's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from iceberg_ops.config import properties as own
from iceberg_ops.config.near_names import near_names
from iceberg_ops.config.option_parsing import duration_ms, size
from iceberg_ops.errors import OptionError

_OF_OTHERS = frozenset(
    {
        "comment", "compatibility.snapshot-id-inheritance.enabled", "encryption.data-key-length", "encryption.key-id",
        "engine.hive.enabled", "engine.hive.lock-enabled", "external.table.purge", "location", "owner", "provider",
        "read.data-planning-mode", "read.delete-planning-mode", "read.orc.vectorization.batch-size",
        "read.orc.vectorization.enabled", "read.parquet.vectorization.batch-size", "read.parquet.vectorization.enabled",
        "read.split.adaptive-size.enabled", "read.split.metadata-target-size", "read.split.open-file-cost",
        "read.split.planning-lookback", "read.split.target-size", "write.avro.compression-level",
        "write.delete.avro.compression-codec", "write.delete.avro.compression-level", "write.delete.distribution-mode",
        "write.folder-storage.path", "write.location-provider.impl", "write.manifest-lists.enabled",
        "write.merge.distribution-mode", "write.object-storage.path", "write.orc.block-size-bytes",
        "write.orc.bloom.filter.columns", "write.orc.bloom.filter.fpp", "write.orc.compression-codec",
        "write.orc.compression-strategy", "write.orc.stripe-size-bytes", "write.orc.vectorized.batch-size",
        "write.parquet.row-group-check-max-record-count", "write.parquet.row-group-check-min-record-count",
        "write.parquet.shred-variants", "write.parquet.variant-inference-buffer-size",
        "write.spark.accept-any-schema", "write.spark.advisory-partition-size-bytes", "write.spark.fanout.enabled",
        "write.update.distribution-mode", "write.upsert.enabled", "write.wap.enabled",
    }
)  # fmt: skip
"""Properties of Iceberg that other engines use and this package does not (Java: TableProperties)."""
_OF_ICEBERG = ("commit.", "gc.", "history.", "read.", "schema.", "write.", "iceberg-ops.")
_PREFIXES = (
    *own.OF_COLUMNS,
    own.FORMER_FOLDER_PREFIX,
    own.FORMER_LOCATION_PREFIX,
    own.IMPORTED_FOLDER_PREFIX,
    own.LEDGER_FILE_PREFIX,
    own.LEDGER_PREFIX,
    "write.delete.parquet.",
    "write.delete.orc.",
)
PROPERTIES: Mapping[str, own.Property[object]] = {
    option.name: option for option in vars(own).values() if isinstance(option, own.Property)
}
"""Those that this package uses."""


def check_values(given: Mapping[str, str]) -> None:
    """Raise OptionError for the first value that is invalid for a property of this package; for a size or duration with a unit, the
    message gives the number."""
    for name, value in given.items():
        known = PROPERTIES.get(name)
        if known is None and (prefix := _known_prefix(name)) is not None:
            known = replace(own.OF_COLUMNS[prefix], name=name)
        try:
            if known is not None:
                known.of({name: value})
        except OptionError as e:
            raise OptionError(f"{e}{_without_unit(name, value)}") from None


def unread(given: Collection[str], columns: Collection[str]) -> Iterator[str]:
    """A sentence for each key without effect: one that resembles Iceberg's but is not one, or that names none of ``columns`` (full
    names)."""
    known = [*PROPERTIES, *_OF_OTHERS]
    for name in given:
        prefix = _known_prefix(name)
        if prefix is not None and (column := name.removeprefix(prefix)) not in columns:
            yield f"table property {name}: the table has no column {column!r}{_near(column, columns, 0.6)}"
        elif prefix is None and name not in known and not name.startswith(_PREFIXES):
            is_of_iceberg = name.startswith(_OF_ICEBERG)
            near = _near(name, known, 0.6 if is_of_iceberg else 0.9)
            if near or is_of_iceberg:
                yield f"table property {name} is not known to Iceberg{near}: it is stored and has no effect"


def _known_prefix(name: str) -> str | None:
    return next((prefix for prefix in own.OF_COLUMNS if name.startswith(prefix)), None)


def _near(name: str, known: Collection[str], likeness: float) -> str:
    similar = near_names(name, known, likeness=likeness)
    return f" (did you mean {similar[0]}?)" if similar else ""


def _without_unit(name: str, value: str) -> str:
    """The number for a value with a unit: tables hold plain numbers."""
    parser = size(0) if "bytes" in name else duration_ms if name.endswith("-ms") else None
    try:
        number = None if parser is None else parser(value)
    except ValueError:
        number = None
    return "" if number is None or str(number) == value.strip() else f": write {number} for {value}"
