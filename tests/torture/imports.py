"""Writers that import files of other engines: new folders, folders that were imported before, folders below the table's own."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from iceberg_ops.table.table import Table
from tests.torture.making import SCHEMA, orc_of, parquet_of, plain_table, some_rows
from tests.torture.rows import KIND, Model, Row, holds
from tests.torture.running import job
from tests.torture.stepping import Writer
from tests.torture.world import World

LONG_AGO_MS = 30 * 24 * 3_600_000
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def import_files(
    world: World, w: Writer, *, again: bool | None = None, checks: bool | None = None, inside: bool | None = None
) -> None:
    """Files without field ids, in partition folders; below the table they are old, so that they look like orphans."""
    table = world.load(w)
    if world.imported and world.shape.tables == 1 and (world.random.random() < 0.7 if again is None else again):
        folder, rows = world.random.choice(world.imported)
        world.count("events", "imported again")
    else:
        inside = world.random.random() < 0.4 if inside is None else inside
        folder = f"{table.location if inside else world.storage.warehouse}/{world.name('import')}"
        rows = make_folder(world, table, folder)
        world.imported.append((folder, rows))
    checks = world.random.random() < (0.1 if world.shape.theme == "imports again" else 0.5) if checks is None else checks

    def effect(model: Model) -> Model:
        """The files that existed when the folder was listed: an orphan removal may have deleted old files before."""
        came = [rows[f.path] for f in world.looking.coming]
        assert came, "nothing was imported"
        assert not checks or not any(holds(model, [row]) for row in came), "a file that is in the table was imported again"
        return (*model, *came)

    w.effect = effect
    options = {"source-path": folder, "check-duplicate-files": str(checks).lower()}
    job(world, w, "add_files", options)


def make_folder(world: World, table: Table, folder: str) -> dict[str, Row]:
    """A folder in the table's current layout, with files of one row each."""
    made = {}
    by = [SCHEMA.fields_by_id[f.source_id].name for f in table.metadata.spec.fields if f.transform.is_identity and f.source_id < 5]
    for number in range(2):
        row = some_rows(world, table, 1)[0]
        row = row if KIND in by and row.kind is not None and row.kind[0] == 4 else row._replace(kind=None)
        values = {"region": row.region, KIND: row.text}
        parts = [f"{name}={HIVE_NULL if values[name] is None else quote(str(values[name]), safe='')}" for name in by]
        columns = [name for name in ("id", "data", "region") if name not in by]
        path = "/".join([folder, *parts, f"{number}.{'orc' if world.shape.orc else 'parquet'}"])
        data = orc_of(plain_table([row], columns)) if world.shape.orc else parquet_of([row], columns=columns)
        world.storage.io.write(path, data)
        world.storage.age(path, world.clock.ms - LONG_AGO_MS)
        made[path] = row
    return made


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {"import": (4, import_files)}
