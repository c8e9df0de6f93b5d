"""Whether an object in JSON text has one name twice: Spark's reader takes the last value, and does not mention the other.

Spark refuses such names itself when it reads JSON as a variant, but also what JSON does not allow and its JSON reader does (single
quotes, ``NaN``). So the variant only says which lines are in doubt; these are read as maps, which keep every pair.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from spark_jobs.jobs.text_shapes import BLANKS, is_nested

_PAIRS = spark.MapType(spark.StringType(), spark.StringType())


def any_name_twice(text: Column, shape: spark.StructType, options: Mapping[str, str]) -> Column:
    """Whether one of the objects in ``text`` (an object of this shape, or an array of them) has a name twice; never NULL."""
    doubtful = F.when(F.try_parse_json(text).isNull(), text)
    is_array = F.substring(F.btrim(doubtful, F.lit(BLANKS)), 1, 1) == "["
    one = _twice(F.when(~is_array, doubtful), shape, options)
    many = _twice(F.when(is_array, doubtful), spark.ArrayType(shape), options)
    return one | many


def _twice(text: Column, shape: spark.DataType, options: Mapping[str, str]) -> Column:
    if isinstance(shape, spark.ArrayType) and is_nested(shape.elementType):
        items, inner = F.from_json(text, spark.ArrayType(spark.StringType()), dict(options)), shape.elementType
        return F.coalesce(F.exists(items, lambda item: _twice(item, inner, options)), F.lit(False))
    if not isinstance(shape, spark.StructType | spark.MapType):
        return F.lit(False)
    pairs = F.from_json(text, _PAIRS, dict(options))
    names = F.map_keys(pairs)
    found = F.coalesce(F.size(F.array_distinct(names)) < F.size(names), F.lit(False))
    if isinstance(shape, spark.MapType):
        if not is_nested(shape.valueType):
            return found
        inner = shape.valueType
        return found | F.coalesce(F.exists(F.map_values(pairs), lambda value: _twice(value, inner, options)), F.lit(False))
    for f in shape.fields:
        if is_nested(f.dataType):
            found = found | _twice(F.try_element_at(pairs, F.lit(f.name)), f.dataType, options)
    return found
