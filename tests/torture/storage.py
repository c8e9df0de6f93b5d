"""Storage of a world's files: in memory, or on a disk on which one location has many spellings.

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
from tests.torture.clock import Clock

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_STORES = iter(range(10**9))
_SCHEME = re.compile(r"file:(?://(?:localhost)?(?=/))?")


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
        self.io = MemoryFileIO(f"torture-{next(_STORES)}", clock=clock.seconds)

    def identity(self, location: str) -> str:
        return location

    def spell(self, location: str, how: str) -> str:
        return location

    def written(self, location: str) -> None:
        return None

    def age(self, location: str, modified_ms: int) -> None:
        self.io.set_modified_ms(location, modified_ms)

    def below(self, location: str) -> list[str]:
        return [info.location for info in self.io.list_prefix(location)]

    def close(self) -> None:
        self.io.clear()


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
        """Another spelling of the same location, which must exist for ``/../``."""
        parent, _, name = location.rpartition("/")
        texts = {
            "plain": location,
            "//": f"{parent}//{name}",
            "/./": f"{parent}/./{name}",
            "/../": f"{parent}/../{posixpath.basename(parent)}/{name}",
            "link": location.replace(self.warehouse, self._link, 1),
        }
        return texts.get(how) or f"{how.removesuffix('/') if how.endswith('//') else how}{location}"

    def written(self, location: str) -> None:
        self.age(location, self._clock.ms)

    def age(self, location: str, modified_ms: int) -> None:
        moment = modified_ms * 1_000_000
        os.utime(self.identity(location), ns=(moment, moment))

    def below(self, location: str) -> list[str]:
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.identity(location)) for name in names]

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
