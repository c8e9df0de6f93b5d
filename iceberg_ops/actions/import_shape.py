"""Schema and partition spec of a new table over a folder of Parquet files.

The table has the columns of all files, and every column is optional, because footers do not promise anything about later files. The
folders give the names and values of partition columns; the type comes from these values, unless the files hold the column too.
"""

from __future__ import annotations

from dataclasses import replace

from iceberg_ops.data.arrow.arrow_schema import schema_of_arrow
from iceberg_ops.data.sources.imported_files import read_parquet_footer
from iceberg_ops.errors import DataError, SchemaError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.planning.partition_folders import column_types, data_files
from iceberg_ops.spec.name_matching import check_no_twins
from iceberg_ops.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import StructType
from iceberg_ops.spec.validity import check_schema


def shape_of_folder(io: FileIO, folder: str, format_version: int) -> tuple[Schema, PartitionSpec]:
    """For a table of that version. Raises DataError for a folder without data or half written, SchemaError for files that do not
    fit together or whose columns the version does not support."""
    listed_files = data_files(folder, io.list_prefix(folder))
    if not listed_files:
        raise DataError(f"import: there is no data file below {folder}")
    schema = Schema(StructType(()))
    for info, _ in listed_files:
        _, arrow = read_parquet_footer(io, info.location)
        try:
            file_schema = schema_of_arrow(arrow)
            file_schema = Schema(StructType(tuple(replace(f, required=False) for f in file_schema.fields)))
            check_no_twins(file_schema.struct)
            check_schema(file_schema, format_version)
            schema = file_schema if not schema.fields else _evolution(schema, format_version).union_by_name(file_schema).apply()
        except SchemaError as e:
            raise SchemaError(f"file {info.location}: {e}") from None
    columns = column_types(folders for _, folders in listed_files)
    evolution = _evolution(schema, format_version)
    for name, type_ in columns.items():
        if schema.find(name, case_sensitive=False) is None:
            evolution.add_column(name, type_)
    schema = evolution.apply()
    return schema, PartitionSpec(0, tuple(_identity(schema, name, n) for n, name in enumerate(columns)))


def _evolution(schema: Schema, format_version: int) -> SchemaEvolution:
    last = max(schema.fields_by_id, default=0)
    return SchemaEvolution(schema, last, format_version=format_version, case_sensitive=False)


def _identity(schema: Schema, name: str, place: int) -> PartitionField:
    column = schema.find(name, case_sensitive=False)
    assert column is not None
    return PartitionField((column.field_id,), FIRST_PARTITION_FIELD_ID + place, IDENTITY, name)
