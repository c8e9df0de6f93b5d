"""The full name of a table in commands and documents: ``catalog.namespace.name``, with a namespace of one or more levels."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_ops.errors import OptionError


@dataclass(frozen=True, slots=True)
class TableName:
    """``catalog``, and the table's ``identifier`` in it: the levels of its namespace, followed by its name."""

    catalog: str
    identifier: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, what: str = "table") -> TableName:
        """The name in ``text``. Raises OptionError, which names the field ``what``, for a name that is incomplete or has a blank
        part."""
        catalog, *identifier = text.split(".")
        if len(identifier) < 2 or not all(part.strip() for part in (catalog, *identifier)):
            raise OptionError(f"{what} {text!r} must be catalog.namespace.name")
        return cls(catalog, tuple(identifier))
