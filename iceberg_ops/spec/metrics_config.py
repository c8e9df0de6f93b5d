"""Which metrics are kept for which column (properties ``write.metadata.metrics.*``; Java: MetricsConfig).

In order of priority: the column's own property; at least truncate(16) for a column of the default sort order; the
table's default. Without a configured default, the first ``max-inferred-column-defaults`` columns get truncate(16), the others none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from iceberg_ops.config.properties import METRICS_COLUMN_PREFIX, METRICS_DEFAULT, METRICS_MAX_INFERRED, metrics_mode
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import SortOrder
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import IcebergType, child_fields

_ORDER_PRESERVING = frozenset({"identity", "truncate", "year", "month", "day", "hour"})


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """``none``; ``counts``; ``truncate`` to ``length`` code points or bytes; ``full``."""

    kind: Literal["none", "counts", "truncate", "full"]
    length: int | None = None

    def __str__(self) -> str:
        return self.kind if self.length is None else f"{self.kind}({self.length})"

    @property
    def has_counts(self) -> bool:
        return self.kind != "none"

    @property
    def has_bounds(self) -> bool:
        return self.kind in ("truncate", "full")


NONE, COUNTS, FULL = MetricsMode("none"), MetricsMode("counts"), MetricsMode("full")
TRUNCATE_16 = MetricsMode("truncate", 16)


def parse_mode(text: str, name: str = METRICS_DEFAULT.name) -> MetricsMode:
    """The mode with the name ``text``. Raises OptionError that names the property."""
    try:
        lower = metrics_mode(text)
    except ValueError as e:
        raise OptionError(f"table property {name} = {text!r}: {e}") from None
    plain = {"none": NONE, "counts": COUNTS, "full": FULL}.get(lower)
    return MetricsMode("truncate", int(lower[len("truncate(") : -1])) if plain is None else plain


@dataclass(frozen=True)
class MetricsConfig:
    """``default`` and, by field id, the modes of the columns that differ."""

    default: MetricsMode
    modes: Mapping[int, MetricsMode]

    @classmethod
    def for_table(cls, metadata: TableMetadata) -> MetricsConfig:
        """From a table's properties, current schema and default sort order. Raises OptionError."""
        return cls.of(metadata.properties, metadata.schema, metadata.sort_order)

    @classmethod
    def of(cls, properties: Mapping[str, str], schema: Schema, sort_order: SortOrder) -> MetricsConfig:
        """Like ``for_table``, from the parts. A property of a column that the schema lacks is ignored."""
        modes: dict[int, MetricsMode] = {}
        if (stated := properties.get(METRICS_DEFAULT.name)) is not None:
            default = parse_mode(stated)
        else:
            default = TRUNCATE_16
            leaves = list(_leaves(schema.struct))
            limit = METRICS_MAX_INFERRED.of(properties)
            if len(leaves) > limit:
                default, modes = NONE, dict.fromkeys(leaves[:limit], TRUNCATE_16)
        sorted_mode = default if default.has_bounds else TRUNCATE_16
        modes |= {i: sorted_mode for f in sort_order.fields if f.transform.name in _ORDER_PRESERVING for i in f.source_ids}
        for name, text in properties.items():
            column = schema.find(name.removeprefix(METRICS_COLUMN_PREFIX)) if name.startswith(METRICS_COLUMN_PREFIX) else None
            if column is not None:
                modes[column.field_id] = parse_mode(text, name)
        return cls(default, modes)

    def mode(self, field_id: int) -> MetricsMode:
        """The mode of the column with that id."""
        return self.modes.get(field_id, self.default)


def _leaves(type_: IcebergType) -> Iterator[int]:
    """Ids of columns that can have metrics: at each level first the leaves, then nested columns."""
    fields = child_fields(type_)
    yield from (f.field_id for f in fields if not f.type.is_nested)
    for f in fields:
        if f.type.is_nested:
            yield from _leaves(f.type)
