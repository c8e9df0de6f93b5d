"""How many files a writer may keep open at a time.

A fan-out writer has a file per partition, and a process has a limit on file descriptors (``ulimit -n``, often 1,024). The rest of
the process needs descriptors as well: input files, sorted runs, connections, other writers.
"""

from __future__ import annotations

import resource

_SHARE = 4
"""One writer takes a quarter: an upsert has two writers, and threads that rewrite deletes have one each."""
_FEWEST, _MOST = 8, 8192
"""An open Parquet file takes about 30 KiB of memory, so 8,192 take 240 MiB."""


def most_open_files() -> int:
    """The limit for a writer of this process."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if limit == resource.RLIM_INFINITY else min(_MOST, max(_FEWEST, limit // _SHARE))
