"""The error for a table that a catalog does not have; it lists similar tables."""

from __future__ import annotations

import logging
from itertools import islice

from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.errors import IcebergOpsError, NoSuchNamespaceError, NoSuchTableError
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

_SHOWN = 10
_LOOKED_AT = 1_000
"""Names among which a similar one is looked for: listing a large namespace takes long."""


def load_named(catalog: Catalog, identifier: Identifier) -> Table:
    """The table with the given name. Raises the errors of ``load_table``; if the table does not exist, the message lists the tables
    of its namespace, or the namespaces."""
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError as e:
        hint = _hint(catalog, identifier)
        raise NoSuchTableError(f"{e}{hint}") from None


def _hint(catalog: Catalog, identifier: Identifier) -> str:
    namespace = identifier[:-1]
    try:
        try:
            some = sorted(set(islice(catalog.each_table(namespace), _LOOKED_AT)))
            candidates, holder, kind = some, f"namespace {'.'.join(namespace)}", "table"
        except NoSuchNamespaceError:
            candidates, holder, kind = catalog.list_namespaces(), f"catalog {catalog.name}", "namespace"
            identifier = identifier[:1]
    except (IcebergOpsError, OSError) as e:
        log.info("what is in catalog %s instead could not be listed: %s", catalog.name, e)
        return ""
    names = [".".join(name) for name in candidates]
    if not names:
        return f": {holder} has no {kind}"
    left = len(names) - _SHOWN
    at_least = "at least " if len(names) >= _LOOKED_AT else ""
    more = f" and {at_least}{left} more" if left > 0 else ""
    shown = f"{'the namespaces ' if kind == 'namespace' else ''}{', '.join(names[:_SHOWN])}{more}"
    return f"{did_you_mean('.'.join(identifier), names)}: {holder} has {shown}"
