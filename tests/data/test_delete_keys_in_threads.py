"""Threads that need different delete keys read them in parallel, threads that need the same key read it once; together they stay
within the memory limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.deletes import delete_keys
from iceberg_ops.data.deletes.delete_keys import DeleteKeys, load_delete_keys
from iceberg_ops.data.deletes.key_memory import Share
from iceberg_ops.data.formats import any_format as formats
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.data.files import batch_of, new_io, write_context

SCHEMA = Schema.of(NestedField(1, "id", LONG))
CONTEXT = ReadContext(table_schema=SCHEMA, projected=SCHEMA)
KEYS, KEY_BYTES, PATIENCE = 100, 9, 30
"""Bytes of a key: a long, and a bit of its being there."""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> delete_keys._Kept:
    found = delete_keys._Kept()
    monkeypatch.setattr(delete_keys, "_KEPT", found)
    return found


def key_set(io: FileIO, name: str, files: int = 1) -> list[DeleteFile]:
    """``KEYS`` keys in each of so many files."""
    context = write_context(SCHEMA, version=2)
    rows = [[(n * KEYS + i,) for i in range(KEYS)] for n in range(files)]
    return [
        DeleteFile(f, 2)
        for n in range(files)
        for f in write_equality_deletes(io, context, (1,), [batch_of(SCHEMA, rows[n])], operation_id=f"{name}{n}")
    ]


def when_opened(monkeypatch: pytest.MonkeyPatch, told: Callable[[str], object]) -> list[str]:
    """Delete files that are opened, in order; each is reported first."""
    opened: list[str] = []
    real = formats.open_file

    def noting(io: FileIO, path: str, *rest: Any) -> Any:
        opened.append(path)
        told(path)
        return real(io, path, *rest)

    monkeypatch.setattr(delete_keys, "open_file", noting)
    return opened


def in_threads(io: FileIO, sets: list[list[DeleteFile]]) -> list[DeleteKeys]:
    with ThreadPoolExecutor(len(sets)) as pool:
        return list(pool.map(lambda found: load_delete_keys(io, found, CONTEXT), sets))


def test_different_sets_are_read_at_the_same_time(kept: delete_keys._Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    io = new_io()
    sets = [key_set(io, f"set{n}") for n in range(3)]
    together = threading.Barrier(3, timeout=PATIENCE)
    when_opened(monkeypatch, lambda _: together.wait())
    found = in_threads(io, sets)
    assert [len(keys.few) for keys in found] == [1, 1, 1]
    assert not kept._turns
    assert not kept._memory.held


def test_threads_that_need_one_set_read_it_once(kept: delete_keys._Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    io = new_io()
    needed = key_set(io, "one", files=2)
    asked = threading.Barrier(2, timeout=PATIENCE)
    turn = kept._turn

    def asking(key: Any) -> Any:
        asked.wait()  # both have found that the set is not known
        return turn(key)

    monkeypatch.setattr(kept, "_turn", asking)
    opened = when_opened(monkeypatch, lambda _: None)
    first, second = in_threads(io, [needed, needed])
    assert sorted(opened) == sorted(d.file_path for d in needed)
    assert first.few[0] is second.few[0]


def test_sets_too_large_beside_one_another_are_read_one_after_the_other(
    kept: delete_keys._Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 3 * KEYS * KEY_BYTES  # either set fits, of two files each; both together do not
    monkeypatch.setattr(delete_keys, "AT_ONCE_BYTES", limit)
    io = new_io()
    sets = [key_set(io, f"set{n}", files=2) for n in range(2)]
    together = threading.Barrier(2, timeout=PATIENCE)
    opened = when_opened(monkeypatch, lambda _: None)
    take, held, whole = Share.take, [0], list[bool]()

    def noting(share: Share, bytes_: int, most: int) -> bool:
        fits = take(share, bytes_, most)
        held.append(share._memory.held)
        if share.bytes > bytes_ and len(whole) < 2:  # the set's second file, while the other thread holds its own
            whole.append(fits)
            together.wait()
        return fits

    monkeypatch.setattr(Share, "take", noting)
    found = in_threads(io, sets)
    assert [len(keys.few) for keys in found] == [1, 1]
    assert sorted(whole) == [False, True]
    assert len(opened) == 6, "one set was begun again"
    assert max(held) <= limit + KEYS * KEY_BYTES
    assert not kept._memory.held


def test_a_set_that_can_not_be_read_fails_its_readers_and_blocks_nobody(
    kept: delete_keys._Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = new_io()
    needed = key_set(io, "one")

    def refuse(_: str) -> None:
        raise OSError("no such disk")

    with monkeypatch.context() as patch:
        when_opened(patch, refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="no such disk"):
                load_delete_keys(io, needed, CONTEXT)
    assert len(load_delete_keys(io, needed, CONTEXT).few) == 1
    assert not kept._turns
    assert not kept._memory.held
