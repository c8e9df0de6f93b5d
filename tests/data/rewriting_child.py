"""A process that runs one ``GroupWork`` (JSON on standard input) and reports its memory.

Prints the peak resident bytes before and after the work, and the work's rows and spilled runs, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys

import pyarrow as pa

from iceberg_ops.data.rewriting.group_work import GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group


def most_resident() -> int:
    """Bytes, the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    work = GroupWork.from_json(sys.stdin.read())
    pa.set_cpu_count(1)
    # Freed pages go back to the system: what counts is what is held.
    pa.set_memory_pool(pa.system_memory_pool())
    before = most_resident()
    result = rewrite_group(work)
    print(json.dumps({"before": before, "after": most_resident(), "rows": result.rows_out, "runs": len(result.spilled_runs)}))


if __name__ == "__main__":
    main()
