"""The writers and the maintenance of ``test_killed_database`` on an S3 store (versitygw) that throttles, fails, and loses requests
and answers, with a catalog in a PostgreSQL server that is killed meanwhile.

Each writer tries every operation under its run key until it is acknowledged. Afterwards, with a store that answers again, each
acknowledged row is there exactly once, each deleted one is gone, and after one expiry and one orphan removal no file is left over.
Six seconds here, sixty by ``make torture``.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import make_table
from tests.servers.postgresql import PostgreSQL
from tests.servers.process import LOOPBACK
from tests.servers.proxy import Answer, ChangedAnswer, Fault, FaultProxy, LostAnswer, LostRequest
from tests.servers.stores import Store
from tests.torture.test_eight_processes import acknowledged
from tests.torture.test_kill_nine import leaked
from tests.torture.test_killed_database import KILLED_ONCE, SECONDS, STORE, WRITERS, maintain, open_lake, wait_for_all, write

FAULTS: dict[str, tuple[Fault, float]] = {
    "lost answer": (LostAnswer(), 0.03),
    "lost request": (LostRequest(), 0.02),
    "503": (Answer(503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"), 0.05),
    "429": (Answer(429), 0.02),
    "500, not done": (Answer(500), 0.01),
    "500, done": (ChangedAnswer.of(500), 0.01),
    "502, done": (ChangedAnswer.of(502), 0.01),
}
"""By name: the fault, and the share of requests that meet it."""
IMPATIENT = {"s3.retry.num-retries": "1", "s3.retry.min-wait-ms": "1", "s3.retry.max-wait-ms": "5"}
"""Nearly each fault in a hundred reaches the work: the client tries once more only."""
FEWEST = 6
"""Operations of each writer, however slow the machine is."""
BETWEEN_KILLS, MOST_KILLS = 2.0, 2 if SECONDS < 60 else 30


def spoilt(proxy: FaultProxy, rng: random.Random, met: Counter[str]) -> None:
    """Every request meets a fault by chance."""

    def by_chance(name: str, share: float) -> Callable[[object], bool]:
        def meets(_: object) -> bool:
            is_met = rng.random() < share
            met[name] += is_met
            return is_met

        return meets

    for name, (fault, share) in FAULTS.items():
        proxy.spoil(fault, when=by_chance(name, share), times=None)


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3] if SECONDS >= 60 else [3])
def test_all_that_was_acknowledged_is_there_once_whatever_the_store_does(
    version: int, object_store: Callable[[str], Store], tmp_path: Path
) -> None:
    store, server, met = object_store("versitygw"), PostgreSQL(), Counter[str]()
    try:
        with FaultProxy((LOOPBACK, store.port)) as proxy:
            place = {"warehouse": f"{store.root}/{uuid.uuid4().hex}", **store.behind(proxy.endpoint).properties, **IMPATIENT}
            (tmp_path / STORE).write_text(json.dumps(place))
            uri, folder = server.database(), str(tmp_path)
            lake = open_lake(uri, folder)
            lake.catalog.create_namespace(("ns",))
            retries = {"commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "200", "commit.retry.num-retries": "20"}
            make_table(lake.catalog, version=version, properties=retries)
            spoilt(proxy, random.Random(version), met)
            context = multiprocessing.get_context("spawn")
            workers = [context.Process(target=write, args=(uri, folder, i, FEWEST)) for i in range(WRITERS)]
            workers.append(context.Process(target=maintain, args=(uri, folder, WRITERS)))
            for worker in workers:
                worker.start()
            wait_for_all(workers[:WRITERS], tmp_path)
            kills = 0
            while any(worker.is_alive() for worker in workers):
                time.sleep(BETWEEN_KILLS)
                if kills < MOST_KILLS and any(worker.is_alive() for worker in workers[:WRITERS]):
                    server.kill()
                    server.start()
                    kills += 1
                    (tmp_path / KILLED_ONCE).touch()
            proxy.forget()
            assert [worker.exitcode for worker in workers] == [0] * len(workers)
            rows, acknowledgements = acknowledged(tmp_path)
            trouble = Counter(line.split('"')[1] for p in tmp_path.glob("trouble*.log") for line in p.read_text().splitlines())
            jobs = Counter(tuple(json.loads(line)) for line in (tmp_path / "maintenance.log").read_text().splitlines())
            print(f"\nv{version}: {kills} kills, faults {dict(met)}, {acknowledgements} acknowledgements, {len(rows)} rows")
            print(dict(trouble))
            print({f"{action} {status}": count for (action, _, status), count in jobs.items()})
            assert kills
            assert all(met[name] for name in FAULTS) or SECONDS < 60, "a fault was never drawn"
            assert trouble, "no writer met a fault"
            assert sorted((row, text) for row, text, _ in lake.rows()) == sorted(rows.items())
            assert leaked(lake) == []
            assert sorted((row, text) for row, text, _ in lake.rows()) == sorted(rows.items())
    finally:
        server.close()
