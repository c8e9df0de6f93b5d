"""The Python process that a task runs in, rid of what PySpark spends on every task whatever it does.

Before each task a worker drops its import caches, for which Python reads the directories of all zip archives on its path again
(pyspark.zip alone: 90 ms on Python 3.11), and after each it looks through all objects for cycles, those of every module loaded
among them (20 ms). Neither is of use in a process whose modules are loaded once, so tasks here pay for it once.
"""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter

import pyarrow as pa


def begin_task() -> None:
    """Called first by every Python task: Arrow takes one thread, as Spark gives a task one core, and the next task starts fast."""
    pa.set_cpu_count(1)
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            # A cache: whoever imports from there finds the archive again, and its directory in zipimport's own cache.
            sys.path_importer_cache.pop(path, None)
    if not gc.get_freeze_count():
        gc.freeze()
