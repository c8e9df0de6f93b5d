"""The table information that a writer needs, as a value that can be sent to other processes.

``new_file_location`` gives the location of a new file, like Java's location providers: below ``write.data.path`` or the table's
``data`` folder, by partition, or behind a hash of the name for object stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import mmh3

from iceberg_ops.config.properties import (
    DATA_PATH,
    OBJECT_STORE_ENABLED,
    OBJECT_STORE_PARTITIONED_PATHS,
    WRITE_FORMAT,
)
from iceberg_ops.data.formats.storable import check_storable
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.io.locations import below
from iceberg_ops.serde.json.partition_json import spec_from_dict, spec_to_dict
from iceberg_ops.serde.json.schema_json import schema_from_dict, schema_to_dict
from iceberg_ops.serde.json.sort_json import sort_order_from_dict, sort_order_to_dict
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.encrypted_tables import forbid_plain_files
from iceberg_ops.spec.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, lineage_twin
from iceberg_ops.spec.metrics_config import MetricsConfig
from iceberg_ops.spec.partition_paths import partition_path
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import NestedField, StructType

_ENTROPY_BITS, _DIRECTORY_BITS, _DIRECTORIES = 20, 4, 3


@dataclass(frozen=True, kw_only=True)
class WriteContext:
    """``schema`` is the table's, ``spec`` the partition spec of new files; ``sort_order`` is recorded in files, whose rows must be
    in that order (None: in any order). With ``row_lineage`` files also hold ``_row_id`` and
    ``_last_updated_sequence_number``; a rewrite keeps them in this way (LINEAGE-07)."""

    schema: Schema
    spec: PartitionSpec
    properties: Mapping[str, str] = field(default_factory=dict)
    table_location: str
    format_version: int = 2
    sort_order: SortOrder | None = None
    default_sort_order: SortOrder = UNSORTED
    row_lineage: bool = False
    specs: Mapping[int, PartitionSpec] = field(default_factory=dict)
    schemas: tuple[Schema, ...] = ()
    """Every spec and schema of the table: deletes are written in the spec of the data files they apply to."""

    @classmethod
    def for_table(
        cls, metadata: TableMetadata, *, spec_id: int | None = None, sort_order_id: int | None = None, row_lineage: bool = False
    ) -> WriteContext:
        """New files of a table, by default in its default spec. Raises CorruptTableError for an unknown spec,
        UnsupportedError for a spec with an unknown transform (GEN-09) and for an encrypted table (ENC-02)."""
        forbid_plain_files(metadata)
        spec = metadata.spec if spec_id is None else metadata.specs_by_id.get(spec_id)
        if spec is None:
            raise CorruptTableError(f"table {metadata.location}: partition spec {spec_id} is not in the metadata")
        if unknown := [str(f.transform) for f in spec.fields if not f.transform.is_known]:
            raise UnsupportedError(
                f"not supported: writing with partition transform {unknown[0]}, because its values are not defined"
            )
        order = None if sort_order_id is None else metadata.sort_orders_by_id.get(sort_order_id)
        if sort_order_id is not None and order is None:
            raise CorruptTableError(f"table {metadata.location}: sort order {sort_order_id} is not in the metadata")
        return cls(
            schema=metadata.schema,
            spec=spec,
            properties=metadata.properties,
            table_location=metadata.location,
            format_version=metadata.format_version,
            sort_order=order,
            default_sort_order=metadata.sort_order,
            row_lineage=row_lineage,
            specs=metadata.specs_by_id,
            schemas=metadata.schemas,
        )

    def with_spec(self, spec_id: int) -> WriteContext:
        """The same in another of the table's specs. Raises CorruptTableError for an unknown one."""
        if spec_id == self.spec.spec_id:
            return self
        if spec_id not in self.specs:
            raise CorruptTableError(f"table {self.table_location}: partition spec {spec_id} is not in the metadata")
        return replace(self, spec=self.specs[spec_id])

    @cached_property
    def known_fields(self) -> Mapping[int, NestedField]:
        """Fields of every schema; the current one overrides others: partition sources may have been dropped since."""
        fields: dict[int, NestedField] = {}
        for schema in (*sorted(self.schemas, key=lambda s: s.schema_id), self.schema):
            fields.update(schema.fields_by_id)
        return fields

    @property
    def sort_order_id(self) -> int | None:
        """The sort order id that files record."""
        return None if self.sort_order is None else self.sort_order.order_id

    @cached_property
    def file_schema(self) -> Schema:
        """The columns of a data file: the table's, and the lineage columns if they are kept."""
        if not self.row_lineage:
            return self.schema
        return Schema(StructType((*self.schema.fields, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)), self.schema.schema_id)

    @cached_property
    def partition_type(self) -> StructType:
        return self.spec.partition_type(self.known_fields)

    @cached_property
    def metrics(self) -> MetricsConfig:
        return MetricsConfig.of(self.properties, self.schema, self.default_sort_order)

    @cached_property
    def file_format(self) -> FileFormat:
        """Format of new data files. Raises UnsupportedError for ORC."""
        format_ = FileFormat(WRITE_FORMAT.of(self.properties))
        if format_ is FileFormat.ORC:
            raise UnsupportedError(
                "not supported: writing ORC files (write.format.default = orc), because only Parquet and Avro are written"
            )
        return format_

    def check_format(self) -> None:
        """Raise UnsupportedError if new data files cannot be written: called before any work, not by the first writer."""
        if twin := lineage_twin(self.schema.fields, self.format_version):
            raise UnsupportedError(
                f"not supported: writing a v{self.format_version} table with a column named {twin!r}, because its files keep row "
                "lineage under this name: rename the column"
            )
        check_storable(self.file_schema, self.file_format)

    @cached_property
    def data_location(self) -> str:
        """The folder of new data files."""
        location = self.table_location.rstrip("/")
        location_set = DATA_PATH.maybe(self.properties)
        if location_set is None and OBJECT_STORE_ENABLED.of(self.properties):
            location_set = self.properties.get("write.object-storage.path")
        location_set = location_set or self.properties.get("write.folder-storage.path")
        if location_set is None:
            return location + "/data"
        return below(location, location_set)

    def new_file_location(self, partition: Sequence[Any], file_name: str) -> str:
        """The location of a new file with that partition and name."""
        path = partition_path(self.spec, partition, self.known_fields) if self.spec.fields else ""
        if not OBJECT_STORE_ENABLED.of(self.properties):
            return "/".join(filter(None, (self.data_location, path, file_name)))
        name = f"{path}/{file_name}" if path else file_name
        if OBJECT_STORE_PARTITIONED_PATHS.of(self.properties):
            return f"{self.data_location}/{entropy(name, '/')}/{name}"
        return f"{self.data_location}/{entropy(file_name, '/')}-{file_name}"

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "schema": schema_to_dict(self.schema),
            "spec": spec_to_dict(self.spec),
            "properties": dict(self.properties),
            "table-location": self.table_location,
            "format-version": self.format_version,
            "sort-order": None if self.sort_order is None else sort_order_to_dict(self.sort_order),
            "default-sort-order": sort_order_to_dict(self.default_sort_order),
            "row-lineage": self.row_lineage,
            "specs": [spec_to_dict(s) for s in self.specs.values()],
            "schemas": [schema_to_dict(s) for s in self.schemas],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> WriteContext:
        """The inverse of ``to_json``."""
        return cls(
            schema=schema_from_dict(document["schema"]),
            spec=spec_from_dict(document["spec"]),
            properties=document["properties"],
            table_location=document["table-location"],
            format_version=document["format-version"],
            sort_order=None if document["sort-order"] is None else sort_order_from_dict(document["sort-order"]),
            default_sort_order=sort_order_from_dict(document["default-sort-order"]),
            row_lineage=document["row-lineage"],
            specs={s.spec_id: s for s in map(spec_from_dict, document["specs"])},
            schemas=tuple(schema_from_dict(s) for s in document["schemas"]),
        )


def entropy(name: str, separator: str) -> str:
    """20 bits of the name's hash as folders (``0101/0110/1001/10110010``), so that object stores spread the load."""
    bits = f"{(mmh3.hash(name.encode(), 0, signed=False) | 0x80000000) & 0xFFFFFFFF:032b}"[-_ENTROPY_BITS:]
    folders = [bits[i * _DIRECTORY_BITS : (i + 1) * _DIRECTORY_BITS] for i in range(_DIRECTORIES)]
    return separator.join([*folders, bits[_DIRECTORIES * _DIRECTORY_BITS :]])
