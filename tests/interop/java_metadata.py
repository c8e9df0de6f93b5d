"""Whether Iceberg Java can load metadata files: one plain JVM, without Spark, for any number of them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyspark

from iceberg_ops.io.locations import path_of

SOURCE = Path(__file__).parent / "ReadMetadata.java"


def why_unreadable(jars: Sequence[Path], locations: Sequence[str], folder: Path) -> dict[int, str]:
    """The places in ``locations`` of those that Java cannot load, each with its error. The files must not be compressed."""
    listed = folder / "metadata-files.txt"
    listed.write_text("".join(f"{path_of(location)}\n" for location in locations), "utf-8")
    path = ":".join([*map(str, jars), f"{Path(pyspark.__file__).parent / 'jars'}/*"])
    command = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", path, str(SOURCE), str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    *refused, last = done.stdout.splitlines()
    assert last == f"read {len(locations)}", done.stdout + done.stderr
    return {int(place): why for place, why in (line.split("\t", 1) for line in refused)}
