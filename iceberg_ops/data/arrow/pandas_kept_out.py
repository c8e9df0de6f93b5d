"""Keeps pandas out of our own processes: Arrow imports it at its first array where it is installed, half a second for nothing.

For processes that are ours alone (the command line, pool workers); in a user's process Arrow has to know pandas. Imports nothing,
so that whoever never makes an array pays nothing.
"""

from __future__ import annotations

import sys


def keep_pandas_out() -> None:
    """From now on pandas cannot be found in this process, unless it is there already."""
    if "pandas" not in sys.modules and _NoPandas not in sys.meta_path:
        sys.meta_path.insert(0, _NoPandas)


class _NoPandas:
    """A finder that knows of no pandas, and leaves every other module to the next."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("kept out", name=name)
