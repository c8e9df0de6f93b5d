"""Writers that change where and how a table's files are written from then on: its location, the folders of its data and its
metadata, the compression of its metadata."""

from __future__ import annotations

from collections.abc import Callable

from iceberg_ops.commit.operations.metadata_updates import UpdateLocation, UpdateProperties
from tests.torture.acts import Act
from tests.torture.stepping import Writer
from tests.torture.world import World

CODEC = "write.metadata.compression-codec"
DATA_PATH, METADATA_PATH = "write.data.path", "write.metadata.path"


def move(world: World, w: Writer) -> None:
    """To a new place, or back to a former one."""
    table, key = world.load(w), world.name("move")
    where = former_locations(world, world.key_of(table))
    back = [place for place in where if place != table.location]
    place = world.random.choice(back) if back and world.random.random() < 0.4 else f"{where[0]}-{key}"
    world.commit(w, table, UpdateLocation(location=place, run_key=key), Act("location", key))
    world.seen("a table that moved")


def former_locations(world: World, uuid: str) -> list[str]:
    """Every location that the table had, the first one first."""
    return world.tables[uuid].locations


def data_path(world: World, w: Writer) -> None:
    """A folder of its own for the data or the metadata comes, changes or goes."""
    table, key = world.load(w), world.name("path")
    name = DATA_PATH if world.random.random() < 0.7 else METADATA_PATH
    if name in table.properties and world.random.random() < 0.4:
        operation = UpdateProperties(removals=(name,), run_key=key)
    else:
        inside = world.random.random() < 0.5
        folder = f"{table.location if inside else f'{world.storage.warehouse}/beside'}/{key}"
        operation = UpdateProperties(updates={name: folder}, run_key=key)
    world.commit(w, table, operation, Act("properties", key))
    world.seen("another data path" if name == DATA_PATH else "another metadata path")


def codec(world: World, w: Writer) -> None:
    """Metadata files are compressed from now on, or no longer."""
    table, key = world.load(w), world.name("codec")
    now = "none" if table.properties.get(CODEC) == "gzip" else "gzip"
    world.commit(w, table, UpdateProperties(updates={CODEC: now}, run_key=key), Act("properties", key))


CODECS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {"codec": (2, codec)}
KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {"move": (1.5, move), "data path": (1, data_path)}
