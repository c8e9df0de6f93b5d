"""The modules that a child of the fork server needs, imported once by the server: a child then starts in milliseconds, and there
are hundreds.

Imported for its effect. Arrow would import pandas at its first array, in each child again; so pandas is excluded first.
"""

from __future__ import annotations

import importlib
import pkgutil

from iceberg_ops.data.arrow.pandas_kept_out import keep_pandas_out

keep_pandas_out()

import iceberg_ops  # noqa: E402

for _package in ("actions", "catalog", "commit", "data", "io", "planning", "serde"):
    _floor = importlib.import_module(f"{iceberg_ops.__name__}.{_package}")
    for _module in pkgutil.walk_packages(_floor.__path__, f"{_floor.__name__}."):
        importlib.import_module(_module.name)
for _name in ("sqlalchemy.dialects.sqlite", "sqlite3", "pyarrow.parquet"):
    importlib.import_module(_name)
