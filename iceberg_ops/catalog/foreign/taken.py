"""Converts a catalog of another program's configuration.

Names that both programs have are kept. Settings without effect here are reported by name, never by value, because a value may be a
secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iceberg_ops.config.catalog_properties import unread
from iceberg_ops.config.job_spec import CATALOG_TYPES, CatalogConfig
from iceberg_ops.errors import OptionError


class UnusableCatalog(Exception):
    """This package cannot use the catalog; the text says why."""


@dataclass(frozen=True, slots=True)
class ForeignCatalog:
    """``source``: where it is configured. ``config`` None: it cannot be used, and ``refused`` says why."""

    name: str
    source: str
    config: CatalogConfig | None
    refused: str = ""
    notes: tuple[str, ...] = ()

    def usable(self) -> CatalogConfig:
        """Raises OptionError with the reason if it cannot be used."""
        if self.config is None:
            raise OptionError(f"catalog {self.name!r} of {self.source} cannot be used: {self.refused}")
        return self.config


def taken(name: str, source: str, kind: str, properties: Mapping[str, str], notes: Sequence[str]) -> ForeignCatalog:
    """The catalog with the properties that have a value. Unused properties are reported, and left out: the other program ignores
    a misspelt property too, so both use the same lake."""
    if kind not in CATALOG_TYPES:
        return unusable(name, source, f"a catalog of type {kind!r} is not supported")
    given = {key: value for key, value in properties.items() if value.strip()}
    without_effect = unread(kind, given)
    try:
        config = CatalogConfig(
            name=name, type=kind, properties={key: value for key, value in given.items() if key not in without_effect}
        )
    except OptionError as e:
        return unusable(name, source, str(e))
    return ForeignCatalog(name, source, config, notes=(*notes, *(f"{key} has no effect here" for key in without_effect)))


def unusable(name: str, source: str, why: str) -> ForeignCatalog:
    """A catalog that is there, and cannot be used."""
    return ForeignCatalog(name, source, None, refused=why)
