"""The sizes of a file's parts: a store takes 10,000 of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import obstore
import pytest

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.stores import staged_output
from tests.servers.stores import Store

MIB = 1 << 20
SIZES = {"default": (None, 8 * MIB), "least": (5 * MIB, 5 * MIB), "larger": (20 * MIB, 20 * MIB)}


def _io(store: Store, part: int | None) -> Any:
    return load_file_io({**store.properties, **({} if part is None else {"s3.multipart.part-size-bytes": str(part)})})


@pytest.mark.parametrize(("part", "size"), SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("piece", [MIB, 80 * MIB], ids=["small pieces", "one piece"])
def test_a_file_has_parts_of_the_size_that_is_set(
    object_store: Callable[[str], Store], part: int | None, size: int, piece: int
) -> None:
    """The store tells how many there are: so a file may have 10,000 times this size."""
    store = object_store("moto")
    io, location = _io(store, part), f"{store.root}/{uuid.uuid4().hex}"
    with io.open_output(location) as output:
        for _ in range(80 * MIB // piece):
            output.write(bytes(piece))
    client, place = io._store_for(location)._file(location)
    assert obstore.head(client, place.key)["e_tag"].strip('"').endswith(f"-{80 * MIB // size}")
    assert staged_output.MOST_PARTS * size > 48 << 30


@pytest.mark.parametrize("name", ["moto", "gcs", "azurite"])
def test_a_file_of_more_parts_than_a_store_takes_is_refused_by_name(
    object_store: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(staged_output, "MOST_PARTS", 2)
    store = object_store(name)
    io, folder = _io(store, 5 * MIB), f"{store.root}/{uuid.uuid4().hex}"
    with io.open_output(f"{folder}/two") as output:
        output.write(bytes(10 * MIB))
    with (
        pytest.raises(UnsupportedError, match=r"with more than 10485760 bytes, because a store takes 2 parts.*part-size-bytes"),
        io.open_output(f"{folder}/three") as output,
    ):
        output.writelines([bytes(5 * MIB), bytes(5 * MIB), b"1"])
    assert [info.location for info in io.list_prefix(folder)] == [f"{folder}/two"]
