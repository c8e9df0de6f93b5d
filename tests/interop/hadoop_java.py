"""Iceberg Java's HadoopCatalog in a JVM of its own, without Spark (``HadoopTables.java``)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.io.load import load_file_io
from tests.interop.lake import Lake

_MAIN = Path(__file__).with_name("HadoopTables.java")
_SPARK = Path(pyspark.__file__).parent / "jars"
"""They hold Hadoop, and what Iceberg's readers load."""


class HadoopJavaError(Exception):
    """Java refused a command; the text begins with the class of its exception."""


class HadoopJava:
    """One JVM. ``warehouse`` of a call is that of a catalog; its table is ``ns.t``. End it with ``close``."""

    def __init__(self, iceberg: Path, log: Path) -> None:
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        self._log = log.open("w")
        self._process = subprocess.Popen(
            ["java", *options, "-cp", f"{iceberg}:{_SPARK}/*", str(_MAIN)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip

    def tell(self, verb: str, warehouse: str, *words: object) -> None:
        """Give a command, whose answer is to be heard later."""
        assert self._process.stdin is not None
        print(verb, warehouse, *words, sep="\t", file=self._process.stdin, flush=True)

    def heard(self) -> list[str]:
        """The answer. Raises HadoopJavaError."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise HadoopJavaError(f"the Java side is gone: {Path(self._log.name).read_text()[-2000:]}")
        kind, *words = line.rstrip("\n").split("\t")
        if kind != "ok":
            raise HadoopJavaError("\t".join(words))
        return words

    def __call__(self, verb: str, warehouse: str, *words: object) -> list[str]:
        self.tell(verb, warehouse, *words)
        return self.heard()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._log.close()


def hadoop_lake(warehouse: str) -> Lake:
    """Our side of the table ``ns.t`` in a warehouse; it has no Java of Spark."""
    catalog = FileSystemCatalog("lake", load_file_io(), warehouse=warehouse)
    return Lake(None, catalog, "t")  # type: ignore[arg-type]
