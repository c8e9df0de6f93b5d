"""Writers of every kind, interleaved at every I/O boundary, against a plain model of rows.

After every step every reader of every retained snapshot sees exactly the model's rows, and no file such a reader needs is deleted;
after all end and one maintenance run, no file is left that belongs to nothing. ``make torture`` plays thousands of seeds, the
suite a few; a failure names its seed, and ``ICEBERG_OPS_SEED=<seed> make torture`` plays it again.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.torture.world import World
from tests.torture.writers import begin

SEEDS = int(os.environ.get("ICEBERG_OPS_TORTURE", "120"))
FIRST = int(os.environ.get("ICEBERG_OPS_SEED", "0"))
BLOCK = 40
BLOCKS = [FIRST] if "ICEBERG_OPS_SEED" in os.environ else list(range(0, SEEDS, BLOCK))


def play(seed: int) -> World:
    rng = random.Random(seed)
    world = World(
        rng,
        version=rng.choice([1, 2, 2, 3, 3]),
        catalog=rng.choice(["pointer", "filesystem"]),
        granularity=rng.choice(["file", "partition"]),
    )
    with world.laws():
        for kind in ("append", "append", *rng.choices(["append", "upsert", "delete", "branch or tag"], k=3)):
            first = begin(world, kind, "main")
            while not first.ended:
                world.step(first)
        left, running = rng.randint(5, 11), rng.randint(2, 6)
        while left or world.active:
            while left and len(world.active) < running:
                begin(world)
                left -= 1
            writer = rng.choice(world.active)
            if rng.random() < 0.004:
                world.kill(writer)
                continue
            for _ in range(rng.choice([1, 1, 2, 5, 20])):
                if not writer.ended:
                    world.step(writer)
        world.reread_all()
        assert world.leaked() == [], "files that belong to nothing"
        world.reread_all()
    return world


@pytest.mark.parametrize("first", BLOCKS)
def test_every_reader_sees_the_models_rows_after_every_step(first: int) -> None:
    for seed in range(first, first + (1 if "ICEBERG_OPS_SEED" in os.environ else min(BLOCK, SEEDS - first))):
        try:
            play(seed)
        except Exception as e:
            raise AssertionError(f"seed {seed}: {e} (replay: ICEBERG_OPS_SEED={seed} make torture)") from e


def test_a_seed_is_a_schedule() -> None:
    first, second = play(7), play(7)
    assert (first.tick, first.made, first.counts, first.models) == (second.tick, second.made, second.counts, second.models)
