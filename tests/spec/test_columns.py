"""Metadata columns, metrics modes, name mappings and column lookup by name."""

from __future__ import annotations

import pytest
from hypothesis import given

from iceberg_ops.errors import OptionError, SchemaError
from iceberg_ops.serde.json.name_mapping_json import (
    name_mapping_to_json,
    name_mapping_to_list,
    name_mapping_update,
    table_name_mapping,
)
from iceberg_ops.spec import metadata_columns as mc
from iceberg_ops.spec.metadata_builder import new_table_metadata
from iceberg_ops.spec.metrics_config import COUNTS, FULL, NONE, TRUNCATE_16, MetricsConfig, MetricsMode, parse_mode
from iceberg_ops.spec.name_mapping import create_name_mapping, updated_name_mapping
from iceberg_ops.spec.partitioning import UNPARTITIONED
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import DOUBLE, INT, LONG, STRING, NestedField, StructType, list_of, map_of
from tests.fixture_paths import requires_fixtures
from tests.golden import vectors
from tests.strategies import schemas

RESERVED = [
    ("RESID-01", 2147483646, "_file", "string"),
    ("RESID-02", 2147483645, "_pos", "long"),
    ("RESID-03", 2147483644, "_deleted", "boolean"),
    ("RESID-04", 2147483643, "_spec_id", "int"),
    ("RESID-06", 2147483546, "file_path", "string"),
    ("RESID-07", 2147483545, "pos", "long"),
    ("RESID-09", 2147483543, "_change_type", "string"),
    ("RESID-10", 2147483542, "_change_ordinal", "int"),
    ("RESID-11", 2147483541, "_commit_snapshot_id", "long"),
    ("RESID-12", 2147483540, "_row_id", "long"),
    ("RESID-13", 2147483539, "_last_updated_sequence_number", "long"),
]


@pytest.mark.parametrize(("_requirement", "field_id", "name", "type_"), RESERVED, ids=[r[0] for r in RESERVED])
def test_metadata_columns_have_their_reserved_ids(_requirement: str, field_id: int, name: str, type_: str) -> None:
    """RESID-01 RESID-02 RESID-03 RESID-04 RESID-06 RESID-07 RESID-09 RESID-10 RESID-11 RESID-12 RESID-13"""
    known = {f.name: f for f in (*mc.METADATA_COLUMNS.values(), mc.DELETE_FILE_PATH, mc.DELETE_FILE_POS)}
    assert (known[name].field_id, str(known[name].type)) == (field_id, type_)


def test_the_partition_column_has_the_tables_own_type() -> None:
    """RESID-05 RESID-08"""
    struct = StructType((NestedField(1000, "d", INT),))
    assert (mc.partition_column(struct).field_id, mc.partition_column(struct).type) == (2147483642, struct)
    assert mc.DELETE_FILE_ROW_ID == 2147483544


LOCATION = StructType((NestedField(4, "latitude", DOUBLE), NestedField(5, "longitude", DOUBLE)))
PLAIN = (NestedField(1, "id", LONG), NestedField(2, "data", STRING))
POINTS = map_of(4, StructType((NestedField(6, "x", INT), NestedField(7, "y", INT))), 5, DOUBLE)
MAPPED = [
    Schema.of(*PLAIN),
    Schema.of(*PLAIN, NestedField(3, "location", LOCATION)),
    Schema.of(*PLAIN, NestedField(3, "map", map_of(4, STRING, 5, DOUBLE))),
    Schema.of(NestedField(3, "map", POINTS)),
    Schema.of(NestedField(3, "list", list_of(4, STRING))),
]


@requires_fixtures
@pytest.mark.parametrize("position", range(5))
def test_schemas_map_as_recorded(position: int) -> None:
    """NAMEMAP-01 NAMEMAP-05"""
    case = vectors("name_mapping")["schema_to_mapping"][position]
    found = name_mapping_to_list(create_name_mapping(MAPPED[position]))
    expected = case.get("mapping") or [next(v for k, v in case.items() if k.startswith("mapping_of"))]
    assert found == expected


def test_two_columns_of_one_name_can_not_be_mapped() -> None:
    with pytest.raises(SchemaError, match="'x' stands for fields 1 and 2"):
        create_name_mapping(Schema.of(NestedField(1, "x", INT), NestedField(2, "x", INT)))


def test_a_mapping_follows_its_schema() -> None:
    """NAMEMAP-06: a rename adds a name, an added column an entry. A name that is taken over stays with the column that files have
    it for, unlike in Java."""
    before = Schema.of(*PLAIN, NestedField(3, "location", LOCATION))
    evolution = SchemaEvolution(before, 5).rename_column("data", "text").add_column("altitude", DOUBLE, parent="location")
    after = evolution.drop_column("id").add_column("id", STRING).apply()
    found = updated_name_mapping(create_name_mapping(before), after)
    assert name_mapping_to_list(found) == [
        {"field-id": 1, "names": ["id"]},
        {"field-id": 2, "names": ["data", "text"]},
        {
            "field-id": 3,
            "names": ["location"],
            "fields": [
                {"field-id": 4, "names": ["latitude"]},
                {"field-id": 5, "names": ["longitude"]},
                {"field-id": 6, "names": ["altitude"]},
            ],
        },
    ]


@given(schemas())
def test_a_mapping_of_an_unchanged_schema_stays(schema: Schema) -> None:
    """NAMEMAP-06"""
    mapping = create_name_mapping(schema)
    assert updated_name_mapping(mapping, schema) == mapping


def test_a_tables_mapping_is_updated_through_its_property() -> None:
    """NAMEMAP-01 NAMEMAP-06"""
    schema = Schema.of(*PLAIN)
    text = name_mapping_to_json(create_name_mapping(schema))
    plain = new_table_metadata(schema, UNPARTITIONED, UNSORTED, "x", {}, now_ms=1)
    mapped = new_table_metadata(schema, UNPARTITIONED, UNSORTED, "x", {"schema.name-mapping.default": text}, now_ms=1)
    after = SchemaEvolution.of_table(mapped).add_column("z", INT).apply()
    assert table_name_mapping(plain) is name_mapping_update(plain, after) is None
    assert name_mapping_update(mapped, mapped.schema) is None
    update = name_mapping_update(mapped, after)
    assert update is not None
    assert '"names":["z"]' in update.updates["schema.name-mapping.default"]


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("none", NONE),
        ("COUNTS", COUNTS),
        ("Full", FULL),
        ("truncate(16)", TRUNCATE_16),
        (" Truncate(7) ", MetricsMode("truncate", 7)),
    ],
)
def test_metrics_modes_are_read(text: str, mode: MetricsMode) -> None:
    """MANIFEST-54"""
    assert parse_mode(text) == mode
    assert parse_mode(str(mode)) == mode


@pytest.mark.parametrize("text", ["truncate(0)", "truncate", "truncate(-1)", "all", ""])
def test_a_bad_metrics_mode_is_refused_by_name(text: str) -> None:
    with pytest.raises(OptionError, match=r"write\.metadata\.metrics\.default"):
        parse_mode(text)


def test_what_modes_keep() -> None:
    assert [(m.has_counts, m.has_bounds) for m in (NONE, COUNTS, TRUNCATE_16, FULL)] == [
        (False, False),
        (True, False),
        (True, True),
        (True, True),
    ]


NESTED = Schema.of(
    NestedField(1, "s", StructType((NestedField(3, "a", INT), NestedField(4, "b", INT)))),
    NestedField(2, "c", STRING),
    NestedField(5, "d", INT),
)


def test_columns_have_their_own_modes() -> None:
    """MANIFEST-54"""
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.c": "full",
        "write.metadata.metrics.column.s.b": "none",
        "write.metadata.metrics.column.gone": "full",
    }
    config = MetricsConfig.of(properties, NESTED, UNSORTED)
    assert [config.mode(i) for i in (2, 3, 4, 5)] == [FULL, COUNTS, NONE, COUNTS]


def test_sorted_columns_keep_bounds_unless_told_otherwise() -> None:
    order = SortOrder(
        1, tuple(SortField((i,), t, SortDirection.ASC, NullOrder.NULLS_FIRST) for i, t in [(2, IDENTITY), (5, bucket(4))])
    )
    config = MetricsConfig.of({"write.metadata.metrics.default": "none"}, NESTED, order)
    assert [config.mode(i) for i in (2, 5)] == [TRUNCATE_16, NONE]
    told = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.c": "counts"}
    assert MetricsConfig.of(told, NESTED, order).mode(2) == COUNTS
    assert MetricsConfig.of({"write.metadata.metrics.default": "full"}, NESTED, order).mode(2) == FULL


def test_wide_tables_keep_metrics_of_their_first_columns() -> None:
    """Top-level leaves come before nested ones."""
    limited = {"write.metadata.metrics.max-inferred-column-defaults": "3"}
    config = MetricsConfig.of(limited, NESTED, UNSORTED)
    assert [config.mode(i) for i in (2, 5, 3, 4)] == [TRUNCATE_16, TRUNCATE_16, TRUNCATE_16, NONE]
    assert MetricsConfig.of({}, NESTED, UNSORTED).mode(4) == TRUNCATE_16
    table = new_table_metadata(NESTED, UNPARTITIONED, UNSORTED, "x", limited, now_ms=1)
    assert MetricsConfig.for_table(table).default == NONE


LOOKUP = Schema.of(
    NestedField(1, "a", list_of(2, StructType((NestedField(3, "b", INT), NestedField(4, "B", INT))))),
    NestedField(5, "m", map_of(6, STRING, 7, StructType((NestedField(8, "v", INT),)))),
    NestedField(9, "A.b", INT),
    NestedField(10, "Mixed", INT),
)


@pytest.mark.parametrize(
    ("name", "field_id"),
    [
        ("a", 1),
        ("a.element", 2),
        ("a.element.b", 3),
        ("a.b", 3),
        ("m.value.v", 8),
        ("m.v", 8),
        ("m.key", 6),
        ("A.b", 9),
        ("mixed", None),
    ],
)
def test_columns_are_found_by_full_and_short_name(name: str, field_id: int | None) -> None:
    """SCHEMA-02 SCHEMA-11"""
    found = LOOKUP.find(name)
    assert (None if found is None else found.field_id) == field_id


def test_look_up_without_case_refuses_what_is_ambiguous() -> None:
    assert LOOKUP.find("MIXED", case_sensitive=False).field_id == 10  # type: ignore[union-attr]
    with pytest.raises(SchemaError, match="ambiguous"):
        LOOKUP.find("A.ELEMENT.b", case_sensitive=False)


@given(schemas())
def test_every_full_name_finds_its_field(schema: Schema) -> None:
    """TYPE-30"""
    for field_id, name in schema.names_by_id.items():
        assert schema.ids_by_name[name] == field_id
        assert schema.field(field_id).field_id == field_id
