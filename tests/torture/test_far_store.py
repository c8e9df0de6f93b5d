"""The writers and the maintenance of ``test_killed_database`` on an S3 store (versitygw) that throttles, fails, and loses requests
and answers, with a catalog in a PostgreSQL server that is killed meanwhile.

Each writer tries every operation under its run key until it is acknowledged. Afterwards, with a store that answers again, each
acknowledged row is there exactly once, each deleted one is gone, and after one expiry and one orphan removal no file is left over.
Six seconds here, sixty by ``make torture``.
"""

from __future__ import annotations

import json
import random
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
from tests.torture.test_killed_database import SECONDS, STORE, killed_under_work, open_lake

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
"""The client retries only once, so that more faults reach the job."""
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
            kills, trouble = killed_under_work(server, uri, tmp_path, fewest=FEWEST, between=BETWEEN_KILLS, most=MOST_KILLS)
            proxy.forget()
            rows, acknowledgements = acknowledged(tmp_path)
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
