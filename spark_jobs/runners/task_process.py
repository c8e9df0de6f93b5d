"""Avoids PySpark's fixed cost per task in the Python process of a task.

Before each task a worker drops its import caches, so Python reads the directories of all zip archives on its path again
(pyspark.zip alone: 90 ms on Python 3.11). After each task it searches all objects for cycles, including those of every loaded
module (20 ms). Neither is useful in a process whose modules are loaded once, so each Python process does it only once.
"""

from __future__ import annotations

import gc
import sys
from functools import cache
from zipimport import zipimporter

import pyarrow as pa


def begin_task() -> None:
    """Every Python task calls this first: Arrow uses one thread, because Spark gives a task one core, and the next task starts
    fast."""
    pa.set_cpu_count(1)
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            # Only a cache: an import from there finds the archive again, and its directory in zipimport's own cache.
            sys.path_importer_cache.pop(path, None)
    _freeze_once()


@cache
def _freeze_once() -> None:
    """Not counted before each task: the count reads all frozen objects, which takes as long as what it saves."""
    if not gc.get_freeze_count():
        gc.freeze()
