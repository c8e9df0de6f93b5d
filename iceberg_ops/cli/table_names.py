"""The names of a catalog's tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_ops.catalog.catalog import Catalog


def names_that_begin(catalog: Catalog, begun: str, namespace: tuple[str, ...] = ()) -> Iterator[str]:
    """Full names of the tables below ``namespace`` that begin with the text; namespaces that cannot contain one are not listed."""
    for inner in catalog.list_namespaces(namespace):
        prefix = ".".join((catalog.name, *inner)) + "."
        if prefix.startswith(begun) or begun.startswith(prefix):
            yield from names_that_begin(catalog, begun, inner)
    for identifier in catalog.each_table(namespace) if namespace else ():
        if (name := ".".join((catalog.name, *identifier))).startswith(begun):
            yield name
