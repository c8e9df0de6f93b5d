"""``python -m benchmarks [NAME]``: run one benchmark, or all of them.

A benchmark is a module of this package with ``run() -> list[dict]`` (records of ``benchmarks.records``).
"""

from __future__ import annotations

import json
import pkgutil
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.records import write_records

NOT_BENCHMARKS = {"__main__", "records"}


def main(names: list[str]) -> int:
    known = sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name not in NOT_BENCHMARKS)
    if unknown := [name for name in names if name not in known]:
        sys.stderr.write(f"no benchmark {unknown[0]!r}: there are {', '.join(known)}\n")
        return 1
    for name in names or known:
        module = import_module(f"benchmarks.{name}")
        if not hasattr(module, "run"):
            continue
        records = module.run()
        path = write_records(name, records)
        for found in records:
            sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
