"""Schema evolution: every allowed step, every forbidden one, and invariants of any sequence of steps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import SchemaError
from iceberg_ops.serde.json.schema_json import schema_from_dict, schema_to_dict
from iceberg_ops.spec.metadata_columns import lineage_twin
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.promotion import can_promote
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.transforms import DAY, IDENTITY, MONTH, VOID, YEAR, Transform, bucket
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MISSING,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeometryType,
    IcebergType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from iceberg_ops.spec.validity import check_schema
from tests.strategies import PLAIN_TYPES, V3_TYPES, names, schemas, types


def decimal(precision: int, scale: int) -> DecimalType:
    return DecimalType(precision=precision, scale=scale)


POINT = StructType((NestedField(11, "x", INT, True), NestedField(12, "y", INT)))
TABLE = Schema.of(
    NestedField(1, "id", INT, True, "key"),
    NestedField(2, "price", decimal(9, 2)),
    NestedField(3, "day", DATE),
    NestedField(4, "point", POINT),
    NestedField(5, "points", list_of(6, StructType((NestedField(13, "x", INT),)))),
    NestedField(7, "prices", map_of(8, StructType((NestedField(14, "k", INT),)), 9, StructType((NestedField(15, "v", FLOAT),)))),
    NestedField(10, "tags", list_of(16, STRING, element_required=True)),
)


def evolve(version: int = 3, **options: Any) -> SchemaEvolution:
    return SchemaEvolution(TABLE, 16, format_version=version, **options)


PROMOTIONS = [
    (INT, LONG, 1), (FLOAT, DOUBLE, 1), (decimal(9, 2), decimal(18, 2), 1), (decimal(9, 2), decimal(9, 2), 1), (UNKNOWN, STRING, 3),
    (UNKNOWN, VARIANT, 3), (UNKNOWN, decimal(5, 1), 3), (DATE, TIMESTAMP, 3), (DATE, TIMESTAMP_NS, 3),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "since"), PROMOTIONS, ids=str)
def test_a_promotion_is_allowed_from_its_version_on(old: IcebergType, new: IcebergType, since: int) -> None:
    """SCHEMA-07 SCHEMA-08"""
    assert [can_promote(old, new, version) for version in (1, 2, 3)] == [version >= since or old == new for version in (1, 2, 3)]


ALL = [*PLAIN_TYPES, *V3_TYPES, UNKNOWN, VARIANT, GeometryType(), decimal(9, 2), decimal(18, 2), decimal(18, 3), decimal(5, 2)]


@pytest.mark.parametrize("old", ALL, ids=str)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_no_other_promotion_is_allowed(old: IcebergType, version: int) -> None:
    """SCHEMA-07 SCHEMA-08 TYPE-32: never to timestamptz, never narrower, never another scale."""
    allowed = {new for o, new, since in PROMOTIONS if o == old and version >= since} | {old}
    if old == UNKNOWN and version >= 3:
        allowed = set(ALL)
    if isinstance(old, DecimalType):
        allowed |= {t for t in ALL if isinstance(t, DecimalType) and t.scale == old.scale and t.precision >= old.precision}
    assert {new for new in ALL if can_promote(old, new, version)} == allowed & set(ALL)
    for target in (TIMESTAMPTZ, TIMESTAMPTZ_NS):
        assert not can_promote(DATE, target, version)


@pytest.mark.parametrize("transform", [IDENTITY, bucket(4), YEAR, MONTH, DAY, VOID], ids=str)
def test_a_promotion_that_changes_partition_values_is_refused(transform: Transform) -> None:
    """SCHEMA-09"""
    spec = PartitionSpec(0, (PartitionField((3,), 1000, transform, "p"),))
    evolution = evolve(specs=[PartitionSpec(), spec])
    if transform in (IDENTITY, bucket(4)):
        with pytest.raises(SchemaError, match="partition field 'p'"):
            evolution.update_type("day", TIMESTAMP)
    else:
        assert evolution.update_type("day", TIMESTAMP).apply().field(3).type == TIMESTAMP


def test_other_promotions_keep_their_partition_values() -> None:
    """SCHEMA-09"""
    spec = PartitionSpec(0, (PartitionField((1,), 1000, bucket(4), "p"), PartitionField((2,), 1001, IDENTITY, "q")))
    found = evolve(specs=[spec]).update_type("id", LONG).update_type("price", decimal(20, 2)).apply()
    assert [found.field(1).type, found.field(2).type] == [LONG, decimal(20, 2)]


def test_a_promoted_default_is_the_same_moment() -> None:
    """SCHEMA-08 DEFAULT-04"""
    schema = Schema.of(NestedField(1, "d", DATE, False, None, 1, 2))
    found = SchemaEvolution(schema, 1, format_version=3).update_type("d", TIMESTAMP).apply().field(1)
    assert (found.initial_default, found.write_default) == (86_400_000_000, 172_800_000_000)


def test_promotion_reaches_into_structs_lists_and_maps() -> None:
    """SCHEMA-02 SCHEMA-07"""
    found = evolve().update_type("point.x", LONG).update_type("points.x", LONG).update_type("prices.value.v", DOUBLE).apply()
    assert [found.field(i).type for i in (11, 13, 15)] == [LONG, LONG, DOUBLE]


def test_columns_are_added_at_every_level_with_fresh_ids() -> None:
    """SCHEMA-02 SCHEMA-03"""
    evolution = (
        evolve().add_column("a", INT).add_column("z", INT, parent="point").add_column("z", INT, parent="points")
        .add_column("z", STRING, parent="prices").add_column("s", StructType((NestedField(99, "t", INT),)))
    )  # fmt: skip
    found = evolution.apply()
    named = {found.name_of(i): i for i in found.fields_by_id if i > 16}
    assert named == {"a": 17, "point.z": 18, "points.element.z": 19, "prices.value.z": 20, "s": 21, "s.t": 22}
    assert evolution.last_column_id == 22
    assert [f.field_id for f in found.fields] == [1, 2, 3, 4, 5, 7, 10, 17, 21]


def test_a_column_dropped_and_added_again_gets_another_id() -> None:
    """SCHEMA-03 SCHEMA-05"""
    found = evolve().drop_column("price").add_column("price", decimal(9, 2)).apply()
    assert found.find("price").field_id == 17  # type: ignore[union-attr]
    later = SchemaEvolution(evolve().drop_column("price").apply(), 16).add_column("price", INT).apply()
    assert later.find("price").field_id == 17  # type: ignore[union-attr]


def test_a_rename_changes_the_name_alone() -> None:
    """SCHEMA-04"""
    found = evolve().rename_column("point.x", "horizontal").rename_column("id", "ident").apply()
    assert found.name_of(11) == "point.horizontal"
    assert found.field(1) == NestedField(1, "ident", INT, True, "key")


def test_columns_move_within_their_struct() -> None:
    """SCHEMA-02"""
    found = evolve().move_first("tags").move_before("price", "id").move_after("id", "day").move_first("point.y").apply()
    assert [f.name for f in found.fields] == ["tags", "price", "day", "id", "point", "points", "prices"]
    assert [f.name for f in found.field(4).type.fields] == ["y", "x"]  # type: ignore[attr-defined]


def test_an_added_column_can_be_moved_changed_and_identify_rows() -> None:
    found = (
        evolve().add_column("k", INT, required=True, default=0).move_first("k").update_type("k", LONG).update_doc("k", "d")
        .set_identifier_fields(["k", "id"]).apply()
    )  # fmt: skip
    assert found.fields[0] == NestedField(17, "k", LONG, True, "d", 0, 0)
    assert found.identifier_field_ids == (17, 1)


Step = Callable[[SchemaEvolution], object]
REFUSED: dict[str, tuple[Step, str]] = {
    "add a taken name": (lambda s: s.add_column("id", INT), "is taken"),
    "add a taken nested name": (lambda s: s.add_column("x", INT, parent="points"), "'points.element.x': the name is taken"),
    "add twice": (lambda s: s.add_column("a", INT).add_column("a", INT), "is taken"),
    "add without a name": (lambda s: s.add_column("", INT), "without a name"),
    "add to a primitive": (lambda s: s.add_column("a", INT, parent="id"), "not a struct"),
    "add to a list of primitives": (lambda s: s.add_column("a", INT, parent="tags"), "not a struct"),
    "add to nothing": (lambda s: s.add_column("a", INT, parent="nothing"), "no column named 'nothing'"),
    "add to what is dropped": (lambda s: s.drop_column("point").add_column("a", INT, parent="point"), "drops it"),
    "add to a map key": (lambda s: s.add_column("a", INT, parent="prices.key").apply(), "alter map keys"),
    "add required": (lambda s: s.add_column("a", INT, required=True), "without a default"),
    "add required with null": (lambda s: s.add_column("a", INT, required=True, default=None), "without a default"),
    "drop nothing": (lambda s: s.drop_column("nothing"), "no column named"),
    "drop an added one": (lambda s: s.add_column("a", INT).drop_column("a"), "adds it"),
    "drop a holder of added ones": (lambda s: s.add_column("a", INT, parent="point").drop_column("point"), "adds columns to it"),
    "drop a changed one": (lambda s: s.rename_column("id", "x").drop_column("id"), "changes it"),
    "drop a moved one": (lambda s: s.move_first("price").drop_column("price"), "moves it"),
    "drop what another moved beside": (lambda s: s.move_after("id", "price").drop_column("price"), "moves it"),
    "drop the last field of a struct": (
        lambda s: s.drop_column("point.x").drop_column("point.y").apply(), "last field of struct 'point'",
    ),
    "drop the last field of a list's structs": (lambda s: s.drop_column("points.x").apply(), "last field of struct"),
    "drop a list element": (lambda s: s.drop_column("tags.element").apply(), "list element"),
    "drop a map key": (lambda s: s.drop_column("prices.key").apply(), "map key"),
    "drop a map value": (lambda s: s.drop_column("prices.value").apply(), "map value"),
    "drop in a map key": (lambda s: s.drop_column("prices.key.k").apply(), "alter map keys"),
    "rename in a map key": (lambda s: s.rename_column("prices.key.k", "j").apply(), "alter map keys"),
    "promote in a map key": (lambda s: s.update_type("prices.key.k", LONG).apply(), "alter map keys"),
    "rename a list element": (lambda s: s.rename_column("tags.element", "e"), "fixed names"),
    "rename to nothing": (lambda s: s.rename_column("id", ""), "is empty"),
    "rename to a taken name": (lambda s: s.rename_column("id", "day").apply(), "two fields named 'day'"),
    "rename to a field's full name": (lambda s: s.rename_column("id", "point.x").apply(), "two columns are called 'point.x'"),
    "change what is dropped": (lambda s: s.drop_column("id").rename_column("id", "x"), "drops it"),
    "narrow": (lambda s: s.update_type("price", decimal(5, 2)), "not a promotion"),
    "change scale": (lambda s: s.update_type("price", decimal(18, 3)), "not a promotion"),
    "fold into a struct": (lambda s: s.update_type("id", POINT), "not a promotion"),
    "flatten a struct": (lambda s: s.update_type("point", INT), "not a promotion"),
    "require": (lambda s: s.require_column("price"), "may hold null"),
    "free a map key": (lambda s: s.make_optional("prices.key"), "always required"),
    "take a required column's default": (lambda s: s.update_default("id", None), "to null"),
    "comment on a list element": (lambda s: s.update_doc("tags.element", "x"), "'tags.element' cannot have a comment"),
    "comment on a map value": (lambda s: s.update_doc("prices.value", "x"), "'prices.value' cannot have a comment"),
    "give a list element a default": (lambda s: s.update_default("tags.element", "x"), "'tags.element' cannot have a default"),
    "move beside itself": (lambda s: s.move_after("id", "id"), "relative to itself"),
    "move out of a struct": (lambda s: s.move_before("point.x", "id"), "not fields of one struct"),
    "move a list element": (lambda s: s.move_first("tags.element"), "not a field of a struct"),
    "identify by an optional": (lambda s: s.set_identifier_fields(["price"]).apply(), "must be required"),
    "identify by a struct": (lambda s: s.set_identifier_fields(["point"]).apply(), "must be a primitive"),
    "identify by a nested under optional": (lambda s: s.set_identifier_fields(["point.x"]).apply(), "'point' must be required"),
    "identify by a list element": (lambda s: s.set_identifier_fields(["tags.element"]).apply(), "inside a list"),
    "identify by an unknown name": (lambda s: s.set_identifier_fields(["nothing"]).apply(), "no column named"),
    "drop an identifier": (
        lambda s: SchemaEvolution(s.set_identifier_fields(["id"]).apply(), 16).drop_column("id").apply(), "identifier field 'id'",
    ),
    "free an identifier": (lambda s: s.set_identifier_fields(["id"]).make_optional("id").apply(), "must be required"),
    "require an unknown column": (lambda s: s.add_column("u", UNKNOWN, required=True, default=1).apply(), "must be optional"),
    "default of a variant": (lambda s: s.add_column("u", VARIANT, default=b"").apply(), "must be null"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_forbidden_step_is_refused(name: str) -> None:
    """SCHEMA-02 SCHEMA-06 SCHEMA-15 TYPE-31 TYPE-36 TYPE-38 DEFAULT-02 DEFAULT-05 DEFAULT-07"""
    step, reason = REFUSED[name]
    with pytest.raises(SchemaError, match=reason):
        step(evolve())


@pytest.mark.parametrize("type_", [FLOAT, DOUBLE], ids=str)
def test_floats_identify_nothing(type_: IcebergType) -> None:
    """SCHEMA-15"""
    schema = Schema.of(NestedField(1, "f", type_, True))
    with pytest.raises(SchemaError, match="floating-point"):
        SchemaEvolution(schema, 1).set_identifier_fields(["f"]).apply()


def test_an_identifier_may_sit_under_required_structs() -> None:
    """SCHEMA-15"""
    schema = Schema.of(NestedField(1, "s", StructType((NestedField(2, "k", UUID, True),)), True))
    assert SchemaEvolution(schema, 2).set_identifier_fields(["s.k"]).apply().identifier_field_ids == (2,)


def test_incompatible_changes_need_leave() -> None:
    found = evolve(allow_incompatible_changes=True).add_column("a", INT, required=True).require_column("price").apply()
    assert found.find("a").required  # type: ignore[union-attr]
    assert found.find("price").required  # type: ignore[union-attr]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("type_", [TIMESTAMP_NS, TIMESTAMPTZ_NS, UNKNOWN, VARIANT, GeometryType()], ids=str)
def test_types_of_v3_are_refused_before_v3(version: int, type_: IcebergType) -> None:
    """TYPE-41"""
    with pytest.raises(SchemaError, match="not supported until v3"):
        evolve(version).add_column("n", list_of(0, type_)).apply()


def test_a_non_null_default_is_refused_before_v3() -> None:
    """TYPE-41 DEFAULT-01"""
    with pytest.raises(SchemaError, match="initial-default is not supported until v3"):
        evolve(2).add_column("a", INT, default=1).apply()
    assert evolve(2).add_column("a", INT, default=None).apply().find("a").initial_default is MISSING  # type: ignore[union-attr]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_default_of_null_is_no_default(version: int) -> None:
    """DEFAULT-06: Iceberg Java cannot load a table that has "write-default": null."""
    evolution = evolve(version).add_column("a", INT, default=None).add_column("b", INT, parent="point", default=None)
    found = evolution.update_default("price", None).update_default("a", None).apply()
    assert all(f.initial_default is MISSING and f.write_default is MISSING for f in found.fields_by_id.values())
    assert "-default" not in json.dumps(schema_to_dict(found))
    assert evolve(version).update_default("price", Decimal("1.00")).update_default("price", None).apply() == evolve().apply()


WRONG_DEFAULTS: list[tuple[IcebergType, object, str]] = [
    (BOOLEAN, 1, "must be True or False"),
    (INT, 2**40, "must be a whole number from -2147483648"),
    (INT, True, "must be a whole number"),
    (LONG, 2**63, "must be a whole number"),
    (LONG, 1.0, "must be a whole number"),
    (FLOAT, 0.1, "must be a 32-bit float"),
    (DOUBLE, 1, "must be a float"),
    (decimal(9, 2), Decimal("1.5"), "must have exactly 2 digits after the point"),
    (decimal(3, 2), Decimal("12.34"), "must have at most 3 digits"),
    (decimal(9, 2), 1, r"must be a finite decimal\.Decimal"),
    (DATE, 2**31, "must be a whole number"),
    (TIME, -5, "must be a whole number from 0 to 86399999999"),
    (TIME, 86_400_000_000, "must be a whole number from 0"),
    (TIMESTAMP, "2024-01-01", "must be a whole number"),
    (TIMESTAMPTZ_NS, 2**63, "must be a whole number"),
    (STRING, 5, "must be text"),
    (STRING, "a\udcff", "must be text that UTF-8 can hold"),
    (UUID, "0" * 36, r"must be a uuid\.UUID"),
    (FixedType(2), b"abc", "must be 2 bytes"),
    (BINARY, "ab", "must be bytes"),
    (list_of(0, INT), [2**31], "element must be a whole number"),
    (list_of(0, INT, element_required=True), [None], "element is required"),
    (list_of(0, INT), (1,), "must be a list"),
    (map_of(0, STRING, 0, INT), [("a", "b")], "value must be a whole number"),
    (map_of(0, STRING, 0, INT), {"a": 1}, r"must be a list of \(key, value\) pairs"),
    (StructType((NestedField(0, "a", INT),)), (None, None), "must be a tuple of 1 values"),
    (StructType((NestedField(0, "a", INT),)), {}, "must be a tuple of 1 values"),
]


@pytest.mark.parametrize(("type_", "default", "why"), WRONG_DEFAULTS, ids=[f"{t}: {d!a}" for t, d, _ in WRONG_DEFAULTS])
def test_a_default_of_another_type_is_refused(type_: IcebergType, default: object, why: str) -> None:
    """DEFAULT-10: what is stored could not be read again."""
    with pytest.raises(SchemaError, match=f"column 'a': initial-default .* is not a value of type .*: it {why}"):
        evolve().add_column("a", type_, default=default).apply()
    with pytest.raises(SchemaError, match=f"column 'a': write-default .* is not a value of type .*: it {why}"):
        evolve().add_column("a", type_).update_default("a", default).apply()


def test_a_column_is_seen_as_the_changes_leave_it() -> None:
    evolution = evolve().drop_column("day").add_column("day", STRING).update_type("price", decimal(12, 2)).drop_column("id")
    assert (evolution.column("day").type, evolution.column("price").type) == (STRING, decimal(12, 2))
    with pytest.raises(SchemaError, match="this evolution drops it"):
        evolution.column("id")
    with pytest.raises(SchemaError, match="no column named"):
        evolution.column("nobody")


def test_a_struct_defaults_to_null_or_nothing() -> None:
    """DEFAULT-08"""
    struct = StructType((NestedField(0, "a", INT), NestedField(0, "b", INT)))
    assert evolve().add_column("s", struct, default=(None, None)).apply()
    with pytest.raises(SchemaError, match="struct must be null"):
        evolve().add_column("s", struct, default=(1, None)).apply()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shape", ["plain", "in a list", "in a map"])
def test_a_default_without_a_form_in_json_is_refused(value: float, shape: str) -> None:
    """DEFAULT-10: DuckDB reads 0.0 for it."""
    type_, default = {
        "plain": (DOUBLE, value),
        "in a list": (list_of(0, DOUBLE), [1.0, value]),
        "in a map": (map_of(0, INT, 0, DOUBLE), [(1, value)]),
    }[shape]
    with pytest.raises(SchemaError, match=r"column 'a': initial-default .* has no form in JSON"):
        evolve().add_column("a", type_, default=default).apply()
    with pytest.raises(SchemaError, match=r"write-default .* has no form in JSON"):
        evolve().update_default("price", value).apply()


@pytest.mark.parametrize("type_", [FLOAT, DOUBLE])
def test_a_schema_with_a_nan_default_is_still_changed(type_: IcebergType) -> None:
    """DEFAULT-04: earlier versions took such defaults."""
    old = Schema.of(NestedField(1, "a", type_, initial_default=math.nan, write_default=math.nan))
    read = schema_from_dict(json.loads(json.dumps(schema_to_dict(old))))
    assert read == schema_from_dict(json.loads(json.dumps(schema_to_dict(old))))
    found = SchemaEvolution(read, 1, format_version=3).add_column("b", INT).update_default("a", 1.0).apply()
    assert [f.write_default for f in found.fields] == [1.0, MISSING]
    assert math.isnan(found.fields[0].initial_default)


def test_names_without_regard_to_case() -> None:
    evolution = (
        evolve(case_sensitive=False)
        .rename_column("ID", "key")
        .add_column("Z", INT, parent="POINT")
        .update_type("PRICE", decimal(12, 2))
    )
    assert [f.name for f in evolution.apply().fields][:2] == ["key", "price"]
    with pytest.raises(SchemaError, match="is taken"):
        evolve(case_sensitive=False).add_column("Day", INT)
    assert evolve().add_column("Day", INT).apply().find("Day") is not None


def test_union_by_name_takes_what_is_new_wider_or_optional() -> None:
    """SCHEMA-02 SCHEMA-07"""
    other = Schema.of(
        NestedField(1, "id", LONG, False, "new doc"),
        NestedField(2, "price", decimal(5, 2)),
        NestedField(3, "point", StructType((NestedField(4, "z", STRING, True), NestedField(5, "x", INT, True)))),
        NestedField(6, "points", list_of(7, StructType((NestedField(8, "x", LONG), NestedField(9, "w", INT))))),
        NestedField(
            10, "prices", map_of(11, StructType((NestedField(12, "k", INT),)), 13, StructType((NestedField(14, "v", DOUBLE),)))
        ),
        NestedField(15, "added", map_of(16, STRING, 17, INT), True),
        NestedField(18, "tags", list_of(19, STRING)),
    )
    found = evolve().union_by_name(other).apply()
    assert found.field(1) == NestedField(1, "id", LONG, False, "new doc")
    assert found.field(2).type == decimal(9, 2)
    assert [found.field(13).type, found.field(15).type] == [LONG, DOUBLE]
    added = {found.name_of(i) for i in found.fields_by_id if i > 16}
    assert added == {"point.z", "points.element.w", "added", "added.key", "added.value"}
    assert all(not found.find(name).required for name in ("added", "point.z"))  # type: ignore[union-attr]
    assert not found.field(16).required
    again = SchemaEvolution(found, max(found.fields_by_id)).union_by_name(other).apply()
    assert again == found


def test_union_by_name_refuses_an_unrelated_type() -> None:
    """SCHEMA-06"""
    with pytest.raises(SchemaError, match="not a promotion"):
        evolve().union_by_name(Schema.of(NestedField(1, "id", STRING)))
    with pytest.raises(SchemaError, match="not a promotion"):
        evolve().union_by_name(Schema.of(NestedField(1, "point", INT)))


@given(schemas(), schemas())
def test_a_union_with_itself_changes_nothing_and_with_others_loses_nothing(one: Schema, other: Schema) -> None:
    """SCHEMA-02"""
    evolution = SchemaEvolution(one, one.highest_field_id, format_version=3)
    assert evolution.union_by_name(one).apply() == one
    try:
        found = SchemaEvolution(one, one.highest_field_id, format_version=3).union_by_name(other).apply()
    except SchemaError:
        return
    assert one.fields_by_id.keys() <= found.fields_by_id.keys()
    assert {f.name for f in other.fields} <= {f.name for f in found.fields}


@given(schemas(), st.data())
def test_no_sequence_of_steps_reuses_an_id_or_breaks_the_schema(schema: Schema, data: st.DataObject) -> None:
    """SCHEMA-02 SCHEMA-03 SCHEMA-17 TYPE-30"""
    last = schema.highest_field_id + data.draw(st.integers(0, 5))
    evolution = SchemaEvolution(schema, last, format_version=3)
    known = sorted(schema.names_by_id.values())
    for _ in range(data.draw(st.integers(1, 6))):
        name = data.draw(st.sampled_from(known))
        step = data.draw(st.sampled_from(["add", "drop", "rename", "optional", "first", "before", "type", "doc"]))
        try:
            _take(evolution, step, name, data)
        except SchemaError:
            continue
    try:
        found = evolution.apply()
    except SchemaError:
        return
    if lineage_twin(schema.fields, 3) is not None:
        return  # of a table that another writer made; no v3 table of ours gets such a name
    check_schema(found, 3)
    assert all(i <= evolution.last_column_id for i in found.fields_by_id)
    assert not {i for i in found.fields_by_id if i not in schema.fields_by_id} & set(range(last + 1))
    for field_id, f in found.fields_by_id.items():
        old = schema.fields_by_id.get(field_id)
        assert old is None or old.type.is_nested or can_promote(old.type, f.type, 3)
        assert old is None or found.parents[field_id] == schema.parents[field_id]


def _take(evolution: SchemaEvolution, step: str, name: str, data: st.DataObject) -> None:
    if step == "add":
        evolution.add_column(data.draw(names), data.draw(types()), parent=data.draw(st.none() | st.just(name)))
    elif step == "drop":
        evolution.drop_column(name)
    elif step == "rename":
        evolution.rename_column(name, data.draw(names))
    elif step == "optional":
        evolution.make_optional(name)
    elif step == "first":
        evolution.move_first(name)
    elif step == "before":
        evolution.move_before(name, data.draw(st.sampled_from(sorted(evolution.schema.names_by_id.values()))))
    elif step == "type":
        evolution.update_type(name, data.draw(st.sampled_from([LONG, DOUBLE, TIMESTAMP, BINARY])))
    else:
        evolution.update_doc(name, "doc")


@pytest.mark.parametrize("field_id", [2147483448, 2147483646])
def test_reserved_ids_are_not_for_users(field_id: int) -> None:
    """SCHEMA-17 RESID-01"""
    check_schema(Schema.of(NestedField(2147483447, "a", INT)), 2)
    with pytest.raises(SchemaError, match="is reserved"):
        check_schema(Schema.of(NestedField(field_id, "a", INT)), 2)
