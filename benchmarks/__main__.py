"""``python -m benchmarks [NAME]``: run one benchmark, or all of them.

A benchmark is a module of this package with ``run() -> Iterable[dict]`` (records of ``benchmarks.records``), written to a file with
its name. A module with ``LINES`` has several lines of work; each can also be run by its own name (``run([line])``) and is written
to its own file.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.records import write_records

NOT_BENCHMARKS = {"__main__", "records"}


def main(names: list[str]) -> int:
    modules = sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name not in NOT_BENCHMARKS)
    loaded = {name: import_module(f"benchmarks.{name}") for name in modules}
    known = {name: module for name, module in loaded.items() if hasattr(module, "run")}
    lines = {line: module for module in known.values() for line in getattr(module, "LINES", ())}
    if unknown := [name for name in names if name not in known and name not in lines]:
        sys.stderr.write(f"no benchmark {unknown[0]!r}: there are {', '.join([*known, *lines])}\n")
        return 1
    for name in names or known:
        if name in known:
            _write(name, known[name].run(), by_line=hasattr(known[name], "LINES"))
        else:
            _write(name, lines[name].run([name]), by_line=True)
    return 0


def _write(name: str, records: Iterable[dict[str, Any]], *, by_line: bool) -> None:
    done = []
    for found in records:
        done.append(found)
        print(json.dumps(found), flush=True)
        if by_line:
            print(write_records(found["name"], [found]), flush=True)
    if not by_line:
        print(write_records(name, done), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
