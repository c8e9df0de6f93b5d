"""Changes to a table's partitioning (spec: "Partition Evolution"; Java: UpdatePartitionSpec).

v2 and later drop a removed field, and an added field gets the id of an equal field in any earlier spec; v1 keeps a removed field as
``void`` so that ids stay in sequence. Storing the result is the metadata builder's task.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema, no_column
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY, VOID, Transform
from iceberg_ops.spec.updates import LAST_ADDED, AddPartitionSpec, SetDefaultSpec, TableUpdate
from iceberg_ops.spec.validity import check_new_spec

_TIMES = frozenset({"year", "month", "day", "hour"})


def default_field_name(column: str, transform: Transform) -> str:
    """Java's name for a partition field that is added without one: ``id_bucket_16``, ``ts_day``."""
    if transform.is_identity:
        return column
    if transform.name == "truncate":
        return f"{column}_trunc_{transform.parameter}"
    if transform.is_void:
        return f"{column}_null"
    return f"{column}_{transform.name}" if transform.parameter is None else f"{column}_{transform.name}_{transform.parameter}"


class SpecEvolution:
    """Collects changes; ``apply`` returns the new spec. Methods return the evolution itself, so calls can be chained."""

    def __init__(
        self,
        spec: PartitionSpec,
        schema: Schema,
        last_partition_id: int,
        *,
        specs: Iterable[PartitionSpec] = (),
        format_version: int = 2,
        case_sensitive: bool = True,
    ) -> None:
        """``specs``: every spec of the table; an added field may get its old id from one of them."""
        self.spec = spec
        self.schema = schema
        self.last_partition_id = last_partition_id
        self._history = [f for s in specs for f in s.fields]
        self._format_version = format_version
        self._case_sensitive = case_sensitive
        self._adds: list[PartitionField] = []
        self._deletes: set[int] = set()
        self._renames: dict[str, str] = {}

    @classmethod
    def of_table(cls, metadata: TableMetadata, *, case_sensitive: bool = True) -> SpecEvolution:
        """Starts from the table's default spec."""
        return cls(
            metadata.spec,
            metadata.schema,
            metadata.last_partition_id,
            specs=metadata.partition_specs,
            format_version=metadata.format_version,
            case_sensitive=case_sensitive,
        )

    def add_field(self, column: str, transform: Transform = IDENTITY, name: str | None = None) -> SpecEvolution:
        """Also partition by ``transform`` of ``column``. Raises SchemaError if the spec already does or a name is taken."""
        source_id = self._source_id(column)
        same = self._same(self.spec.fields, source_id, transform)
        if same is not None:
            if same.field_id not in self._deletes:
                raise SchemaError(f"cannot add partition field {transform}({column}): {same.name!r} is the same")
            return self._restore(same, name)
        if self._same(self._adds, source_id, transform) is not None:
            raise SchemaError(f"cannot add partition field {transform}({column}): it is already added")
        added = self._recycled(source_id, transform, name) or PartitionField(
            (source_id,), self._next_id(), transform, name or default_field_name(self.schema.name_of(source_id), transform)
        )
        self._check_redundant(added)
        self._free_name(added.name)
        self._adds.append(added)
        return self

    def remove_field(self, name: str) -> SpecEvolution:
        """Stop partitioning by the field of that name."""
        if any(f.name == name for f in self._adds):
            raise SchemaError(f"cannot remove partition field {name!r}: this evolution adds it")
        if name in self._renames:
            raise SchemaError(f"cannot remove partition field {name!r}: this evolution renames it")
        self._deletes.add(self._existing(name).field_id)
        return self

    def remove_transform(self, column: str, transform: Transform = IDENTITY) -> SpecEvolution:
        """Stop partitioning by ``transform`` of ``column``."""
        field = self._same(self.spec.fields, self._source_id(column), transform)
        if field is None:
            raise SchemaError(f"cannot remove partition field {transform}({column}): the spec has none like it")
        return self.remove_field(field.name)

    def rename_field(self, name: str, new_name: str) -> SpecEvolution:
        """Give a partition field another name; its id stays."""
        if any(f.name == name for f in self._adds):
            raise SchemaError(f"cannot rename partition field {name!r}: this evolution adds it")
        if self._existing(name).field_id in self._deletes:
            raise SchemaError(f"cannot rename partition field {name!r}: this evolution removes it")
        self._free_name(new_name)
        self._renames[name] = new_name
        return self

    def apply(self) -> PartitionSpec:
        """The new spec, with the old one's id: the metadata builder assigns a new id. Raises SchemaError."""
        fields = []
        for f in self.spec.fields:
            renamed = replace(f, name=self._renames.get(f.name, f.name))
            if f.field_id not in self._deletes:
                fields.append(renamed)
            elif self._format_version < 2:
                fields.append(replace(renamed, transform=VOID))
        spec = PartitionSpec(self.spec.spec_id, (*fields, *self._adds), self.spec.extra)
        check_new_spec(spec, self.schema, self._format_version)
        return spec

    def updates(self) -> tuple[TableUpdate, ...]:
        """The updates to commit: the new spec, made the default."""
        return AddPartitionSpec(self.apply()), SetDefaultSpec(LAST_ADDED)

    def _next_id(self) -> int:
        self.last_partition_id += 1
        return self.last_partition_id

    def _source_id(self, column: str) -> int:
        field = self.schema.find(column, case_sensitive=self._case_sensitive)
        if field is None:
            raise SchemaError(no_column(self.schema, column))
        return field.field_id

    def _same(self, fields: Iterable[PartitionField], source_id: int, transform: Transform) -> PartitionField | None:
        return next((f for f in fields if f.source_ids == (source_id,) and f.transform == transform), None)

    def _existing(self, name: str) -> PartitionField:
        field = next((f for f in self.spec.fields if f.name == name), None)
        if field is None:
            names = ", ".join(f.name for f in self.spec.fields) or "none"
            raise SchemaError(f"no partition field named {name!r}: the fields are {names}")
        return field

    def _recycled(self, source_id: int, transform: Transform, name: str | None) -> PartitionField | None:
        """An equal field of an earlier spec (with that name, if one is given), with its id and name."""
        if self._format_version < 2:
            return None
        equal = (f for f in self._history if f.source_ids == (source_id,) and f.transform == transform)
        return next((f for f in equal if name is None or f.name == name), None)

    def _restore(self, removed: PartitionField, name: str | None) -> SpecEvolution:
        """Removing and adding the same field changes nothing except its name, if one is given."""
        self._deletes.discard(removed.field_id)
        return self if name is None or name == removed.name else self.rename_field(removed.name, name)

    def _check_redundant(self, added: PartitionField) -> None:
        if added.transform.name in _TIMES:
            for f in self._adds:
                if f.source_ids == added.source_ids and f.transform.name in _TIMES:
                    raise SchemaError(
                        f"cannot add partition field {added.name!r}: {f.name!r} of the same column makes it redundant"
                    )

    def _free_name(self, name: str) -> None:
        """A removed or void field releases its name (its id is appended to it); a live one keeps it."""
        if any(f.name == name for f in self._adds):
            raise SchemaError(f"cannot name a partition field {name!r}: this evolution adds one of that name")
        holder = next((f for f in self.spec.fields if self._renames.get(f.name, f.name) == name), None)
        if holder is None:
            return
        if not holder.transform.is_void and holder.field_id not in self._deletes:
            raise SchemaError(f"cannot name a partition field {name!r}: the name is taken")
        self._renames[holder.name] = f"{holder.name}_{holder.field_id}"
