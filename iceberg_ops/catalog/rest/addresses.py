"""Paths of a REST catalog's resources, below the server's address.

Names are percent-encoded level by level, whatever they contain. A name that consists of dots is invalid: clients and servers remove
``.`` and ``..`` from a path, so the request would go to another resource. The server defines the separator of namespace levels;
if a level contains it, the unit separator is used, which every server accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.names import can_be_stored
from iceberg_ops.catalog.rest.settings import UNIT_SEPARATOR


def _encoded(name: str) -> str:
    return quote(name, safe="")


@dataclass(frozen=True, slots=True)
class Addresses:
    """``prefix`` and ``separator`` are as the server gave them."""

    uri: str
    prefix: str = ""
    separator: str = UNIT_SEPARATOR

    def _at(self, *parts: str) -> str:
        return "/".join((self.uri, "v1", *([self.prefix] if self.prefix else []), *parts))

    def can_name(self, levels: Sequence[str]) -> bool:
        """Whether a request can contain such a name."""
        return can_be_stored(levels) and all(level.strip(".") and UNIT_SEPARATOR not in level for level in levels)

    def joined(self, namespace: Sequence[str]) -> str:
        """A namespace as the value of a parameter."""
        return self._between(namespace).join(namespace)

    def _between(self, namespace: Sequence[str]) -> str:
        return UNIT_SEPARATOR if any(self.separator in level for level in namespace) else self.separator

    @property
    def namespaces(self) -> str:
        return self._at("namespaces")

    def namespace(self, namespace: Sequence[str]) -> str:
        return self._at("namespaces", _encoded(self._between(namespace)).join(map(_encoded, namespace)))

    def tables(self, namespace: Sequence[str]) -> str:
        return f"{self.namespace(namespace)}/tables"

    def table(self, identifier: Identifier) -> str:
        return f"{self.tables(identifier[:-1])}/{_encoded(identifier[-1])}"

    def register(self, namespace: Sequence[str]) -> str:
        return f"{self.namespace(namespace)}/register"

    @property
    def rename(self) -> str:
        return self._at("tables", "rename")
