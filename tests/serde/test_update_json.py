"""Updates and requirements in the REST catalog's JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from iceberg_ops.commit.protocol.run_keys import RunIdentity
from iceberg_ops.errors import CommitFailedError, CorruptTableError, UnsupportedError
from iceberg_ops.serde.json.metadata_json import metadata_from_dict
from iceberg_ops.serde.json.update_json import requirement_from_dict, requirement_to_dict, update_from_dict, update_to_dict
from iceberg_ops.spec import requirements as r
from iceberg_ops.spec import updates as u
from iceberg_ops.spec.table_metadata import TableMetadata
from tests.serde.test_metadata_json import document

TABLE: TableMetadata = metadata_from_dict(document())
SCHEMA = {"type": "struct", "schema-id": 1, "fields": [{"id": 1, "name": "a", "required": True, "type": "int"}]}
SNAPSHOT = {"snapshot-id": 9, "sequence-number": 2, "timestamp-ms": 5, "manifest-list": "l", "summary": {"operation": "append"}}
STATISTICS = {
    "snapshot-id": 7,
    "statistics-path": "p",
    "file-size-in-bytes": 2,
    "file-footer-size-in-bytes": 1,
    "blob-metadata": [],
}
ORDER = {"order-id": 1, "fields": [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}]}
SPEC = {"spec-id": 1, "fields": [{"name": "a", "transform": "identity", "source-id": 1, "field-id": 1000}]}
UPDATES: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
    {"action": "upgrade-format-version", "format-version": 3},
    {"action": "add-schema", "schema": SCHEMA},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": SPEC},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": ORDER},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "add-snapshot", "snapshot": SNAPSHOT},
    {
        "action": "set-snapshot-ref",
        "ref-name": "b",
        "snapshot-id": 9,
        "type": "branch",
        "min-snapshots-to-keep": 2,
        "max-ref-age-ms": 5,
    },
    {"action": "remove-snapshots", "snapshot-ids": [1, 2**62]},
    {"action": "remove-snapshot-ref", "ref-name": "b"},
    {"action": "set-location", "location": "s3://b/u"},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "set-statistics", "snapshot-id": 7, "statistics": STATISTICS},
    {"action": "remove-statistics", "snapshot-id": 7},
    {
        "action": "set-partition-statistics",
        "partition-statistics": {"snapshot-id": 7, "statistics-path": "p", "file-size-in-bytes": 2},
    },
    {"action": "remove-partition-statistics", "snapshot-id": 7},
    {"action": "remove-partition-specs", "spec-ids": [1]},
    {"action": "remove-schemas", "schema-ids": [1]},
    {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "AA=="}},
    {"action": "remove-encryption-key", "key-id": "k"},
]
REQUIREMENTS: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    (
        {"type": "assert-table-uuid", "uuid": "9C12D441-03fe-4693-9a96-a0705ddf69c1"},
        {"uuid": "0c12d441-03fe-4693-9a96-a0705ddf69c1"},
    ),
    ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}, {"snapshot-id": 8}),
    ({"type": "assert-ref-snapshot-id", "ref": "gone", "snapshot-id": None}, {"ref": "main"}),
    ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1}, {"last-assigned-field-id": 2}),
    ({"type": "assert-current-schema-id", "current-schema-id": 0}, {"current-schema-id": 1}),
    ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999}, {"last-assigned-partition-id": 1000}),
    ({"type": "assert-default-spec-id", "default-spec-id": 0}, {"default-spec-id": 1}),
    ({"type": "assert-default-sort-order-id", "default-sort-order-id": 0}, {"default-sort-order-id": 1}),
]


@pytest.mark.parametrize("body", UPDATES, ids=lambda b: b["action"])
def test_an_update_comes_back(body: dict[str, Any]) -> None:
    """REST-03 REST-04"""
    update = update_from_dict(body)
    assert update_to_dict(update) == body
    assert update_from_dict(msgspec.json.decode(msgspec.json.encode(update_to_dict(update)))) == update


def test_every_update_has_a_json_form() -> None:
    """REST-03"""
    read = {type(update_from_dict(body)).__name__ for body in UPDATES}
    assert read == {known.__name__ for known in u.TableUpdate.__subclasses__()}


@pytest.mark.parametrize(("body", "wrong"), REQUIREMENTS, ids=lambda b: str((b or {}).get("type")))
def test_a_requirement_comes_back_and_is_checked(body: dict[str, Any], wrong: dict[str, Any]) -> None:
    """REST-02 COMMIT-04"""
    requirement = requirement_from_dict(body)
    assert requirement_to_dict(requirement) == body
    requirement.check(TABLE)
    with pytest.raises(CommitFailedError):
        requirement_from_dict(body | wrong).check(TABLE)
    with pytest.raises(CommitFailedError, match="no longer exists"):
        requirement.check(None)


def test_creation_requires_that_there_is_no_table() -> None:
    """REST-02"""
    create = requirement_from_dict({"type": "assert-create"})
    assert requirement_to_dict(create) == {"type": "assert-create"}
    create.check(None)
    with pytest.raises(CommitFailedError, match="already exists"):
        create.check(TABLE)


class _UnheardOf(r.TableRequirement):
    def check(self, current: TableMetadata | None) -> None:
        """Holds of every table."""


def test_what_is_not_known_is_refused_by_name() -> None:
    """REST-05"""
    with pytest.raises(UnsupportedError, match="'frobnicate'"):
        update_from_dict({"action": "frobnicate"})
    with pytest.raises(UnsupportedError, match="'assert-nothing'"):
        requirement_from_dict({"type": "assert-nothing"})
    with pytest.raises(UnsupportedError):
        update_to_dict(u.TableUpdate())
    for requirement in (
        _UnheardOf(),
        r.AssertRetention(TABLE),
        r.AssertNoRun(RunIdentity(key="k", action="append")),
        r.AssertProperty("a", "b"),
        r.AssertSameRef("a", None),
        r.AssertSameHeads(TABLE),
    ):
        with pytest.raises(UnsupportedError, match="because the REST specification has no such one"):
            requirement_to_dict(requirement)


@pytest.mark.parametrize(
    "body", [{}, {"action": 5}, {"action": "set-location"}, {"action": "remove-snapshots", "snapshot-ids": ["1"]}, []]
)
def test_a_malformed_update_is_corrupt(body: Any) -> None:
    """REST-05"""
    with pytest.raises(CorruptTableError):
        update_from_dict(body)
