"""The types that JSON text is read with: the table's, under the names that the text itself has.

Spark's JSON reader finds fields by their exact names and leaves out those that are not in the schema it is given. So a field is
read under each of the spellings that occur in the source, and one that the table does not have is read as well: whether it is
refused or added is not decided here.
Spellings of one field are united record by record; a record that has two of them with a value is ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from spark_jobs.runners.column_names import OWN

_INFINITE = "(?i)^[+-]?inf(inity)?$"
_MOST_SECONDS = 9223372036854
"""Seconds from the epoch that fit into a timestamp; a larger number wraps around without an error."""
BLANKS = " \t\r\n"
"""What JSON allows between values."""
LONG_NUMBER = "[0-9]{13}"
EMPTY = f"{OWN}empty"
"""The field that stands in an object which has none."""
_Test = Callable[[Column, spark.DataType], Column | None]


def shape_of(seen: Sequence[spark.DataType], wanted: spark.DataType | None) -> spark.DataType:
    """The type to read a value with that occurs as each of ``seen`` and is stored as ``wanted`` (None: the table lacks it)."""
    if isinstance(wanted, spark.StructType) and (structs := [s for s in seen if isinstance(s, spark.StructType)]):
        found = struct_shape(structs, wanted)
        lower = {f.name.lower() for f in found.fields}
        # What occurs nowhere is NULL; a struct must have some field, though.
        return spark.StructType([*found.fields, *(f for f in wanted.fields if f.name.lower() not in lower)])
    if isinstance(wanted, spark.ArrayType) and (arrays := [s for s in seen if isinstance(s, spark.ArrayType)]):
        return spark.ArrayType(shape_of([a.elementType for a in arrays], wanted.elementType))
    if isinstance(wanted, spark.MapType) and (objects := [s for s in seen if isinstance(s, spark.StructType)]):
        values = [f.dataType for s in objects for f in s.fields if f.name != EMPTY]
        return spark.MapType(wanted.keyType, shape_of(values, wanted.valueType))
    return wanted if wanted is not None else _unknown_shape(seen)


def _unknown_shape(seen: Sequence[spark.DataType]) -> spark.DataType:
    """One type for values that the table has no type for; text where they have none in common, as Spark has it."""
    if all(isinstance(s, spark.StructType) for s in seen):
        return struct_shape([s for s in seen if isinstance(s, spark.StructType)], spark.StructType())
    if all(isinstance(s, spark.ArrayType) for s in seen):
        return spark.ArrayType(_unknown_shape([s.elementType for s in seen if isinstance(s, spark.ArrayType)]))
    return seen[0] if all(s == seen[0] for s in seen) else spark.StringType()


def struct_shape(seen: Sequence[spark.StructType], wanted: spark.StructType) -> spark.StructType:
    """Every field that occurs, in the type it is stored as. One that the table does not have and that is always empty is left out:
    it has nothing to store, and no type."""
    known = {f.name.lower(): f.dataType for f in wanted.fields}
    names: dict[str, None] = {}
    types: dict[str, list[spark.DataType]] = {}
    for struct in seen:
        for f in struct.fields:
            if f.name != EMPTY:
                names[f.name] = None
                types.setdefault(f.name.lower(), []).append(f.dataType)
    # Spellings of one field have one type, so that they can be united.
    shapes = {lower: shape_of(found, known.get(lower)) for lower, found in types.items()}
    return spark.StructType([spark.StructField(n, shapes[n.lower()]) for n in names if shapes[n.lower()] != spark.StructType()])


def is_nested(type_: spark.DataType) -> bool:
    return isinstance(type_, spark.StructType | spark.ArrayType | spark.MapType)


def hides_fields(seen: spark.DataType, wanted: spark.DataType) -> bool:
    """Whether a value that is stored in a nested type occurs in some records as something else, so that Spark did not tell the
    fields it has in the others."""
    if isinstance(wanted, spark.StructType) and isinstance(seen, spark.StructType):
        known = {f.name.lower(): f.dataType for f in wanted.fields}
        return any(f.name.lower() in known and hides_fields(f.dataType, known[f.name.lower()]) for f in seen.fields)
    if isinstance(wanted, spark.ArrayType) and isinstance(seen, spark.ArrayType):
        return hides_fields(seen.elementType, wanted.elementType)
    if isinstance(wanted, spark.MapType) and isinstance(seen, spark.StructType):
        return any(hides_fields(f.dataType, wanted.valueType) for f in seen.fields)
    return is_nested(wanted)


def as_text(type_: spark.DataType) -> spark.DataType:
    """The type with every value as the text it is written as."""
    if isinstance(type_, spark.StructType):
        return spark.StructType([spark.StructField(f.name, as_text(f.dataType)) for f in type_.fields])
    if isinstance(type_, spark.ArrayType):
        return spark.ArrayType(as_text(type_.elementType))
    if isinstance(type_, spark.MapType):
        return spark.MapType(spark.StringType(), as_text(type_.valueType))
    return spark.StringType()


def holds(type_: spark.DataType, *kinds: type[spark.DataType]) -> bool:
    """Whether a value of one of these types is somewhere in it."""
    if isinstance(type_, spark.StructType):
        return any(holds(f.dataType, *kinds) for f in type_.fields)
    if isinstance(type_, spark.ArrayType):
        return holds(type_.elementType, *kinds)
    if isinstance(type_, spark.MapType):
        return holds(type_.valueType, *kinds)
    return isinstance(type_, kinds)


def parts(value: Column, type_: spark.StructType) -> list[Column]:
    """The fields of a struct by their places: names that differ only in case can not be told apart by Spark SQL."""
    numbered = spark.StructType([spark.StructField(f"_{i}", f.dataType) for i, f in enumerate(type_.fields)])
    placed = value.cast(numbered)
    return [placed.getField(f"_{i}") for i in range(len(type_.fields))]


def any_infinite(value: Column, type_: spark.DataType) -> Column:
    """Whether a floating-point number in the value is infinite; NULL or false: none is."""
    return _any(value, type_, type_, lambda leaf, kind: F.abs(leaf) == float("inf") if _floats(kind) else None)


def any_outside(text: Column, type_: spark.DataType) -> Column:
    """Whether a number in the value, given as text, is outside its type though it was read without an error."""

    def outside(leaf: Column, kind: spark.DataType) -> Column | None:
        if _floats(kind):
            return (F.abs(leaf.try_cast(kind)) == float("inf")) & ~leaf.rlike(_INFINITE)
        if isinstance(kind, spark.TimestampType):
            return leaf.rlike("^-?[0-9]+$") & (F.abs(leaf.try_cast(spark.DecimalType(38, 0))) > _MOST_SECONDS)
        return None

    return _any(text, as_text(type_), type_, outside)


def _floats(kind: spark.DataType) -> bool:
    return isinstance(kind, spark.FloatType | spark.DoubleType)


def _any(value: Column, held: spark.DataType, type_: spark.DataType, test: _Test) -> Column:
    """Whether ``test`` holds for a leaf of a value of type ``held``, whose leaves are meant as those of ``type_``."""
    found = _tested(value, held, type_, test)
    return F.lit(False) if found is None else F.coalesce(found, F.lit(False))


def _tested(value: Column, held: spark.DataType, type_: spark.DataType, test: _Test) -> Column | None:
    if isinstance(type_, spark.StructType):
        assert isinstance(held, spark.StructType)
        pairs = zip(parts(value, held), held.fields, type_.fields, strict=True)
        tested = [_tested(part, h.dataType, t.dataType, test) for part, h, t in pairs]
        some = [F.coalesce(t, F.lit(False)) for t in tested if t is not None]
        return _either(some)
    if isinstance(type_, spark.ArrayType):
        assert isinstance(held, spark.ArrayType)
        return _exists(value, held.elementType, type_.elementType, test)
    if isinstance(type_, spark.MapType):
        assert isinstance(held, spark.MapType)
        return _exists(F.map_values(value), held.valueType, type_.valueType, test)
    return test(value, type_)


def _exists(items: Column, held: spark.DataType, type_: spark.DataType, test: _Test) -> Column | None:
    if _tested(F.lit(None).cast(held), held, type_, test) is None:
        return None
    return F.exists(items, lambda item: _any(item, held, type_, test))


def _either(tests: Sequence[Column]) -> Column | None:
    found: Column | None = None
    for test in tests:
        found = test if found is None else found | test
    return found


def has_twins(type_: spark.DataType) -> bool:
    """Whether names of one struct differ only in case, at any level."""
    if isinstance(type_, spark.StructType):
        return len({f.name.lower() for f in type_.fields}) < len(type_.fields) or any(has_twins(f.dataType) for f in type_.fields)
    if isinstance(type_, spark.ArrayType):
        return has_twins(type_.elementType)
    return isinstance(type_, spark.MapType) and has_twins(type_.valueType)


def united(value: Column, type_: spark.DataType) -> tuple[Column, Column]:
    """The value with fields whose names differ only in case as one, the one that has a value; and whether two of them have."""
    if not has_twins(type_):
        return value, F.lit(False)
    if isinstance(type_, spark.ArrayType):
        inner = type_.elementType
        return F.transform(value, lambda x: united(x, inner)[0]), F.exists(value, lambda x: united(x, inner)[1])
    if isinstance(type_, spark.MapType):
        inner = type_.valueType
        twice = F.exists(F.map_values(value), lambda x: united(x, inner)[1])
        return F.transform_values(value, lambda _, x: united(x, inner)[0]), twice
    assert isinstance(type_, spark.StructType)
    columns, twice = united_fields(value, type_)
    return F.when(value.isNotNull(), F.struct(*[c.alias(name) for name, c in columns])), twice


def united_fields(value: Column, type_: spark.StructType) -> tuple[list[tuple[str, Column]], Column]:
    """The fields of a struct by the first of their names, and whether a name that is there twice has two values."""
    groups: dict[str, list[tuple[str, Column]]] = {}
    doubts: list[Column] = []
    for f, part in zip(type_.fields, parts(value, type_), strict=True):
        one, doubt = united(part, f.dataType)
        groups.setdefault(f.name.lower(), []).append((f.name, one))
        doubts.append(doubt)
    columns = []
    for group in groups.values():
        values = [column for _, column in group]
        columns.append((group[0][0], F.coalesce(*values) if len(values) > 1 else values[0]))
        if len(values) > 1:
            given = [F.when(column.isNotNull(), 1).otherwise(0) for column in values]
            doubts.append(sum(given[1:], start=given[0]) > 1)
    twice = _either([F.coalesce(doubt, F.lit(False)) for doubt in doubts])
    return columns, F.lit(False) if twice is None else twice
