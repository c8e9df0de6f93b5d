"""Time and randomness of the torture world: each I/O step takes a second, names come from the seed, and nobody sleeps.

So leases, ages and intervals of writers have the same meaning in the world as outside, and a seed is a schedule. Product code is
unchanged: it uses ``time``, ``uuid`` and ``secrets`` as usual.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy.random  # noqa: F401 - it draws numbers when it is imported

import iceberg_ops
from iceberg_ops.commit.protocol import ledger as commit_ledger
from iceberg_ops.data.deletes import delete_keys
from iceberg_ops.data.writing import file_names
from iceberg_ops.io import far_files, load
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.serde.avro import avro_container
from iceberg_ops.serde.json import metadata_json
from iceberg_ops.serde.manifests import manifest_encoding
from iceberg_ops.table import metadata_files
from iceberg_ops.table.manifests import CACHE
from tests.torture.faults import calls_out
from tests.torture.spelled_uuids import uuids_in_both_cases
from tests.torture.stepping import WAITING, boundary

BEGIN_MS = 1_900_000_000_000
STEP_MS = 1_000
_PACKAGES = ("actions", "catalog", "commit", "data", "deletion", "planning", "scan")


class Clock:
    """Milliseconds since the epoch, in the world."""

    def __init__(self) -> None:
        self.ms = BEGIN_MS

    def __call__(self) -> int:
        return self.ms

    def nanoseconds(self) -> int:
        return self.ms * 1_000_000

    def seconds(self) -> float:
        return self.ms / 1000


@contextmanager
def laws(
    names: random.Random,
    clock: Clock,
    store: Callable[[], FileIO],
    *,
    impl: str,
    ledger: int | None = None,
    rolled: bool = False,
    uuids_differ: bool = False,
) -> Iterator[None]:
    """Within this context times come from ``clock``, generated names and numbers from ``names``; other processes' work finds
    ``store`` by its io-impl ``impl``. ``ledger``: the number of run keys kept besides those of snapshots; None: the default.
    ``rolled``: a manifest that has reached its target size is closed at once, not with its next block. ``uuids_differ``: versions
    spell the table's uuid in different case."""

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=names.getrandbits(128), version=4)

    with ExitStack() as stack:
        patches: list[Any] = [
            mock.patch.object(uuid, "uuid4", uuid4),
            mock.patch.object(secrets, "randbits", names.getrandbits),
            *(mock.patch.object(module, "os", SimpleNamespace(urandom=names.randbytes)) for module in (avro_container, file_names)),
            mock.patch.object(file_names, "_MAKERS", file_names._Makers()),
            mock.patch.object(time, "time_ns", clock.nanoseconds),
            mock.patch.object(time, "time", clock.seconds),
            *(mock.patch.object(module, "ThreadPoolExecutor", Inline) for module in _threaded()),
            mock.patch.object(delete_keys, "_KEPT", _kept_keys()),
            mock.patch.object(metadata_files, "metadata_from_json", _parsed_once(metadata_json.metadata_from_json)),
            mock.patch.object(commit_ledger, "LEDGER_SIZE", ledger or commit_ledger.LEDGER_SIZE),
            *([uuids_in_both_cases()] if uuids_differ else []),
            *([mock.patch.object(manifest_encoding, "_BLOCK_BYTES", 1)] if rolled else []),
            mock.patch.dict(load._STORES, {impl: lambda _: store()}),
            calls_out(),
        ]
        for patch in patches:
            stack.enter_context(patch)
        forget_files()
        yield


def forget_files() -> None:
    """Clears the package's caches of file contents: outside this world files never change, but here a file name may be used again.
    Also restarts the generation of names."""
    CACHE.clear()
    file_names._MAKERS.begin()
    delete_keys._KEPT = _kept_keys()


@lru_cache(maxsize=1)
def _threaded() -> list[ModuleType]:
    """Modules that use thread pools."""
    packages = [importlib.import_module(f"{iceberg_ops.__name__}.{package}") for package in _PACKAGES]
    names = [module.name for package in packages for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    modules = map(importlib.import_module, names)
    return [far_files, *(module for module in modules if hasattr(module, "ThreadPoolExecutor"))]


def _kept_keys() -> delete_keys._Kept:
    """A cache for this world's delete keys only, with locks that a writer waits for in steps, because all writers share one
    thread."""
    return delete_keys._Kept(SteppedLock)  # type: ignore[arg-type]


def _parsed_once(parse: Callable[[bytes, str], Any]) -> Callable[[bytes, str], Any]:
    """A cache of parsed metadata by its bytes: parsing it again at every load would be half of the CPU time here."""
    known: dict[tuple[bytes, str], Any] = {}

    def parsed(data: bytes, location: str) -> Any:
        key = (data, location)
        if key not in known:
            known[key] = parse(data, location)
        return known[key]

    return parsed


class Inline(Executor):
    """Runs submitted work at once: the steps of real threads would be neither observed nor in the seed's order."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as e:  # noqa: BLE001 - whoever asks for the answer gets it
            done.set_exception(e)
        return done


class SteppedLock:
    def __init__(self) -> None:
        self.held = False

    def acquire(self) -> None:
        while self.held:
            boundary(WAITING)
        self.held = True

    def release(self) -> None:
        self.held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
