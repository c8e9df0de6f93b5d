"""Converts the schema of an Avro file to one that decodes its records by field id into plain values.

The writer's schema is inlined (named types are defined once and referred to later), logical types are removed (dates stay ints,
decimals stay bytes) and its fields are renamed: a column that the caller knows by field id gets its id as name, any other field
a name that cannot clash. So the writer's names never reach the decoder, however unusual they are (MANIFEST-62).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.avro.manifest_fields import ANY, READ_AS_REQUIRED, Column

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_FITS: Mapping[str, frozenset[str]] = {
    "int": frozenset({"int", "long"}),
    "long": frozenset({"int", "long"}),
    "bytes": frozenset({"bytes", "fixed"}),
}
_MOST_NODES = 20_000
_DEEPEST = 40


def field_key(field_id: int) -> str:
    """The name of the column with that id in a decoded record."""
    return f"f{field_id}"


@dataclass(frozen=True, slots=True)
class Leaf:
    """The non-null type of an Avro field: its base type, its logical type and, for fixed, its size."""

    base: str
    logical: str | None = None
    node: Any = None


def _scale(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"scale": schema["scale"]} if schema.get("logicalType") == "decimal" and "scale" in schema else {}


def leaf_type(node: Any, name: str) -> Leaf:
    """The one non-null type of a field; "null" if there is no other. Raises CorruptTableError for a wider union."""
    if isinstance(node, list):
        branches = [n for n in node if n != "null"]
        if len(branches) > 1:
            raise CorruptTableError(f"{name}: Avro union of {len(branches)} types where a value or null is expected")
        return leaf_type(branches[0], name) if branches else Leaf("null")
    if isinstance(node, str):
        return Leaf(node)
    return Leaf(node["type"], node.get("logicalType"), node)


class SchemaReader:
    """Inlines one writer's schema and renames its records. Error messages start with ``name``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._named: dict[str, tuple[Any, str]] = {}
        self._count = 0

    def corrupt(self, what: str) -> CorruptTableError:
        return CorruptTableError(f"{self._name}: {what}")

    def inline_text(self, schema_text: str) -> Any:
        """``inline`` of a schema in JSON."""
        try:
            return self.inline(json.loads(schema_text))
        except (ValueError, RecursionError) as e:
            raise self.corrupt(f"Avro header's schema is not JSON: {e}") from None

    def record_schema(self, node: Any, what: str) -> Any:
        """The record that is the schema, or the one non-null type in its union. Raises CorruptTableError."""
        leaf = leaf_type(node, self._name)
        if leaf.base != "record":
            raise self.corrupt(f"{what} is an Avro {leaf.base}, must be a record")
        return leaf.node

    def inline(self, schema: Any) -> Any:
        """The schema without references; invalid structures are refused. Raises CorruptTableError."""
        try:
            return self._inline(schema, "", 0)
        except (KeyError, TypeError, AttributeError) as e:
            raise self.corrupt(f"Avro schema is malformed: {type(e).__name__} {e}") from None

    def _inline(self, schema: Any, namespace: str, depth: int) -> Any:
        self._count += 1
        if depth > _DEEPEST or self._count > _MOST_NODES:
            raise self.corrupt("Avro schema is recursive or too large")
        if isinstance(schema, str):
            return self._primitive_or_named(schema, namespace, depth)
        if isinstance(schema, list):
            return [self._inline(s, namespace, depth + 1) for s in schema]
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._inline(kind, namespace, depth + 1)
        if kind in ("record", "error", "fixed", "enum"):
            return self._define(schema, kind, namespace, depth)
        if kind == "array":
            items = self._inline(schema["items"], namespace, depth + 1)
            if _is_empty(items):
                raise self.corrupt("Avro array of empty items")
            return {"type": "array", "items": items, **_ids(schema)}
        if kind == "map":
            return {"type": "map", "values": self._inline(schema["values"], namespace, depth + 1)}
        base = self._primitive_or_named(kind, namespace, depth)
        logical = schema.get("logicalType")
        return {"type": base, "logicalType": logical, **_scale(schema)} if isinstance(base, str) and logical else base

    def _primitive_or_named(self, text: str, namespace: str, depth: int) -> Any:
        if text in _PRIMITIVES:
            return text
        named = self._named.get(f"{namespace}.{text}", self._named.get(text))
        if named is None:
            raise self.corrupt(f"Avro schema refers to type {text!r}, which it does not define")
        definition, own_namespace = named
        return self._inline(definition, own_namespace, depth + 1)

    def _define(self, schema: Mapping[str, Any], kind: str, namespace: str, depth: int) -> Any:
        own_name = schema["name"]
        namespace = own_name.rpartition(".")[0] if "." in own_name else schema.get("namespace", namespace)
        for key in (own_name, f"{namespace}.{own_name.rpartition('.')[2]}"):
            self._named[key] = (schema, namespace)
        node: dict[str, Any] = {"type": kind, "name": f"t{self._count}", "logicalType": schema.get("logicalType"), **_scale(schema)}
        if kind == "fixed":
            node["size"] = int(schema["size"])
            if node["size"] < 0:
                raise self.corrupt(f"Avro fixed {own_name!r} has size {node['size']}")
        elif kind == "enum":
            node["symbols"] = [f"s{i}" for i in range(len(schema["symbols"]))]
        else:
            node["type"] = "record"
            node["fields"] = [self._field(f, i, namespace, depth) for i, f in enumerate(schema["fields"])]
        return node

    def _field(self, f: Mapping[str, Any], index: int, namespace: str, depth: int) -> dict[str, Any]:
        return {
            "name": f"x{index}",
            "type": self._inline(f["type"], namespace, depth + 1),
            "id": f.get("field-id"),
            "written": f.get("iceberg-field-name", f["name"]),
            "avro-name": f["name"],
        }

    def rename(self, record: Any, columns: Sequence[Column], old_names: Mapping[str, int]) -> dict[int, Leaf]:
        """Rename a record's known columns to their ids, in place; returns the type of each. Raises CorruptTableError."""
        leaves: dict[int, Leaf] = {}
        for f, column in self._matches(record["fields"], columns, old_names):
            leaf = leaf_type(f["type"], f"{self._name}: {column.name}")
            leaves[column.field_id] = leaf
            f["name"] = field_key(column.field_id)
            if leaf.base != "null":
                self._check(column, leaf)
        for column in columns:
            if column.field_id in READ_AS_REQUIRED and leaves.get(column.field_id, Leaf("null")).base == "null":
                raise self.corrupt(f"no column {column.name} (field id {column.field_id}), which is required")
        return leaves

    def _matches(
        self, fields: Sequence[Mapping[str, Any]], columns: Sequence[Column], old_names: Mapping[str, int]
    ) -> Iterator[tuple[Any, Column]]:
        """Fields with their columns: by id, or by name for fields without an id (partition fields also if the id is unknown)."""
        missing = {c.field_id: c for c in columns}
        unmatched = []
        for f in fields:
            column = missing.pop(f["id"], None)
            if column is not None:
                yield f, column
            else:
                unmatched.append(f)
        by_name = {**old_names, **{c.name: c.field_id for c in columns}}
        for f in unmatched:
            column = missing.get(by_name.get(f["written"], by_name.get(f["avro-name"], -1)))
            if column is not None and (f["id"] is None or column.kind == ANY):
                yield f, missing.pop(column.field_id)

    def _check(self, column: Column, leaf: Leaf) -> None:
        allowed = _FITS.get(column.kind, {column.kind})
        if column.kind == "map":
            self._check_map(column, leaf)
        elif column.kind == ANY:
            return
        elif leaf.base not in allowed:
            raise self.corrupt(f"column {column.name} (field id {column.field_id}) is an Avro {leaf.base}, must be {column.kind}")
        elif column.kind == "array":
            element = leaf_type(leaf.node["items"], self._name).base
            if element not in _FITS.get(str(column.inner[1]), {column.inner[1]}):
                raise self.corrupt(f"column {column.name} (field id {column.field_id}) is an array of {element}")

    def _check_map(self, column: Column, leaf: Leaf) -> None:
        kind = str(column.inner[2])
        if leaf.base == "map":
            value = leaf_type(leaf.node["values"], self._name)
        else:
            fields = leaf_type(leaf.node["items"], self._name).node["fields"] if leaf.base == "array" else []
            if len(fields) != 2 or leaf_type(fields[0]["type"], self._name).base not in ("int", "long"):
                raise self.corrupt(f"column {column.name} (field id {column.field_id}) is not a map with whole-number keys")
            fields[0]["name"], fields[1]["name"] = "key", "value"
            value = leaf_type(fields[1]["type"], self._name)
        if value.base not in _FITS.get(kind, {kind}):
            raise self.corrupt(f"column {column.name} (field id {column.field_id}) maps to {value.base}, must map to {kind}")


def _is_empty(node: Any) -> bool:
    """Whether values of this type take no bytes: an array of them could claim any length."""
    if node == "null":
        return True
    if isinstance(node, dict) and node["type"] == "record":
        return all(_is_empty(f["type"]) for f in node["fields"])
    return isinstance(node, dict) and node["type"] == "fixed" and node["size"] == 0


def _ids(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"logicalType": schema["logicalType"]} if schema.get("logicalType") else {}


def plain(node: Any) -> Any:
    """The inlined schema in the decoder's form: without logical types and extra attributes."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return [plain(n) for n in node]
    kind = node["type"]
    if kind == "record":
        fields = [{"name": f["name"], "type": plain(f["type"])} for f in node["fields"]]
        return {"type": kind, "name": node["name"], "fields": fields}
    if kind == "array":
        return {"type": kind, "items": plain(node["items"])}
    if kind == "map":
        return {"type": kind, "values": plain(node["values"])}
    return {k: v for k, v in node.items() if k not in ("logicalType", "scale")}
