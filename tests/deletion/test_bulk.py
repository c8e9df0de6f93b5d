from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from iceberg_ops.deletion.bulk import delete_files, recorded
from iceberg_ops.io.file_io import DeleteFailure, FileIO
from iceberg_ops.io.local import LocalFileIO


@pytest.mark.parametrize("most_at_once", [None, 1, 2])
def test_a_location_of_another_store_fails_alone(tmp_path: Path, most_at_once: int | None) -> None:
    (tmp_path / "a").write_bytes(b"x")
    failures = delete_files(LocalFileIO(), ["s3://bucket/b", f"{tmp_path}/a"], most_at_once)
    assert [f.location for f in failures] == ["s3://bucket/b"]
    assert not (tmp_path / "a").exists()


class Stops(list[DeleteFailure]):
    """Interrupts whoever looks at what could not be deleted."""

    def __iter__(self) -> Iterator[DeleteFailure]:
        raise KeyboardInterrupt


@pytest.mark.parametrize("late", [True, False])
def test_an_interrupt_during_a_deletion_or_right_after_it_hides_no_file_that_is_gone(tmp_path: Path, late: bool) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).write_bytes(b"x")
    told: list[tuple[list[str], bool]] = []

    def delete(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        io.delete(locations[0])
        if not late:
            raise KeyboardInterrupt
        return Stops(io.delete_many(locations))

    with pytest.raises(KeyboardInterrupt):
        recorded(delete, lambda gone, in_doubt: told.append((list(gone), in_doubt)))(LocalFileIO(), paths)
    assert told == [(paths if late else paths[:1], False)]
