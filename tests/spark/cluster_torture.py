"""A driver that ``spark-submit`` starts on the test's cluster: cluster_torture.py FOLDER seed=1,rounds=6[,twins=yes][,without=FIX]
[,only=evaluations].

Every round draws a job, its source, a fault and settings of the session, and is judged by a plain model of the rows: what the
statement must have done, whatever rows an unrepeatable source gave. FOLDER/answer.json holds what was drawn and what was wrong.
``without`` takes something away that the package does against these faults (``FIXES``): then something must be wrong, and the first
thing that is ends the play. ``only=evaluations``: executors are lost while sources that give other rows each time are read, when a
task of the stage that writes has been counted already and another, which has rows of it, has not.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import cluster_faults as faults
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import RetryableError
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from iceberg_ops.table.reachable import reachable_files
from spark_jobs.jobs import source_state, spark_engine
from spark_jobs.jobs.dispatch import run
from spark_jobs.runners import changes, copy_on_write, rewrite, source_parts, staged_leftovers
from spark_jobs.session import spark_session

Rows = dict[int, str]
SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "name", STRING), NestedField(3, "p", LONG))
BY_P = PartitionSpec(1, (PartitionField((3,), 1000, IDENTITY, "p"),))
TABLES = {"v2": (2, BY_P), "v3": (3, BY_P), "plain": (2, UNPARTITIONED)}
UPSERT = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
SETTINGS = {
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "Pacific/Auckland",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.legacy.setopsPrecedence.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
}  # fmt: skip


class Evaluations(logging.Handler):
    """Counts plans that had to be evaluated again."""

    def __init__(self) -> None:
        super().__init__()
        self.repeated = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.repeated += "evaluating it again" in record.getMessage()


class World:
    """Tables on shared storage, what is in them by the model, and one session for all jobs."""

    def __init__(self, session: SparkSession, folder: Path, rng: random.Random) -> None:
        self.session, self.shared, self.random, self.folder = session, folder / "shared", rng, folder
        self.shared.mkdir()
        properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(self.shared / "warehouse")}
        self.config = CatalogConfig(name="c", type="sql", properties=properties)
        self.catalog = load_catalog(self.config)
        self.catalog.create_namespace(("db",))
        self.models: dict[str, Rows] = {}
        for name, (version, spec) in TABLES.items():
            own = {"format-version": str(version), "write.distribution-mode": "hash", "history.expire.max-snapshot-age-ms": "1"}
            self.catalog.create_table(("db", name), SCHEMA, spec=spec, properties=own)
            self.models[name] = {}
        self.number = 0
        self.next_id = 0
        self.leaks: Counter[str] = Counter()
        session.udf.register("noisy", faults.noisy, "long")
        session.range(3).createOrReplaceTempView("target")

    # what jobs are made of

    def job(self, job: str, name: str, **parts: Any) -> str:
        return str(run(self.session, JobSpec(job=job, table=f"c.db.{name}", catalog=self.config, **parts)).status)

    def fresh(self, count: int) -> range:
        self.next_id += count
        return range(self.next_id - count, self.next_id)

    def existing(self, name: str, count: int) -> list[int]:
        known = sorted(self.models[name])
        return self.random.sample(known, min(count, len(known)))

    def files(self, ids: list[int], names: list[str]) -> str:
        """A folder of two files, which two tasks read: what either executor has for other stages is a part of the rows only."""
        path = self.shared / f"source-{self.number}.parquet"
        path.mkdir()
        rows = pa.table({"id": pa.array(ids, pa.int64()), "name": names, "p": pa.array([i % 4 for i in ids], pa.int64())})
        half = len(ids) // 2
        for name, part in (("a.parquet", rows.slice(0, half)), ("b.parquet", rows.slice(half))):
            pq.write_table(part, path / name, row_group_size=20)
        return str(path)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return scan_table(self.catalog.load_table(("db", name))).to_pylist()

    def unreferenced(self, name: str) -> tuple[set[str], set[str]]:
        """Files that belong to nothing, and files that are missing."""
        table = self.catalog.load_table(("db", name))
        owned = reachable_files(table, table.metadata.snapshots)
        known = {*owned.data, *owned.deletes}
        found = {str(p) for p in Path(table.location).rglob("*") if p.is_file() and p.parent.name != "metadata"}
        return found - known, known - found


# A source, and what it may have given: each function returns the SQL of rows (id, name, p) and a judgement of the rows that came.

Judge = Callable[[Rows], bool]
Drawn = tuple[Source, Judge]


def from_files(world: World, ids: list[int], name: str) -> Drawn:
    """Parquet, which can be read as often as one likes."""
    path = world.files(ids, [name] * len(ids))
    return Source(format="parquet", paths=[path]), lambda came: set(came) == set(ids)


def noisy_places(world: World, ids: list[int], name: str) -> Drawn:
    """Every row once, but in another partition each time it is evaluated."""
    path = world.files(ids, [name] * len(ids))
    return Source(format="sql", query=f"SELECT id, name, noisy(id) AS p FROM parquet.`{path}`"), lambda came: set(came) == set(ids)


def limited(world: World, ids: list[int], name: str) -> Drawn:
    """Some of the rows, others each time."""
    path, most = world.files(ids, [name] * len(ids)), max(1, len(ids) // 2)
    query = f"SELECT * FROM (SELECT * FROM parquet.`{path}` DISTRIBUTE BY noisy(id)) LIMIT {most}"
    return Source(format="sql", query=query), lambda came: set(came) <= set(ids) and len(came) == most


def first_of_ties(world: World, ids: list[int], name: str) -> Drawn:
    """One of several rows of each id, another each time."""
    path = world.files(ids * 3, [f"{name}-{i}" for i in range(3) for _ in ids])
    inner = f"SELECT *, row_number() OVER (PARTITION BY id ORDER BY noisy(id)) AS r FROM parquet.`{path}`"
    query = f"SELECT id, name, p FROM ({inner}) WHERE r = 1"
    return Source(format="sql", query=query), lambda came: set(came) == set(ids)


def sampled(world: World, ids: list[int], name: str) -> Drawn:
    path = world.files(ids, [name] * len(ids))
    query = f"SELECT * FROM (SELECT * FROM parquet.`{path}` DISTRIBUTE BY noisy(id)) TABLESAMPLE (50 PERCENT)"
    return Source(format="sql", query=query), lambda came: set(came) <= set(ids)


def aggregated(world: World, ids: list[int], name: str) -> Drawn:
    path = world.files(ids * 2, [f"{name}-{i}" for i in range(2) for _ in ids])
    query = f"SELECT id, first(name) AS name, any_value(p) AS p FROM parquet.`{path}` GROUP BY id"
    return Source(format="sql", query=query), lambda came: set(came) == set(ids)


SOURCES = (from_files, noisy_places, limited, first_of_ties, sampled, aggregated)


# Jobs: each changes a table, and says whether its rows are then what they must be.


def append(world: World, name: str, source: Callable[[World, list[int], str], Drawn]) -> None:
    marker = f"round {world.number}"
    given, judge = source(world, list(world.fresh(80)), marker)
    before = dict(world.models[name])
    world.job("append", name, source=given)
    settle(world, name, before, judge, marker)


def merge(world: World, name: str, source: Callable[[World, list[int], str], Drawn]) -> None:
    marker = f"round {world.number}"
    ids = [*world.existing(name, 40), *world.fresh(40)]
    given, judge = source(world, ids, marker)
    before = dict(world.models[name])
    mode = world.random.choice(["copy-on-write", "merge-on-read"])
    world.job("merge", name, source=given, change=RowChange(mode=mode, on="target.id = source.id", clauses=UPSERT))
    settle(world, name, before, judge, marker)


def upsert(world: World, _: str, source: Callable[[World, list[int], str], Drawn]) -> None:
    marker = f"round {world.number}"
    ids = [*world.existing("plain", 40), *world.fresh(40)]
    given, judge = source(world, ids, marker)
    before = dict(world.models["plain"])
    world.job("upsert", "plain", source=given, options={"upsert-keys": "id"})
    settle(world, "plain", before, judge, marker)


def overwrite(world: World, name: str, source: Callable[[World, list[int], str], Drawn]) -> None:
    """Partitions into which rows of the source come lose all they had."""
    marker = f"round {world.number}"
    given, judge = source(world, list(world.fresh(20)), marker)
    places = {r["id"]: r["p"] for r in world.rows(name)}
    before = dict(world.models[name])
    world.job("overwrite", name, source=given)
    replaced = {r["p"] for r in world.rows(name) if r["name"].startswith(marker)}
    settle(world, name, {i: n for i, n in before.items() if places[i] not in replaced}, judge, marker)


def update(world: World, name: str, _: object) -> None:
    """A number of rows that a subquery draws, others each time."""
    marker, before = f"round {world.number}", dict(world.models[name])
    most = min(20, len(before))
    where = f"id IN (SELECT id FROM (SELECT id FROM target DISTRIBUTE BY noisy(id)) LIMIT {most})"
    change = RowChange(mode=world.random.choice(["copy-on-write", "merge-on-read"]), set={"name": f"'{marker}'"})
    world.job("update", name, where=where, change=change)
    settle(world, name, before, lambda came: len(came) == most and set(came) <= set(before), marker)


def delete(world: World, name: str, _: object) -> None:
    before = dict(world.models[name])
    most = min(10, len(before))
    where = f"id IN (SELECT id FROM (SELECT id FROM target DISTRIBUTE BY noisy(id)) LIMIT {most})"
    world.job("delete", name, where=where, change=RowChange(mode="copy-on-write"))
    left = rows_of(world, name)
    expect(len(left) == len(before) - most and left.items() <= before.items(), f"{len(before)} rows less {most} became {len(left)}")
    world.models[name] = left


def compact(world: World, name: str, _: object) -> None:
    order = world.random.choice([{}, {"sort-order": "id DESC"}, {"sort-order": "zorder(id, name)"}])
    world.job("rewrite_data_files", name, options={"rewrite-all": "true", "remove-dangling-deletes": "true", **order})
    expect(rows_of(world, name) == world.models[name], "a rewrite changed rows")


def two_at_once(world: World, _: str, __: object) -> None:
    """Each with a subquery on its own ``target``, in one session."""
    marker, failed = f"round {world.number}", []

    def change(name: str) -> None:
        try:
            world.job("update", name, where="id >= (SELECT max(id) - 5 FROM target)", change=RowChange(set={"name": f"'{marker}'"}))
        except BaseException as e:
            failed.append(e)
            raise

    threads = [threading.Thread(target=change, args=(name,)) for name in ("v2", "v3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    for name in ("v2", "v3"):
        top = max(world.models[name], default=0) - 5
        world.models[name] = {i: marker if i >= top else n for i, n in world.models[name].items()}
        expect(rows_of(world, name) == world.models[name], f"{name}: a job of another table was evaluated here")


JOBS = {
    "append": append,
    "merge": merge,
    "rewrite": compact,
    "two jobs in one session": two_at_once,
    "upsert": upsert,
    "overwrite": overwrite,
    "update": update,
    "delete": delete,
}
TAKE_SOURCE = ("append", "merge", "upsert", "overwrite")


def settle(world: World, name: str, before: Rows, judge: Judge, marker: str) -> None:
    """Rows of this round are what the judge accepts, all others are as before."""
    now = rows_of(world, name)
    came = {i: n for i, n in now.items() if n.startswith(marker)}
    rest = {i: n for i, n in now.items() if i not in came}
    kept = {i: n for i, n in before.items() if i not in came}
    expect(rest == kept, f"{len(kept.keys() - rest.keys())} rows lost, {len(rest.keys() - kept.keys())} rows too many")
    expect(judge(came), f"the source's rows are not what came: {sorted(came.items())[:10]}... ({len(came)})")
    world.models[name] = now


def rows_of(world: World, name: str) -> Rows:
    rows = world.rows(name)
    keys = [r["id"] for r in rows]
    twice = [i for i, n in Counter(keys).items() if n > 1]
    expect(not twice, f"{len(twice)} keys are there twice: {twice[:10]}")
    return {r["id"]: r["name"] for r in rows}


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


# A round

TOPICS = ("jobs", "sources", "faults", "faults that struck", "settings", "events")


class Torture:
    """Plays rounds, and gathers what was ``drawn`` and what was ``wrong``."""

    def __init__(self, session: SparkSession, folder: Path, seed: int, *, twins: bool, without: str, only: str) -> None:
        self.random, self.without = random.Random(seed), without
        self.jobs, self.sources = list(JOBS), list(SOURCES)
        self.world = World(session, folder, self.random)
        self.session, self.folder = session, folder
        self.drawn: dict[str, Counter[str]] = {topic: Counter() for topic in TOPICS}
        self.wrong: list[str] = []
        self.played: list[str] = []
        self.known: dict[str, set[str]] = {name: set() for name in TABLES}
        """Orphans of earlier rounds."""
        self.kinds = [*(faults.SLOW if twins else ()), *faults.DIES, *faults.ZOMBIE, *faults.EXECUTOR]
        self.last: int | None = None
        """The last task of a stage that writes a table by its partitions, where faults are to hit that one."""
        if only == "evaluations":
            # The first round, an append of rows that move to other partitions, shows two evaluations that are taken for one.
            self.jobs, self.sources = list(TAKE_SOURCE), [aggregated, noisy_places, limited, first_of_ties, sampled]
            self.kinds = list(faults.EXECUTOR)
            tasks = session.conf.get("spark.sql.shuffle.partitions")
            self.last = session.range(4).selectExpr(f"max(pmod(hash(id), {tasks}))").collect()[0][0]
        self.faults = faults.Faults()
        self.evaluations = Evaluations()
        logging.getLogger(staged_leftovers.__name__).addHandler(self.evaluations)
        rewrite._BATCH_BYTES = 0  # every sort is staged
        changes._writer = self.faults.in_iterators(changes._writer, lambda told, _: told.operation_id)
        source_parts._writer = self.faults.in_iterators(source_parts._writer, lambda told: told.operation_id)
        copy_on_write._rewriter = self.faults.in_iterators(copy_on_write._rewriter, lambda *told: str(told[-1]))
        rewrite._staging = self.faults.in_calls(rewrite._staging)
        rewrite._rewriting = self.faults.in_iterators(rewrite._rewriting, lambda: "")

    def play(self, rounds: int) -> None:
        for name in TABLES:  # every table has rows, and small files to be rewritten
            for _ in range(2):
                self.world.number += 1
                append(self.world, name, from_files)
        for number in range(rounds):
            self._round(number)
            if self.without and self.wrong:
                return
        for name in TABLES:
            self._clean_up(name)

    def _round(self, number: int) -> None:
        world, rng = self.world, self.random
        world.number += 1
        # In turns, so that a few rounds see all kinds; which go together is chance.
        jobs, sources = self.jobs, self.sources
        often = [job for job in ("merge", "append", "rewrite") if job in jobs]
        job = jobs[number] if number < len(jobs) else rng.choice([*jobs, *often])
        source = sources[(number + 1) % len(sources)] if number < len(sources) else rng.choice(sources)
        kind = self.kinds[number % len(self.kinds)] if number < 2 * len(self.kinds) else rng.choice([faults.NONE, *self.kinds])
        name = rng.choice(["v2", "v3"])
        notes = self.folder / "notes" / str(world.number)
        notes.mkdir(parents=True)
        stage = rng.choice(["", "-source"]) if job == "merge" and source is not from_files else ""
        partition = rng.choice([0, 1, 2]) if kind in faults.EXECUTOR else 0
        settings = dict(rng.sample(sorted(SETTINGS.items()), rng.randint(0, 3)))
        is_last = self.last is not None and job in ("append", "overwrite")
        if self.last is not None and is_last:
            partition = self.last
            settings.pop("spark.sql.shuffle.partitions", None)
        self.faults.fault = faults.Fault(kind, partition, str(notes), stage, self.without == "names", is_last)
        self._count(job, source.__name__ if job in TAKE_SOURCE else "none", kind, settings)
        said = f"round {number}: {job} of {name} from {source.__name__}, {kind}{stage}, {', '.join(settings) or 'no settings'}"
        for key, value in settings.items():
            self.session.conf.set(key, value)
        before = self.session.conf.getAll
        self._play_one(job, name, source, said)
        (notes / "job-is-over").touch()
        struck = (notes / "hit").exists()
        if kind != faults.NONE:
            self.drawn["faults that struck"][kind] += struck
        self.played.append(said + (", which struck" if struck else ""))
        self._check(said, kind, notes, before)
        for key in settings:
            self.session.conf.unset(key)

    def _play_one(self, job: str, name: str, source: Callable[[World, list[int], str], Drawn], said: str) -> None:
        try:
            JOBS[job](self.world, name, source)
        except RetryableError as e:
            self.drawn["events"]["gave up, retryable"] += 1
            for table, model in self.world.models.items():
                if {r["id"]: r["name"] for r in self.world.rows(table)} != model:
                    self.wrong.append(f"{said}: changed rows although {e}")
        except Exception as e:  # noqa: BLE001 - whatever it is, the test shows it
            self.wrong.append(f"{said}: {type(e).__name__}: {e} {traceback.format_exc()[-1500:]}")

    def _check(self, said: str, kind: str, notes: Path, before: dict[str, str]) -> None:
        if kind in faults.ZOMBIE and (notes / "hit").exists():
            faults.wait_for((notes / "published").exists, faults.SLOW_S)
            self.drawn["events"]["zombie published"] += (notes / "published").exists()
        if self.session.conf.getAll != before:
            self.wrong.append(f"{said}: settings of the session changed")
        if self.session.table("target").count() != 3:
            self.wrong.append(f"{said}: the view of the program changed")
        for name in TABLES:
            leaked, missing = self.world.unreferenced(name)
            if missing:
                self.wrong.append(f"{said}: files of {name} are missing: {sorted(missing)[:3]}")
            new = leaked - self.known[name]
            self.known[name] |= new
            self.drawn["events"]["orphans of zombies and lost executors"] += len(new)
            if new and kind not in (*faults.ZOMBIE, *faults.EXECUTOR):
                self.wrong.append(f"{said}: left {sorted(new)[:3]}")

    def _count(self, job: str, source: str, kind: str, settings: dict[str, str]) -> None:
        self.drawn["jobs"][job] += 1
        self.drawn["sources"][source] += 1
        self.drawn["faults"][kind] += 1
        self.drawn["settings"].update(key.removeprefix("spark.sql.") for key in settings)

    def _clean_up(self, name: str) -> None:
        """Days later, one expiry and one orphan run."""
        location = Path(self.world.catalog.load_table(("db", name)).location)
        for path in location.rglob("*"):
            if path.is_file() and "metadata" not in path.parts:
                os.utime(path, (1_500_000_000, 1_500_000_000))
        self.faults.fault = faults.Fault(faults.NONE, 0, "")
        self.world.job("expire_snapshots", name)
        self.world.job("remove_orphan_files", name)
        leaked, missing = self.world.unreferenced(name)
        if leaked or missing:
            self.wrong.append(f"{name} after expiry and orphan removal: left {sorted(leaked)[:3]}, missing {sorted(missing)[:3]}")
        if rows_of(self.world, name) != self.world.models[name]:
            self.wrong.append(f"{name} after expiry and orphan removal: other rows")


# What the package does against these faults, taken away


def without_staging() -> None:
    """A MERGE evaluates any source as often as it needs it."""
    source_state.SourceState.is_repeatable = lambda self: True  # type: ignore[method-assign]


def without_evaluating_again() -> None:
    """Rows of two evaluations are taken for those of one."""
    known = staged_leftovers.tagged_attempts
    staged_leftovers.tagged_attempts = lambda session, tag: replace(known(session, tag), repeated=False)


def without_own_sessions() -> None:
    """Jobs share the session of the program."""
    spark_engine.job_session = nullcontext  # type: ignore[assignment]


def without_looking_for_leftovers() -> None:
    """What lost attempts wrote stays."""
    for module in (staged_leftovers, rewrite):
        module.delete_leftovers = lambda *_: 0


FIXES = {
    "names": lambda: None,  # in tasks: see cluster_faults
    "staging": without_staging,
    "evaluating again": without_evaluating_again,
    "own sessions": without_own_sessions,
    "leftovers": without_looking_for_leftovers,
}


def main(folder: Path, case: str) -> dict[str, Any]:
    asked = dict(part.split("=") for part in case.split(","))
    session = spark_session("cluster torture")
    without = asked.get("without", "")
    torture = Torture(session, folder, int(asked["seed"]), twins="twins" in asked, without=without, only=asked.get("only", ""))
    if without:
        FIXES[without]()
    try:
        torture.play(int(asked["rounds"]))
    except Exception:
        if not torture.wrong:  # what is wrong already may be why later checks cannot be made
            raise
    torture.drawn["events"]["plan evaluated again as a whole"] = torture.evaluations.repeated
    session.stop()
    return {"wrong": torture.wrong, "drawn": torture.drawn, "played": torture.played}


if __name__ == "__main__":
    answer = main(Path(sys.argv[1]), sys.argv[2])
    (Path(sys.argv[1]) / "answer.json").write_text(json.dumps(answer))
