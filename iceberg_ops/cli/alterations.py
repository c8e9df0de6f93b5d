"""The steps of ``iceberg-ops evolve``: the clauses of Spark's and Iceberg's ALTER TABLE, one text each.

::

    ADD COLUMN a.b int [NOT NULL] [DEFAULT 1] [COMMENT 'x'] [FIRST | AFTER c]       DROP COLUMN a
    RENAME COLUMN a TO b                                                             ALTER COLUMN a TYPE bigint
    ALTER COLUMN a (SET | DROP) NOT NULL | COMMENT 'x' | FIRST | AFTER b | SET DEFAULT 1
    ADD PARTITION FIELD bucket(16, id) [AS shard]                                    DROP PARTITION FIELD shard
    REPLACE PARTITION FIELD days(ts) WITH hours(ts) [AS h]                           RENAME PARTITION FIELD a TO b
    WRITE ORDERED BY a DESC NULLS LAST, bucket(4, b) | WRITE UNORDERED               SET IDENTIFIER FIELDS a, b
    SET TBLPROPERTIES ('k' = 'v')                                                    UNSET TBLPROPERTIES ('k')

Columns have their names from before the call, even if the same call renames them, also in partition and sort steps; there, a
name that no column has before the call may be one that the call gives. ``iceberg_ops.spec`` decides what the format allows;
this module only parses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from iceberg_ops.cli.column_definitions import (
    SortKey,
    TransformTerm,
    column,
    comma_separated,
    data_type,
    named_term,
    sort_key,
    term,
)
from iceberg_ops.cli.default_literals import parse_default
from iceberg_ops.cli.sql_tokens import Tokens
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.types import MISSING

FORMAT_VERSION = "format-version"
Names = Callable[[str], str]
"""Converts the name of a column in a step to its name after the call."""


@dataclass(slots=True)
class Alterations:
    """The requests of the steps, in order: calls on the two evolutions, a new sort order (None: unchanged), properties. Partition
    and sort steps are applied to the changed schema, so they need the column names in that schema."""

    schema: list[Callable[[SchemaEvolution], object]] = field(default_factory=list)
    spec: list[Callable[[SpecEvolution, Names], object]] = field(default_factory=list)
    sort_keys: list[SortKey] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    removed_properties: list[str] = field(default_factory=list)

    def sort_keys_by(self, names: Names) -> list[SortKey] | None:
        """The sort keys over the changed schema."""
        if self.sort_keys is None:
            return None
        return [replace(key, term=replace(key.term, source=names(key.term.source))) for key in self.sort_keys]


def parse_alterations(texts: Sequence[str]) -> Alterations:
    """The requests of all steps. Raises OptionError that shows the step and the position."""
    alterations = Alterations()
    for text in texts:
        tokens = Tokens(text)
        for words, read in _STEPS:
            if tokens.take(*words):
                read(tokens, alterations)
                tokens.end()
                break
        else:
            known = "; ".join(" ".join(words) for words, _ in _STEPS)
            raise OptionError(f"{text!r} is not a step: one begins with {known}")
    if both := [key for key in alterations.removed_properties if key in alterations.properties]:
        raise OptionError(f"property {both[0]} is set and unset in one call: do one of the two, or use two calls")
    return alterations


def _add_column(tokens: Tokens, alterations: Alterations) -> None:
    defined = column(tokens)
    place = _place(tokens)
    default = MISSING if defined.default is None else parse_default(defined.default, defined.type)
    alterations.schema.append(
        lambda e: e.add_column(
            defined.name, defined.type, parent=defined.parent, required=defined.required, doc=defined.doc, default=default
        )
    )
    if place is not None:
        alterations.schema.append(_move(defined.full_name, defined.parent, place))


def _place(tokens: Tokens) -> tuple[str, ...] | None:
    """FIRST (no parts), AFTER a column, or nothing (None)."""
    if tokens.take("FIRST"):
        return ()
    return tokens.name_parts() if tokens.take("AFTER") else None


def _move(name: str, parent: str | None, after: tuple[str, ...]) -> Callable[[SchemaEvolution], object]:
    """``after`` names a column of the same struct, in full or by its last part."""
    reference = ".".join([parent, *after] if parent and len(after) == 1 else after)
    return lambda e: e.move_after(name, reference) if after else e.move_first(name)


def _drop_column(tokens: Tokens, alterations: Alterations) -> None:
    name = tokens.dotted_name()
    alterations.schema.append(lambda e: e.drop_column(name))


def _rename_column(tokens: Tokens, alterations: Alterations) -> None:
    name = tokens.dotted_name()
    tokens.expect("TO")
    new = tokens.name()
    alterations.schema.append(lambda e: e.rename_column(name, new))


def _alter_column(tokens: Tokens, alterations: Alterations) -> None:
    parts = tokens.name_parts()
    name, parent = ".".join(parts), ".".join(parts[:-1]) or None
    if tokens.take("TYPE"):
        type_ = data_type(tokens)
        alterations.schema.append(lambda e: e.update_type(name, type_))
    elif tokens.take("SET", "NOT", "NULL"):
        alterations.schema.append(lambda e: e.require_column(name))
    elif tokens.take("DROP", "NOT", "NULL"):
        alterations.schema.append(lambda e: e.make_optional(name))
    elif tokens.take("COMMENT"):
        doc = tokens.text()
        alterations.schema.append(lambda e: e.update_doc(name, doc))
    elif tokens.take("SET", "DEFAULT"):
        text = tokens.until()
        alterations.schema.append(lambda e: e.update_default(name, parse_default(text, e.column(name).type)))
    elif (place := _place(tokens)) is not None:
        alterations.schema.append(_move(name, parent, place))
    else:
        tokens.fail("TYPE, SET NOT NULL, DROP NOT NULL, COMMENT, SET DEFAULT, FIRST or AFTER")


def _identifiers(tokens: Tokens, alterations: Alterations) -> None:
    names = comma_separated(tokens, Tokens.dotted_name)
    alterations.schema.append(lambda e: e.set_identifier_fields(names))


def _add_partition(tokens: Tokens, alterations: Alterations) -> None:
    added = named_term(tokens)
    alterations.spec.append(lambda e, names: e.add_field(names(added.source), added.transform, added.name))


def _drop_partition(tokens: Tokens, alterations: Alterations) -> None:
    dropped = term(tokens)
    alterations.spec.append(lambda e, names: _remove(e, dropped, names))


def _replace_partition(tokens: Tokens, alterations: Alterations) -> None:
    dropped = term(tokens)
    tokens.expect("WITH")
    added = named_term(tokens)
    alterations.spec.append(lambda e, names: _remove(e, dropped, names))
    alterations.spec.append(lambda e, names: e.add_field(names(added.source), added.transform, added.name))


def _remove(evolution: SpecEvolution, dropped: TransformTerm, names: Names) -> SpecEvolution:
    """A plain name is first looked up as a partition field, then as a column."""
    fields, column = {f.name for f in evolution.spec.fields}, names(dropped.source)
    is_column = evolution.schema.find(column, case_sensitive=False) is not None
    if dropped.transform.is_identity and (dropped.source in fields or not is_column):
        return evolution.remove_field(dropped.source)
    return evolution.remove_transform(column, dropped.transform)


def _rename_partition(tokens: Tokens, alterations: Alterations) -> None:
    name = tokens.name()
    tokens.expect("TO")
    new = tokens.name()
    alterations.spec.append(lambda e, _names: e.rename_field(name, new))


def _ordered(tokens: Tokens, alterations: Alterations) -> None:
    alterations.sort_keys = comma_separated(tokens, sort_key)


def _unordered(tokens: Tokens, alterations: Alterations) -> None:
    alterations.sort_keys = []


def _set_properties(tokens: Tokens, alterations: Alterations) -> None:
    tokens.expect("(")
    for key, value in comma_separated(tokens, _property):
        if key in alterations.properties:
            raise OptionError(f"{tokens.source!r}: property {key} is set twice, to {alterations.properties[key]!r} and {value!r}")
        alterations.properties[key] = value
    tokens.expect(")")


def _property(tokens: Tokens) -> tuple[str, str]:
    key = tokens.text()
    tokens.expect("=")
    return key, tokens.text()


def _unset_properties(tokens: Tokens, alterations: Alterations) -> None:
    tokens.expect("(")
    alterations.removed_properties += comma_separated(tokens, Tokens.text)
    tokens.expect(")")


_STEPS: tuple[tuple[tuple[str, ...], Callable[[Tokens, Alterations], None]], ...] = (
    (("ADD", "COLUMN"), _add_column),
    (("DROP", "COLUMN"), _drop_column),
    (("RENAME", "COLUMN"), _rename_column),
    (("ALTER", "COLUMN"), _alter_column),
    (("SET", "IDENTIFIER", "FIELDS"), _identifiers),
    (("ADD", "PARTITION", "FIELD"), _add_partition),
    (("DROP", "PARTITION", "FIELD"), _drop_partition),
    (("REPLACE", "PARTITION", "FIELD"), _replace_partition),
    (("RENAME", "PARTITION", "FIELD"), _rename_partition),
    (("WRITE", "ORDERED", "BY"), _ordered),
    (("WRITE", "UNORDERED"), _unordered),
    (("SET", "TBLPROPERTIES"), _set_properties),
    (("UNSET", "TBLPROPERTIES"), _unset_properties),
)
