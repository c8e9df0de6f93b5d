"""Names of Iceberg's types in Hive, as Hive Metastores and Glue show them (Java: ``HiveSchemaUtil``, ``IcebergToGlueConverter``).

Types that Hive does not have become ``string`` or ``binary``. Nothing reads rows by these names.
"""

from __future__ import annotations

from iceberg_ops.spec.types import DecimalType, FixedType, IcebergType, ListType, MapType, StructType

_NAMES = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double", "date": "date",
    "time": "string", "string": "string", "uuid": "string", "binary": "binary",
    "timestamp": "timestamp", "timestamptz": "timestamp", "timestamp_ns": "timestamp", "timestamptz_ns": "timestamp",
    "variant": "binary", "unknown": "string",
}  # fmt: skip


def hive_type(type_: IcebergType) -> str:
    """The type's name in Hive."""
    match type_:
        case StructType():
            return f"struct<{','.join(f'{f.name}:{hive_type(f.type)}' for f in type_.fields)}>"
        case ListType():
            return f"array<{hive_type(type_.element.type)}>"
        case MapType():
            return f"map<{hive_type(type_.key.type)},{hive_type(type_.value.type)}>"
        case DecimalType():
            return f"decimal({type_.precision},{type_.scale})"
        case FixedType():
            return "binary"
    return _NAMES.get(str(type_), "binary")
