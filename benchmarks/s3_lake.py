"""A lake in an S3 store of this machine (versitygw) behind two proxies, one for each side, that count requests and delay each.

Iceberg Java reaches it by its S3FileIO, in Spark or by its core API in a JVM of its own (``CoreApi``, ``java/Stores.java``).
``make servers`` gets the store, ``make jars`` Java's jars.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commit_java import class_path
from benchmarks.delaying_proxy import DelayingProxy, delaying_proxy
from benchmarks.java_peer import CATALOG, SharedLake, Storage
from iceberg_ops.config.job_spec import CatalogConfig
from tests.servers.stores import versitygw

_BUNDLE = Path(__file__).parent.parent / "build" / "jars" / "aws"
_SOURCE = Path(__file__).parent / "java" / "Stores.java"


@dataclass(frozen=True, slots=True)
class S3:
    """A running store. ``objects``: the folder in which it keeps its bucket's objects as files."""

    storage: Storage
    ours: DelayingProxy
    theirs: DelayingProxy
    objects: Path

    def config(self, folder: Path, storage: Mapping[str, str]) -> CatalogConfig:
        """The catalog in ``folder``, its tables in the store reached by ``storage``."""
        properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": self.storage.warehouse, **storage}
        return CatalogConfig(name=CATALOG, type="sql", properties=properties)


@contextmanager
def running_s3(folder: Path) -> Iterator[S3]:
    """The store, with its files in ``folder``. Ends the program if Java's jars are missing."""
    with ExitStack() as until_the_end:
        store = until_the_end.enter_context(versitygw(folder))
        ours, theirs = (until_the_end.enter_context(delaying_proxy(store.port)) for _ in range(2))
        java = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.path-style-access": "true"}
        storage = Storage(
            warehouse=f"{store.root}/wh",
            direct=store.properties,
            ours=store.behind(ours.endpoint).properties,
            theirs={**store.behind(theirs.endpoint).properties, **java},
            jars=bundle(),
        )
        yield S3(storage, ours, theirs, folder / "data" / store.root.removeprefix("s3://"))


def bundle() -> list[Path]:
    """Amazon's client for Java. Ends the program if it is missing."""
    if not (found := sorted(_BUNDLE.glob("iceberg-aws-bundle-*.jar"))):
        raise SystemExit(f"Iceberg's bundle for AWS is not in {_BUNDLE}: `make jars` gets it")
    return found


class S3Lake(SharedLake):
    """A lake with a Spark session whose tables lie in the store."""

    def __init__(self, folder: Path, s3: S3) -> None:
        self.s3 = s3
        super().__init__(folder, s3.storage)


class CoreApi:
    """Iceberg Java's core API in a JVM of its own, on the catalog in ``folder``. Use in a ``with`` block."""

    def __init__(self, folder: Path, s3: S3) -> None:
        jars = class_path()
        if jars is None:
            raise SystemExit("Iceberg Java cannot run: it needs a JDK and the jars of `make jars`")
        properties = {"uri": f"jdbc:sqlite:file:{folder}/catalog.db", "jdbc.schema-version": "V1"}
        properties |= {"warehouse": s3.storage.warehouse, **s3.storage.theirs}
        command = ["java", "-Xmx1g", "-cp", os.pathsep.join([jars, *map(str, bundle())]), str(_SOURCE)]
        self._log = (folder / "java.log").open("w")
        self._process = subprocess.Popen(
            [*command, *(f"{key}={value}" for key, value in properties.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> CoreApi:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def work(self, what: str, table: str) -> tuple[float, int]:
        """Seconds, and what was found."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what} {table}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                found = json.loads(line)
                return float(found["s"]), int(found["found"])
        raise SystemExit(f"Iceberg Java failed at {what} {table}: {Path(self._log.name).read_text()[-2000:]}")


def made_old(folder: Path, days: int) -> None:
    """Objects are as old as their files."""
    then = time.time() - days * 24 * 3600
    for found in folder.rglob("*"):
        os.utime(found, (then, then))
