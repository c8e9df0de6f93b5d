"""Tables from random calls of ``iceberg-ops evolve``: columns and partition fields share few names, defaults have many types and
are set before and after the column gets its type. Nothing is committed: the result of a call is one metadata document."""

from __future__ import annotations

from iceberg_ops.cli.alterations import parse_alterations
from iceberg_ops.cli.column_definitions import parse_columns
from iceberg_ops.cli.create import build_schema
from iceberg_ops.cli.evolve import plan_operations
from iceberg_ops.errors import BadInputError, TerminalError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.metadata_builder import new_table_metadata
from iceberg_ops.spec.partitioning import UNPARTITIONED
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.table import Table
from tests.generated.drawing import Draw

NAMES = ("a", "b", "s", "s.a", "s.x", "shard")
TYPES = (
    "int", "bigint", "float", "double", "decimal(9, 2)", "date", "timestamp_ntz", "string", "time", "binary", "boolean", "uuid",
)  # fmt: skip
LITERALS = (
    "NULL", "NULL", "5", "5.25", "-1e3", "'2024-01-01'", "DATE '2024-02-29'", "TIMESTAMP_NTZ '2024-01-01 00:00:00.5'", "'x'",
    "true", "'f79c3e09-677c-4bbd-a479-3f349cb785e7'", "'10:20:30'", "2147483648", "X'00ff'",
)  # fmt: skip
TERMS = ("{}", "bucket(4, {})", "truncate(10, {})", "days({})")
RENAMES = (["RENAME COLUMN a TO b"], ["RENAME COLUMN a TO b", "RENAME COLUMN b TO a"])
OF_RENAMED = ((), ("WRITE ORDERED BY a",), ("ADD PARTITION FIELD bucket(4, a) AS shard", "WRITE ORDERED BY a"))
"""Steps that name a column which is renamed in the same call, or whose name another one gets."""
OF_UNKNOWN = ("ADD COLUMN u unknown", "ADD PARTITION FIELD u AS former", "DROP PARTITION FIELD former")
"""How a table comes to a column of type unknown (v3) that a former spec partitions by."""
FIELD_NAMES = ("a", "b", "s", "`s.a`", "`s.x`", "shard", "")


def step(draw: Draw, metadata: TableMetadata) -> str:
    """One step, mostly on columns and partition fields that the table has."""
    there = sorted(name for name in metadata.schema.ids_by_name if name in NAMES) or NAMES
    column, other = draw.choice(there if draw.often(0.8) else NAMES), draw.choice(NAMES)
    type_, literal = draw.choice(TYPES), draw.choice(LITERALS)
    term, name = draw.choice(TERMS).format(column), draw.choice(FIELD_NAMES)
    field = draw.choice([f.name for f in metadata.spec.fields] or ["a"])
    return draw.choice(
        [
            f"ADD COLUMN {other} {type_}",
            f"ADD COLUMN {other} {type_} DEFAULT {literal}",
            f"ADD COLUMN {other} struct<a: int, x: {type_}>",
            f"DROP COLUMN {column}",
            f"RENAME COLUMN {column} TO {other.rpartition('.')[2]}",
            f"ALTER COLUMN {column} TYPE {type_}",
            f"ALTER COLUMN {column} SET DEFAULT {literal}",
            f"ADD PARTITION FIELD {term}" + (f" AS {name}" if name else ""),
            f"ADD PARTITION FIELD {term}" + (f" AS {name}" if name else ""),
            f"WRITE ORDERED BY {column}",
            f"DROP PARTITION FIELD `{field}`",
            f"RENAME PARTITION FIELD `{field}` TO {name or 'b'}",
            f"ALTER COLUMN {column} SET DEFAULT NULL",
            "SET TBLPROPERTIES ('format-version' = '3')" if draw.often(0.1) else f"DROP COLUMN {column}",
        ]
    )


def evolved(draw: Draw) -> list[tuple[list[str], TableMetadata]]:
    """Each call that was accepted, and the table after it."""
    schema = build_schema(parse_columns("a bigint, s struct<a: int>, d int DEFAULT NULL"))
    version = draw.choice(["1", "2", "3"])
    metadata = new_table_metadata(schema, UNPARTITIONED, UNSORTED, "/t", {"format-version": version}, now_ms=1)
    found: list[tuple[list[str], TableMetadata]] = [([f"create v{version}"], metadata)]
    partitioned_by_unknown = version == "3" and draw.often(0.5)
    first = list(OF_UNKNOWN) if partitioned_by_unknown else []
    for _ in range(12):
        now = found[-1][1]
        steps = [step(draw, now) for _ in range(draw.choice([1, 1, 1, 2]))]
        if draw.often(0.15):
            steps = [*draw.choice(RENAMES), *draw.choice(OF_RENAMED)]
        elif partitioned_by_unknown and draw.often(0.15):
            steps = [f"ALTER COLUMN u TYPE {draw.choice(['int', 'geometry', 'struct<a: int>'])}"]
        if first:
            steps = [first.pop(0)]
        try:
            table = Table(("test", "db", "t"), now, "/t/metadata/v1.metadata.json", LocalFileIO())
            made = plan_operations(table, parse_alterations(steps))[1]
        except (BadInputError, TerminalError) as e:
            told = {"name of a partition field": "and another source", "type for a partition field": "comes from it"}
            draw.note(f"refused {type(e).__name__}", *(what for what, words in told.items() if words in str(e)))
            continue
        found.append((steps, made))
        draw.note("accepted", *(" ".join(s.split()[:2]) for s in steps), *(["null default"] if "NULL" in " ".join(steps) else []))
    return found
