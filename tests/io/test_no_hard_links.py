"""Exclusive creation on a file system without hard links (exFAT, SMB, some FUSE)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.io import local
from iceberg_ops.io.local import LocalFileIO


@pytest.fixture(autouse=True)
def no_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*args: Any, **fields: Any) -> None:
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", link)


def test_a_file_gets_its_name_with_its_content_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between reserving a name and filling it would leave an empty metadata file, which cannot be read."""

    def never(*args: Any) -> None:
        raise AssertionError("the name was reserved first")

    monkeypatch.setattr(os, "replace", never)
    LocalFileIO().write(f"{tmp_path}/v1.metadata.json", b"first")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"v1.metadata.json": b"first"}


@pytest.mark.parametrize("renames_exclusively", [True, False])
def test_a_name_that_is_taken_is_refused_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames_exclusively: bool
) -> None:
    if not renames_exclusively:
        monkeypatch.setattr(local, "_rename_exclusively", lambda temporary, path: False)
    io, location = LocalFileIO(), f"{tmp_path}/v1.metadata.json"
    io.write(location, b"first")
    with pytest.raises(FileExistsError):
        io.write(location, b"second")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"v1.metadata.json": b"first"}
