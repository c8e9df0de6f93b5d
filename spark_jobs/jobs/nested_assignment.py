"""SET of a field inside a struct: the column's new value, in which all other fields are unchanged.

If the struct is NULL it becomes one with only the assigned fields, as in Spark SQL's UPDATE
(``AssignmentUtils``): an assigned value is never lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from iceberg_ops.errors import OptionError
from iceberg_ops.spec.types import IcebergType, StructType

Path = tuple[str, ...]
"""Names from a column down to a field inside it; () is the column itself."""


def with_fields(name: str, column: Column, kind: IcebergType, assigned: Mapping[Path, Column]) -> Column:
    """``column``, with the name ``name`` and type ``kind``, with the fields at these paths replaced.

    Raises OptionError if both a struct and a field of it are assigned, and for a path through a column that is not a struct.
    """
    if () in assigned:
        if len(assigned) > 1:
            raise OptionError(f"SET assigns {name!r} twice: as a whole, and a field of it")
        return assigned[()]
    if not isinstance(kind, StructType):
        raise OptionError(f"SET names a field inside {name!r}, which is not a struct: assign {name!r} as a whole")
    fields = []
    for f in kind.fields:
        value = column.getField(f.name)
        if inside := {path[1:]: new for path, new in assigned.items() if path[0] == f.name}:
            value = with_fields(f"{name}.{f.name}", value, f.type, inside)
        fields.append(value.alias(f.name))
    return F.struct(*fields)
