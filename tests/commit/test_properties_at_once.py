"""Properties whose next value is computed from the previous one: of two changes at the same time, neither is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpdateSchema
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.commit.validation.mapped_names import AddMappedNames
from iceberg_ops.errors import OptionError
from iceberg_ops.serde.json.name_mapping_json import name_mapping_to_json, table_name_mapping
from iceberg_ops.spec.name_mapping import create_name_mapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, SCHEMA, data_file, make_catalog, make_table
from tests.catalog.wrappers import Meddles

MAPPING = "schema.name-mapping.default"
BOUNDS = "write.metadata.metrics.column."
WIDER = Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG))
RENAMED = Schema.of(NestedField(1, "number", LONG, True), *SCHEMA.fields[1:])


def importing(name: str, branch: str = "main") -> Transaction:
    """An import of a file that calls column ``id`` by this name."""
    append = AppendFiles(added=(data_file(name),), branch=branch)
    return Transaction(operations=(AddMappedNames(names={1: frozenset({name})}), append), branch=branch)


def at_once(catalog: Any, first: Operation, late: Operation) -> Table:
    """``first`` is committed between the stage and the swap of ``late``; the table after both."""
    table = catalog.load_table(IDENTIFIER)

    def meddle() -> None:
        commit(catalog, table, first)

    commit(Meddles(catalog, meddle), table, late, sleep=lambda _: None)
    return catalog.load_table(IDENTIFIER)  # type: ignore[no-any-return]


def with_mapping(catalog: Any, version: int = 2) -> Table:
    table = make_table(catalog, version=version)
    mapping = name_mapping_to_json(create_name_mapping(table.schema))
    return commit(catalog, table, UpdateProperties(updates={MAPPING: mapping})).table


def names(table: Table) -> dict[int | None, set[str]]:
    mapping = table_name_mapping(table.metadata)
    return {} if mapping is None else {f.field_id: set(f.names) for f in mapping.fields}


@pytest.mark.parametrize("first", ["the import", "the new column"])
@pytest.mark.parametrize("is_mapped", [True, False], ids=["a mapping", "no mapping yet"])
def test_an_import_and_a_new_column_are_both_in_the_name_mapping(is_mapped: bool, first: str) -> None:
    catalog = make_catalog()
    if is_mapped:
        with_mapping(catalog)
    else:
        make_table(catalog)
    both: tuple[Operation, Operation] = (importing("old_id"), UpdateSchema(schema=WIDER))
    table = at_once(catalog, *(both if first == "the import" else reversed(both)))
    assert names(table)[1] == {"id", "old_id"}
    assert names(table)[4] == {"more"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_imports_on_two_branches_keep_each_others_names(version: int) -> None:
    catalog = make_catalog()
    table = commit(catalog, with_mapping(catalog, version), AppendFiles(added=(data_file("a"),))).table
    commit(catalog, table, SetRef(ref="z", snapshot_id=table.metadata.current_snapshot_id or 0))
    assert names(at_once(catalog, importing("one"), importing("two", "z")))[1] == {"id", "one", "two"}


def test_a_renamed_column_takes_the_setting_along_that_was_made_at_the_same_moment() -> None:
    catalog = make_catalog()
    commit(catalog, make_table(catalog), UpdateProperties(updates={f"{BOUNDS}id": "none"}))
    table = at_once(catalog, UpdateProperties(updates={f"{BOUNDS}id": "full"}), UpdateSchema(schema=RENAMED))
    assert {key: value for key, value in table.properties.items() if key.startswith(BOUNDS)} == {f"{BOUNDS}number": "full"}


@pytest.mark.parametrize("earlier", ["sets the mapping", "sets another property", "adds names"])
def test_a_schema_change_follows_what_its_own_transaction_did_to_the_mapping(earlier: str) -> None:
    catalog = make_catalog()
    table = with_mapping(catalog)
    short = name_mapping_to_json(create_name_mapping(Schema.of(*SCHEMA.fields[:1])))
    before: dict[str, Callable[[], Operation]] = {
        "sets the mapping": lambda: UpdateProperties(updates={MAPPING: short}),
        "sets another property": lambda: UpdateProperties(updates={"a": "b"}),
        "adds names": lambda: AddMappedNames(names={1: frozenset({"old_id"})}),
    }
    done = commit(catalog, table, Transaction(operations=(before[earlier](), UpdateSchema(schema=WIDER))), sleep=lambda _: None)
    assert done.attempts == 1
    assert names(done.table)[4] == {"more"}
    assert ("old_id" in names(done.table)[1]) is (earlier == "adds names")


WRONG = {
    "commit.retry.total-timeout-ms": "30m",
    "commit.retry.num-retries": "-1",
    "commit.retry.min-wait-ms": "soon",
    "commit.retry.max-wait-ms": "1s",
    "write.metadata.previous-versions-max": "many",
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("mend", ["remove", "set", "in a transaction"])
def test_a_value_that_no_engine_can_read_can_be_taken_back(name: str, mend: str) -> None:
    """Another engine has set it, and no other commit goes through."""
    catalog = make_catalog()
    table = make_table(catalog)
    with_wrong = replace(table.metadata, properties={**table.properties, name: WRONG[name]})
    location = catalog._written(IDENTIFIER, with_wrong, 1)
    assert catalog._swap_pointer(IDENTIFIER, table.metadata_location, location)
    with pytest.raises(OptionError, match=f"table property {name} = '{WRONG[name]}'"):
        commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file("a"),)))
    changes = {"remove": UpdateProperties(removals=(name,)), "set": UpdateProperties(updates={name: "5"})}
    mending = changes.get(mend) or Transaction(operations=(UpdateProperties(updates={"a": "b"}), changes["remove"]))
    table = commit(catalog, catalog.load_table(IDENTIFIER), mending).table
    assert table.properties.get(name) == ("5" if mend == "set" else None)
    commit(catalog, table, AppendFiles(added=(data_file("a"),)))


@pytest.mark.parametrize("name", WRONG)
def test_a_value_that_no_engine_can_read_is_not_set(name: str) -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    with pytest.raises(OptionError, match=f"table property {name} = '{WRONG[name]}'"):
        commit(catalog, table, UpdateProperties(updates={name: WRONG[name]}))
    assert name not in catalog.load_table(IDENTIFIER).properties
