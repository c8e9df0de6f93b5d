"""Where a REST catalog's things are: paths below the server's address.

Names are percent-encoded level by level, whatever is in them. A name of dots alone is none: clients and servers take ``.`` and
``..`` out of a path, so that another thing would be asked for. Between the levels of a namespace is what the server asks for;
where a level has that in it, the unit separator, which every server takes.
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
    """``prefix`` is as the server gave it, and so is ``separator``."""

    uri: str
    prefix: str = ""
    separator: str = UNIT_SEPARATOR

    def _at(self, *parts: str) -> str:
        return "/".join((self.uri, "v1", *([self.prefix] if self.prefix else []), *parts))

    def can_name(self, levels: Sequence[str]) -> bool:
        """Whether the server can be asked for such a name."""
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
