"""Storage of a world's files: in memory, or on a disk, in S3 or in HDFS, where one location has many spellings.

A disk is a folder in memory if the system has one: the test concerns names, not the hardware. Files get the world's time.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.memory import MemoryFileIO
from tests.torture.aliased import in_hdfs, in_s3, place_in_hdfs, place_in_s3
from tests.torture.clock import Clock

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_STORES = iter(range(10**9))
_SCHEME = re.compile(r"file:(?://(?:localhost)?(?=/))?")


PERCENT = "%"
"""The place that its last letter, percent-encoded, gives: it is another place, which some engines take for the first."""
S3_SCHEMES = ("s3a://", "s3n://")
HDFS_PREFIXES = ("hdfs://nn", "hdfs:", "hdfs://", "", "viewfs://mounts/lake")
"""What comes before a path in HDFS; the mount table has the warehouse at its folder ``lake``."""


def percent(location: str) -> str:
    return f"{location[:-1]}%{ord(location[-1]):02x}"


def with_dots(location: str, how: str) -> str:
    """Another spelling of the same path, unchanged for other kinds of spellings."""
    parent, _, name = location.rpartition("/")
    return {"//": f"{parent}//{name}", "/./": f"{parent}/./{name}", "/../": f"{parent}/../{posixpath.basename(parent)}/{name}"}.get(
        how, location
    )


class Storage(Protocol):
    """``io`` is the store itself, without steps; ``warehouse`` its root. ``identity`` is equal for two spellings of one place."""

    io: Any
    warehouse: str

    def identity(self, location: str) -> str: ...
    def spell(self, location: str, how: str) -> str: ...
    def written(self, location: str) -> None: ...
    def age(self, location: str, modified_ms: int) -> None: ...
    def below(self, location: str) -> list[str]: ...
    def close(self) -> None: ...


class InMemory:
    """Places have one spelling."""

    warehouse = "memory://wh"

    def __init__(self, clock: Clock) -> None:
        self.io: Any = MemoryFileIO(f"torture-{next(_STORES)}", clock=clock.seconds)

    def identity(self, location: str) -> str:
        return location

    def spell(self, location: str, how: str) -> str:
        return percent(location) if how == PERCENT else location

    def written(self, location: str) -> None:
        return None

    def age(self, location: str, modified_ms: int) -> None:
        self.io.set_modified_ms(location, modified_ms)

    def below(self, location: str) -> list[str]:
        return [info.location for info in self.io.list_prefix(location)]

    def close(self) -> None:
        self.io.clear()


class InS3(InMemory):
    """A key is one object in every scheme; ``a//b`` and ``a/b`` are two."""

    warehouse = "s3://lake/wh"

    def __init__(self, clock: Clock) -> None:
        self.io = in_s3(f"torture-{next(_STORES)}", clock.seconds)

    def identity(self, location: str) -> str:
        return place_in_s3(location)

    def spell(self, location: str, how: str) -> str:
        return percent(location) if how == PERCENT else location.replace("s3://", how if how in S3_SCHEMES else "s3://", 1)


class InHdfs(InMemory):
    """One cluster, which writers name with and without its port or not at all, or by a mount table."""

    warehouse = "hdfs://nn:8020/user/wh"

    def __init__(self, clock: Clock) -> None:
        self.io = in_hdfs(f"torture-{next(_STORES)}", clock.seconds)

    def identity(self, location: str) -> str:
        return place_in_hdfs(location)

    def spell(self, location: str, how: str) -> str:
        if how == PERCENT:
            return percent(location)
        if how in HDFS_PREFIXES:
            return how + place_in_hdfs(location).removeprefix(self.warehouse if how.endswith("lake") else "hdfs://nn:8020")
        return with_dots(location, how)


class OnDisk:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._root = tempfile.mkdtemp(prefix="torture-", dir=IN_MEMORY)
        self.warehouse = f"{self._root}/wh"
        self._link = f"{self._root}/link"
        Path(self.warehouse).mkdir()
        Path(self._link).symlink_to(self.warehouse)
        self.io = LocalFileIO()
        self.identity = lru_cache(maxsize=None)(self._identity)

    def _identity(self, location: str) -> str:
        path = posixpath.normpath(_SCHEME.sub("", location, count=1))
        path = "/" + path.lstrip("/")
        return self.warehouse + path.removeprefix(self._link) if path.startswith(self._link + "/") else path

    def spell(self, location: str, how: str) -> str:
        """Another spelling of the same location, which must exist for ``/../``; ``PERCENT`` is another location."""
        if how in ("plain", PERCENT):
            return percent(location) if how == PERCENT else location
        if how == "link":
            return location.replace(self.warehouse, self._link, 1)
        spelled = with_dots(location, how)
        return spelled if spelled != location else f"{how.removesuffix('/') if how.endswith('//') else how}{location}"

    def written(self, location: str) -> None:
        self.age(location, self._clock.ms)

    def age(self, location: str, modified_ms: int) -> None:
        moment = modified_ms * 1_000_000
        os.utime(self.identity(location), ns=(moment, moment))

    def below(self, location: str) -> list[str]:
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.identity(location)) for name in names]

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)


STORES: dict[str, type[Storage]] = {"memory": InMemory, "disk": OnDisk, "s3": InS3, "hdfs": InHdfs}
