"""Schemas, partition specs, sort orders and name mappings as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.json.name_mapping_json import name_mapping_from_json, name_mapping_from_list, name_mapping_to_list
from iceberg_ops.serde.json.partition_json import spec_fields_from_list, spec_fields_to_list, spec_from_dict, spec_to_dict
from iceberg_ops.serde.json.schema_json import schema_from_dict, schema_from_json, schema_to_dict, type_from_json, type_to_json
from iceberg_ops.serde.json.sort_json import sort_order_from_dict, sort_order_to_dict
from iceberg_ops.spec.name_mapping import NameMapping, create_name_mapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import MISSING, GeographyType, GeometryType
from tests.fixture_paths import requires_fixtures
from tests.golden import golden_files, vectors
from tests.strategies import names, partition_specs, schemas, sort_orders

SPEC_AND_SORT = vectors("spec_and_sort_json")
MAPPINGS = vectors("name_mapping")


def field(field_id: int, type_: Any, **more: Any) -> dict[str, Any]:
    return {"id": field_id, "name": f"c{field_id}", "required": False, "type": type_, **more}


def struct(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": list(fields), **more}


@given(schemas())
def test_every_schema_comes_back_from_its_json(schema: Schema) -> None:
    """JSON-01 JSON-02 TYPE-30 TYPE-31"""
    text = msgspec.json.encode(schema_to_dict(schema))
    back = schema_from_json(text)
    assert back == schema
    assert msgspec.json.encode(schema_to_dict(back)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("decimal(9,2)", "decimal(9, 2)"),
        ("decimal( 9 , 2 )", "decimal(9, 2)"),
        ("fixed[ 16 ]", "fixed[16]"),
        ("geometry", "geometry"),
        ("geometry(OGC:CRS84)", "geometry"),
        ("geometry( srid:4326 )", "geometry(srid:4326)"),
        ("geography(srid:4326, spherical)", "geography(srid:4326)"),
        ("geography( OGC:CRS84 , Karney )", "geography(OGC:CRS84, karney)"),
        ("geometry(projjson:crs_key)", "geometry(projjson:crs_key)"),
        ("variant", "variant"),
        ("unknown", "unknown"),
        ("timestamptz_ns", "timestamptz_ns"),
    ],
)
def test_type_names_are_read_with_spaces_and_written_without(text: str, canonical: str) -> None:
    """TYPE-42 TYPE-07 TYPE-16 TYPE-22 TYPE-23 TYPE-40"""
    assert type_to_json(type_from_json(text)) == canonical
    assert type_from_json(canonical) == type_from_json(text)


def test_geo_parameters_have_defaults() -> None:
    """TYPE-22 TYPE-23"""
    assert type_from_json("geometry") == GeometryType(crs="OGC:CRS84")
    assert type_from_json("geography") == GeographyType(crs="OGC:CRS84", algorithm="spherical")


@pytest.mark.parametrize(
    "bad",
    [
        "decimal(39, 2)",
        "decimal(0,0)",
        "fixed[]",
        "int32",
        "geography(OGC:CRS84, flat)",
        "",
        {"type": "set"},
        {"type": "list"},
        5,
        None,
        {"type": "map", "key-id": 1, "key": "int"},
        {"type": "list", "element-id": 1.0, "element": "int", "element-required": True},
    ],
    ids=str,
)
def test_unknown_types_are_corrupt(bad: Any) -> None:
    """TYPE-32 JSON-02 JSON-22"""
    with pytest.raises(CorruptTableError):
        type_from_json(bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"fields": []},
        {"type": "list", "fields": []},
        struct({"id": 1, "name": "a", "type": "int"}),
        struct({"id": "1", "name": "a", "required": True, "type": "int"}),
        struct({"id": 1.0, "name": "a", "required": True, "type": "int"}),
        struct(field(1, "int"), field(1, "int")),
        struct(field(1, "int"), **{"identifier-field-ids": [2]}),
        struct(field(1, "int", **{"initial-default": "x"})),
        [],
    ],
    ids=str,
)
def test_a_schema_that_breaks_the_spec_is_corrupt(bad: Any) -> None:
    """JSON-01 JSON-22 TYPE-30 DEFAULT-10"""
    with pytest.raises(CorruptTableError):
        schema_from_dict(bad)


def test_unknown_keys_are_kept_at_every_level_of_a_schema() -> None:
    """META-37"""
    inner = {"type": "struct", "fields": [field(5, "int", x=1)], "x-struct": {"a": [1]}}
    document = struct(
        field(1, {"type": "list", "element-id": 2, "element": "int", "element-required": True, "x-list": 1}, **{"x-field": "y"}),
        field(3, {"type": "map", "key-id": 4, "key": "int", "value-id": 6, "value": inner, "value-required": False, "x-map": None}),
        **{"x-schema": [True], "schema-id": 7},
    )
    assert schema_to_dict(schema_from_dict(document)) == document


def test_a_null_default_is_read_as_none_and_never_written() -> None:
    """DEFAULT-05 DEFAULT-06: Iceberg Java cannot load a schema that has one."""
    inner = {"type": "struct", "fields": [field(3, "int", **{"initial-default": None, "write-default": None})]}
    document = struct(field(1, "int", **{"initial-default": None, "write-default": 3}), field(2, inner))
    schema = schema_from_dict(document)
    assert [f.initial_default for f in schema.fields_by_id.values()] == [MISSING] * 3
    assert schema_to_dict(schema) == struct(
        field(1, "int", **{"write-default": 3}), field(2, {"type": "struct", "fields": [field(3, "int")]})
    )


def test_defaults_are_single_values_of_their_type() -> None:
    """DEFAULT-10"""
    document = struct(
        field(1, "decimal(9, 2)", **{"initial-default": "14.20"}),
        field(2, "binary", **{"write-default": "00ff"}),
        field(3, "timestamptz_ns", **{"write-default": "2017-11-16T22:31:08.123456789+00:00"}),
    )
    assert schema_to_dict(schema_from_dict(document)) == document


def test_a_v1_schema_has_id_zero() -> None:
    """JSON-01 META-08"""
    assert schema_from_dict({"type": "struct", "fields": []}).schema_id == 0


@requires_fixtures
def test_javas_unknown_column_schema_comes_back() -> None:
    """TYPE-01 TYPE-36"""
    for path in golden_files("evolution-java/unknown_type", "java.schema.json"):
        document = msgspec.json.decode(path.read_bytes())
        assert schema_to_dict(schema_from_dict(document)) == document


@requires_fixtures
@pytest.mark.parametrize("case", SPEC_AND_SORT.get("partition_spec", []), ids=lambda c: c.get("note", "with ids"))
def test_recorded_specs_are_read(case: dict[str, Any]) -> None:
    """PART-02 PART-04 JSON-03"""
    spec = spec_from_dict(case["json"])
    assert [f.field_id for f in spec.fields] == case["field_ids"]
    written = spec_to_dict(spec)
    assert [{**f, "field-id": i} for f, i in zip(case["json"]["fields"], case["field_ids"], strict=True)] == written["fields"]


@requires_fixtures
@pytest.mark.parametrize("case", SPEC_AND_SORT.get("sort_order", []), ids=lambda c: c.get("note", "invalid direction"))
def test_recorded_sort_orders_are_read_or_refused(case: dict[str, Any]) -> None:
    """SORT-01 SORT-07 JSON-04"""
    if case["ok"]:
        assert sort_order_to_dict(sort_order_from_dict(case["json"])) == case["json"]
    else:
        with pytest.raises(CorruptTableError, match="direction is 'invalid'"):
            sort_order_from_dict(case["json"])


@given(st.data())
def test_every_spec_and_order_comes_back(data: st.DataObject) -> None:
    """JSON-03 JSON-04"""
    schema = data.draw(schemas())
    spec, order = data.draw(partition_specs(schema)), data.draw(sort_orders(schema))
    assert spec_from_dict(msgspec.json.decode(msgspec.json.encode(spec_to_dict(spec)))) == spec
    assert sort_order_from_dict(msgspec.json.decode(msgspec.json.encode(sort_order_to_dict(order)))) == order
    assert spec_fields_from_list(msgspec.json.decode(msgspec.json.encode(spec_fields_to_list(spec)))) == spec.fields


def test_several_sources_are_written_as_source_ids_only() -> None:
    """PART-14 PART-02"""
    fields = [{"name": "z", "transform": "zorder", "source-ids": [1, 2], "field-id": 1000}]
    assert spec_fields_to_list(spec_from_dict({"spec-id": 1, "fields": fields})) == fields
    single = spec_from_dict({"spec-id": 1, "fields": [{**fields[0], "source-ids": [1], "source-id": 9}]})
    assert spec_fields_to_list(single) == [{"name": "z", "transform": "zorder", "source-id": 1, "field-id": 1000}]


@pytest.mark.parametrize(
    "fields",
    [
        [
            {"name": "a", "transform": "identity", "source-id": 1, "field-id": 1000},
            {"name": "b", "transform": "identity", "source-id": 2},
        ],
        [{"transform": "identity", "source-id": 1}],
        [{"name": "a", "transform": "identity"}],
        [{"name": "a", "transform": "identity", "source-ids": []}],
        [{"name": "a", "source-id": 1}],
        {"a": 1},
    ],
    ids=str,
)
def test_a_spec_that_breaks_the_spec_is_corrupt(fields: Any) -> None:
    """JSON-03"""
    with pytest.raises(CorruptTableError):
        spec_from_dict({"spec-id": 0, "fields": fields})


def test_a_sort_field_of_2021_sorts_by_identity() -> None:
    found = sort_order_from_dict({"order-id": 1, "fields": [{"source-id": 1, "direction": "DESC", "null-order": "NULLS-LAST"}]})
    assert (found.fields[0].transform, found.fields[0].direction, found.fields[0].null_order) == (
        IDENTITY,
        SortDirection.DESC,
        NullOrder.NULLS_LAST,
    )


def test_the_unsorted_order_has_id_zero_and_no_fields() -> None:
    """SORT-02"""
    assert sort_order_from_dict({"order-id": 0, "fields": []}) == SortOrder()
    with pytest.raises(CorruptTableError, match="unsorted"):
        sort_order_from_dict({"order-id": 0, "fields": [{"source-id": 1, "direction": "asc", "null-order": "nulls-first"}]})


def test_unknown_keys_of_specs_and_orders_are_kept() -> None:
    """META-37"""
    spec = {"spec-id": 1, "fields": [{"name": "a", "transform": "day", "source-id": 1, "field-id": 1000, "x": 1}], "y": 2}
    order = {
        "order-id": 1,
        "fields": [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-last", "x": 1}],
        "y": 2,
    }
    assert spec_to_dict(spec_from_dict(spec)) == spec
    assert sort_order_to_dict(sort_order_from_dict(order)) == order


@requires_fixtures
def test_the_specs_example_mapping_resolves_aliases() -> None:
    """NAMEMAP-01 NAMEMAP-03 NAMEMAP-05"""
    mapping = name_mapping_from_list(MAPPINGS["spec_example"])
    assert name_mapping_to_list(mapping) == MAPPINGS["spec_example"]
    assert [mapping.find(["record_id"]).field_id, mapping.find(["location", "lat"]).field_id] == [1, 4]  # type: ignore[union-attr]
    assert mapping.find(["location.lat"]) is None


@requires_fixtures
@pytest.mark.parametrize(("_case", "reason"), MAPPINGS.get("invalid", []))
def test_one_name_for_two_fields_of_a_level_is_refused(_case: str, reason: str) -> None:
    assert "x=2 and x=1" in reason
    with pytest.raises(CorruptTableError, match="'x' stands for fields 1 and 2"):
        name_mapping_from_json('[{"field-id": 1, "names": ["x"]}, {"field-id": 2, "names": ["y", "x"]}]')


def test_one_name_in_two_parents_is_fine_and_a_dot_is_a_letter() -> None:
    """NAMEMAP-02 NAMEMAP-03 NAMEMAP-04"""
    mapping = name_mapping_from_list(
        [
            {"names": ["a"], "fields": [{"names": ["x"], "field-id": 1}]},
            {"field-id": 2, "names": ["b", "a.x"], "fields": [{"names": ["x"]}]},
            {"field-id": 9, "names": []},
        ]
    )
    assert mapping.find(["a", "x"]).field_id == 1  # type: ignore[union-attr]
    assert mapping.find(["a.x"]).field_id == 2  # type: ignore[union-attr]
    assert mapping.find(["b", "x"]).field_id is None  # type: ignore[union-attr]
    assert mapping.fields[2].names == ()


def test_a_mapping_without_names_is_corrupt() -> None:
    """NAMEMAP-01"""
    with pytest.raises(CorruptTableError, match="names"):
        name_mapping_from_json('[{"field-id": 1}]')


@given(schemas())
def test_every_mapping_comes_back(schema: Schema) -> None:
    """NAMEMAP-01 NAMEMAP-05"""
    mapping = create_name_mapping(schema)
    assert name_mapping_from_list(msgspec.json.decode(msgspec.json.encode(name_mapping_to_list(mapping)))) == mapping
    for field_id, name in schema.names_by_id.items():
        assert _reach(mapping, schema, field_id) == field_id, name


def _reach(mapping: NameMapping, schema: Schema, field_id: int) -> int | None:
    path, at = [], field_id
    while at is not None:
        path.insert(0, schema.fields_by_id[at].name)
        at = schema.parents[at]  # type: ignore[assignment]
    found = mapping.find(path)
    return None if found is None else found.field_id


@given(st.lists(names, min_size=1, unique=True))
def test_aliases_all_lead_to_their_field(aliases: list[str]) -> None:
    """NAMEMAP-03"""
    mapping = name_mapping_from_list([{"field-id": 3, "names": aliases}])
    assert {mapping.find([a]).field_id for a in aliases} == {3}  # type: ignore[union-attr]
