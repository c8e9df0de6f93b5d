"""A table from which one process deletes rows about every second, and the known state of its rows at any time.

A delete is a statement as a program would run it (``iceberg_ops.actions.local.delete_rows``): a condition over the whole table,
evaluated row by row on the files that may match, position deletes or vectors, one commit. The process reports rows before it
deletes them, and again after the delete was acknowledged. So at any time every row is known to exist, to be deleted, or to be part
of a running delete.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np
import pyarrow as pa

from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.data.reading.reader import scan_batches
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import ValidationError
from iceberg_ops.expressions.predicates import in_
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DOUBLE, LONG, NestedField

Identifier = tuple[str, ...]

FILES = 16
DOUBLES = 6
ROW_BYTES = 45
"""Bytes of a row in a file: compression saves a sixteenth of random doubles, and nearly all of the ids."""
SECOND = 1.0
AT_A_TIME = 16
"""The rows of one delete, spread over the whole table."""
SCHEMA = Schema.of(NestedField(1, "id", LONG, True), *(NestedField(i + 2, f"x{i}", DOUBLE) for i in range(DOUBLES)))


def make_table(config: CatalogConfig, identifier: Identifier, properties: dict[str, str], megabytes: int) -> int:
    """A table of random doubles in FILES files, ids from 0; returns its bytes. Rewrites write files of the same size, so that every
    round has the same work."""
    catalog = load_catalog(config)
    rows = megabytes * 1_000_000 // ROW_BYTES // FILES
    sized = {**properties, "write.target-file-size-bytes": str(megabytes * 1_000_000 // FILES)}
    table = catalog.create_table(identifier, SCHEMA, properties=sized)
    rng, added = np.random.default_rng(7), []
    for i in range(FILES):
        context = WriteContext.for_table(table.metadata)
        writer = PartitionedWriter(context, table.io, operation_id=f"seed-{i}")
        columns = {"id": np.arange(i * rows, (i + 1) * rows), **{f"x{n}": rng.random(rows) for n in range(DOUBLES)}}
        writer.write(pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()}))
        added += writer.close()
    snapshot = commit(catalog, table, AppendFiles(added=tuple(added))).snapshot
    return int(snapshot.summary["total-files-size"]) if snapshot is not None else 0


class Contended:
    """One table and the process that deletes its rows, from ``begin`` to ``end``."""

    def __init__(self, config: CatalogConfig, identifier: Identifier) -> None:
        self._config, self._identifier = config, identifier
        head = load_catalog(config).load_table(identifier).metadata.current_snapshot
        self._rows = int(head.summary["total-records"]) if head is not None else 0
        context = multiprocessing.get_context("spawn")
        self._stop: Event = context.Event()
        self._said: Any = context.Queue()
        self._process = context.Process(
            target=_delete_every_second, args=(config, identifier, self._rows, self._stop, self._said), daemon=True
        )
        self._begun: set[int] = set()
        self._gone: set[int] = set()
        self._counts = {"deletes_acknowledged": 0, "deletes_refused": 0, "deletes_evaluated_again": 0}
        self._slowest = 0.0

    def begin(self) -> None:
        """Start deleting; returns once two deletes were acknowledged."""
        self._process.start()
        while self._counts["deletes_acknowledged"] < 2:
            self._note(self._said.get(timeout=120))

    def end(self) -> None:
        """Stop; a running delete is finished first."""
        self._stop.set()
        while (said := self._said.get(timeout=120)) is not None:
            self._note(said)
        self._process.join(60)

    def counts(self) -> dict[str, Any]:
        return {**self._counts, "slowest_delete_s": round(self._slowest, 3)}

    def verify(self) -> None:
        """Read all ids. Raises SystemExit if a deleted row came back, or if a row is there twice or missing without a delete."""
        self._listen()
        gone = self._gone.copy()
        seen = np.zeros(self._rows, dtype=np.int64)
        table = load_catalog(self._config).load_table(self._identifier)
        for batch in scan_batches(table, columns=["id"]):
            np.add.at(seen, np.asarray(batch.column(0)), 1)
        self._listen()
        missing = set(np.flatnonzero(seen == 0).tolist())
        back, lost, twice = gone - missing, missing - self._begun, int((seen > 1).sum())
        if back or lost or twice:
            raise SystemExit(f"wrong rows in {self._identifier}: {len(back)} came back, {len(lost)} lost, {twice} there twice")

    def _listen(self) -> None:
        while not self._said.empty():
            said = self._said.get()
            if said is None:
                self._said.put(None)
                return
            self._note(said)

    def _note(self, said: tuple[str, list[int], int, float]) -> None:
        what, ids, evaluations, seconds = said
        self._begun |= set(ids)
        if what == "acknowledged":
            self._gone |= set(ids)
            self._counts["deletes_evaluated_again"] += evaluations - 1
            self._slowest = max(self._slowest, seconds)
        if what != "begun":
            self._counts[f"deletes_{what}"] += 1


def _ids(rows: int) -> Iterator[list[int]]:
    rng = np.random.default_rng(11)
    step = rows // AT_A_TIME
    while True:
        yield [int(i) for i in np.arange(AT_A_TIME) * step + rng.integers(0, step, AT_A_TIME)]


def _delete_every_second(config: CatalogConfig, identifier: Identifier, rows: int, stop: Event, said: Any) -> None:
    catalog, due = load_catalog(config), time.monotonic()
    for number, ids in enumerate(_ids(rows)):
        if stop.is_set():
            break
        said.put(("begun", ids, 0, 0.0))
        begun = time.monotonic()
        try:
            delete = DeleteRows(where=in_("id", ids), run_key=f"delete-{number}")
            done = delete.run(catalog, catalog.load_table(identifier))
            said.put(("acknowledged", ids, done.evaluations, time.monotonic() - begun))
        except ValidationError:
            said.put(("refused", ids, 0, 0.0))
        due = max(due + SECOND, time.monotonic())
        stop.wait(due - time.monotonic())
    said.put(None)
