"""Names that are valid in Avro: only letters, digits and ``_``, and distinct within a record.

Readers match fields by id, so a changed name does no harm; the original is stored beside it as
``iceberg-field-name``.
"""

from __future__ import annotations

from collections.abc import Iterable

from iceberg_ops.spec.types import NestedField


def sanitized(name: str) -> str:
    """``name`` as an Avro name: a character that is not an ASCII letter, digit or ``_`` becomes ``_x`` and its UTF-16 code in
    hex."""
    out = []
    for index, char in enumerate(name):
        if char.isascii() and (char.isalnum() or char == "_"):
            out.append("_" + char if index == 0 and char.isdigit() else char)
        else:
            raw = char.encode("utf-16-be", "surrogatepass")
            out += [f"_x{int.from_bytes(raw[i : i + 2], 'big'):X}" for i in range(0, len(raw), 2)]
    return "".join(out) or "_"


def unique(name: str, field_id: int, taken: set[str]) -> str:
    """``name``, with the field's id appended if it is among ``taken``. The result is added to ``taken``."""
    while name in taken:
        name = f"{name}_{field_id}"
    taken.add(name)
    return name


def record_names(fields: Iterable[NestedField]) -> tuple[str, ...]:
    """The Avro names of a record's fields. Two columns with equal sanitized names ("1" and "_1") get distinct ones."""
    taken: set[str] = set()
    return tuple(unique(sanitized(f.name), f.field_id, taken) for f in fields)
