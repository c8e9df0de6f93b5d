"""Writers that rename, drop and create tables."""

from __future__ import annotations

from collections.abc import Callable

from iceberg_ops.errors import BadInputError, RetryableError
from tests.torture.stepping import Writer
from tests.torture.world import World


def swap_names(world: World, w: Writer) -> None:
    """Three renames, as users publish a rebuilt table; others may do the same at the same time, or it may stop half way."""
    for old, new in (("t", "swapped"), ("u", "t"), ("swapped", "u")):
        rename(world, w, old, new)


def rename_and_back(world: World, w: Writer) -> None:
    for old, new in ((w.name, "elsewhere"), ("elsewhere", w.name)):
        rename(world, w, old, new)


def rename(world: World, w: Writer, old: str, new: str) -> None:
    table = next((t for t in world.tables.values() if t.location == world.pointers.get(old)), None)
    try:
        w.catalog.rename_table(("ns", old), ("ns", new))
        if table is not None and len(table.models) > 1:
            world.seen("renamed beside a branch")
    except (BadInputError, RetryableError) as e:
        world.count("errors", type(e).__name__)


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "swap names": (2, swap_names),
    "rename and back": (1, rename_and_back),
}
