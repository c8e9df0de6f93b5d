"""A table that is created with content in a filesystem catalog has its content, even if others create and drop a table with its
name in the meantime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.import_folder import import_folder
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.staged import CatalogWithStagedTable
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.deletion.leases import Lease, acquire_lease, release_lease
from iceberg_ops.errors import CatalogUnavailableError, CommitFailedError, IcebergOpsError, NoSuchTableError, ValidationError
from iceberg_ops.io.local import LocalFileIO
from tests.actions.lake import Lake
from tests.builders import IDENTIFIER, SCHEMA, data_file, live_paths, make_table
from tests.catalog.test_imported_folders import place
from tests.catalog.wrappers import Meddles


class Watched(LocalFileIO):
    """``before_write`` and ``before_delete`` get each location, or each batch of them, before it is written or deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.before_write: Callable[[str], object] = lambda _: None
        self.before_delete: Callable[[list[str]], object] = lambda _: None

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self.before_write(location)
        super().write(location, data, overwrite=overwrite)

    def delete_many(self, locations: Any) -> Any:
        found = list(locations)
        self.before_delete(found)
        return super().delete_many(found)


class World:
    """``mine`` creates ``ns.t`` with content; ``others`` make and drop tables of that name."""

    def __init__(self, tmp_path: Path) -> None:
        self.io, self.others_io = Watched(), Watched()
        self.mine, self.others = (
            FileSystemCatalog("test", io, warehouse=str(tmp_path / "wh"), sleep=lambda _: None) for io in (self.io, self.others_io)
        )
        self.others.create_namespace(("ns",))
        self.staged = self.mine.stage_table(IDENTIFIER, SCHEMA, properties={"commit.retry.num-retries": "1"})

    def creates(self, catalog: Any = None, path: str = "elsewhere") -> None:
        with_table = CatalogWithStagedTable(catalog or self.mine, self.staged)
        commit(with_table, self.staged, AppendFiles(added=(data_file(path),)), sleep=lambda _: None)

    def makes_and_drops(self) -> None:
        make_table(self.others)
        self.others.drop_table(IDENTIFIER, purge=True)

    def check_created_or_refused(self, error: IcebergOpsError | None) -> None:
        if error is None:
            assert live_paths(self.others.load_table(IDENTIFIER)) == {"elsewhere"}
        else:
            with pytest.raises(NoSuchTableError):
                self.others.load_table(IDENTIFIER)
            make_table(self.others)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_it_is_refused_where_a_drop_has_deleted_its_manifests(world: World) -> None:
    with pytest.raises(ValidationError, match=r"was not created: .* was deleted"):
        world.creates(Meddles(world.mine, world.makes_and_drops))
    world.check_created_or_refused(ValidationError(""))


def test_it_is_refused_where_a_drop_has_deleted_data_in_its_folder(world: World) -> None:
    path = f"{world.staged.location}/data/x.parquet"
    world.io.write(path, b"x")
    with pytest.raises(ValidationError, match="was deleted, by the drop"):
        world.creates(Meddles(world.mine, lambda: world.io.delete_many([path])), path)
    world.check_created_or_refused(ValidationError(""))


def test_it_waits_while_a_drop_runs(world: World) -> None:
    refused: list[IcebergOpsError] = []

    def in_between() -> None:
        make_table(world.others)

        def tries(found: list[str]) -> None:
            if any(location.endswith(".avro") for location in found):
                with pytest.raises(CatalogUnavailableError, match="another table of the name is being dropped") as e:
                    world.creates()
                refused.append(e.value)

        world.others_io.before_delete = tries
        world.others.drop_table(IDENTIFIER, purge=True)

    with pytest.raises(ValidationError, match="was deleted, by the drop"):
        world.creates(Meddles(world.mine, in_between))
    assert refused
    world.check_created_or_refused(refused[0])


@pytest.mark.parametrize("ends", [True, False], ids=["the drop has ended", "the drop is under way"])
def test_it_is_taken_back_where_the_drop_came_right_before_the_first_version(world: World, ends: bool) -> None:
    class Dies(BaseException):
        pass

    def dies(found: list[str]) -> None:
        if not ends and any(location.endswith(".avro") for location in found):
            raise KeyboardInterrupt

    def before_a_write(location: str) -> None:
        if location.endswith("/v1.metadata.json"):
            world.io.before_write = lambda _: None
            make_table(world.others)
            world.others_io.before_delete = dies
            folder = Path(world.staged.location) / "metadata" / "iceberg-ops" / "deletions"
            try:
                world.others.drop_table(IDENTIFIER, purge=True)
            except KeyboardInterrupt:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "note.json").write_text('{"expires-at-ms": 9900000000000}')

    world.io.before_write = before_a_write
    with pytest.raises((ValidationError, CatalogUnavailableError, CommitFailedError)) as e:
        world.creates()
    world.check_created_or_refused(e.value)


def test_a_drop_leaves_what_a_running_job_has_written_for_a_table_of_the_same_name(world: World) -> None:
    made = make_table(world.others)
    lease = Lease(holder="job", snapshot_id=None, expires_at_ms=9_900_000_000_000, marks=("op-1",))
    at = acquire_lease(world.staged, lease)
    mine, theirs = f"{made.location}/metadata/op-1-m0.avro", f"{made.location}/data/op-1.parquet"
    stray = f"{made.location}/data/x.parquet"
    for location in (mine, theirs, stray):
        world.io.write(location, b"x")
    commit(world.others, made, AppendFiles(added=(data_file(theirs),)))
    world.others.drop_table(IDENTIFIER, purge=True)
    assert {info.location for info in world.io.list_prefix(made.location)} == {at, mine}
    release_lease(world.staged, lease)


def test_an_import_makes_its_table_though_another_one_of_the_name_was_made_and_dropped(world: World, tmp_path: Path) -> None:
    make_table(world.others, identifier=("ns", "any"))
    folder = place(Lake(world.others, ("ns", "any")), str(tmp_path / "landing"))
    import_folder(Meddles(world.mine, world.makes_and_drops), CatalogConfig(name="test", type="filesystem"), "test.ns.t", folder)
    assert len(Lake(world.others).rows()) == 2
