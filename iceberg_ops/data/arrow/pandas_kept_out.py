"""Keeps pandas out of processes of this package: if it is installed, Arrow imports it at its first array, for half a second.

Only for processes of this package (the command line, pool workers); in a user's process Arrow needs pandas. This module imports
nothing, so a process without arrays pays nothing.
"""

from __future__ import annotations

import sys


def keep_pandas_out() -> None:
    """After this, pandas cannot be imported in this process, unless it is already loaded."""
    if "pandas" not in sys.modules and _NoPandas not in sys.meta_path:
        sys.meta_path.insert(0, _NoPandas)


class _NoPandas:
    """An import finder that hides pandas, and leaves every other module to the next finder."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("kept out", name=name)
