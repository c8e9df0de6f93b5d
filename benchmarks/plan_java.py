"""Iceberg Java's side of the planning benchmark: ``java/Plans.java``, run as a source file in a separate JVM, warm.

It has the same requirements as ``commit_java``; without them there is no such peer.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks.commit_java import class_path

SOURCE = Path(__file__).parent / "java" / "Plans.java"


def java_figures(metadata_location: str, *, half: int, day: int, warm_up: int, repeats: int) -> dict[str, tuple[float, int]]:
    """Seconds of the fastest run and files found, by the name of the work. Empty if Java cannot run."""
    jars = class_path()
    if jars is None:
        return {}
    command = ["java", "-Xmx2g", "-cp", jars, str(SOURCE), metadata_location, str(half), str(day), str(warm_up), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Iceberg Java failed: {done.stderr[-2000:]}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {f["work"]: (f["s"], f["files"]) for f in found}
