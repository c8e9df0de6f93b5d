"""The set-up of every Python task removes only costs from the process."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pyarrow as pa
import pytest

from spark_jobs.runners import task_process
from spark_jobs.runners.task_process import begin_task


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "modules.zip"
    with ZipFile(path, "w") as made:
        made.writestr("first_in_archive.py", "value = 1")
        made.writestr("second_in_archive.py", "value = 2")
    monkeypatch.syspath_prepend(str(path))
    return path


@pytest.fixture(autouse=True)
def _as_before() -> object:
    cores = pa.cpu_count()
    task_process._freeze_once.cache_clear()
    yield
    gc.unfreeze()
    pa.set_cpu_count(cores)


def test_archives_are_not_read_again_before_each_task_and_can_be_imported_from(archive: Path) -> None:
    assert importlib.import_module("first_in_archive").value == 1
    assert isinstance(sys.path_importer_cache[str(archive)], zipimporter)
    begin_task()
    assert not any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
    assert importlib.import_module("second_in_archive").value == 2


def test_modules_are_left_out_of_collections_from_the_first_task_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.unfreeze()
    begin_task()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    garbage: list[object] = []
    garbage.append(garbage)
    del garbage
    begin_task()
    assert gc.get_freeze_count() <= frozen
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("the second task counts all frozen objects"))
    begin_task()


def test_arrow_takes_one_thread() -> None:
    pa.set_cpu_count(3)
    begin_task()
    assert pa.cpu_count() == 1
