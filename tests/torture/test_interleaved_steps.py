"""Writers of every kind, interleaved at every I/O boundary, in worlds of every shape, against a plain model of rows.

After every step every reader of every retained snapshot sees exactly the model's rows, no file such a reader needs is deleted, and
the reports to writers are true; after all have ended and one maintenance run, no unreferenced file is left. ``make torture`` runs
thousands of seeds, the suite a few; a failure names its seed, and ``ICEBERG_OPS_SEED=<seed> make torture`` runs it again and prints
its steps."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable

import pytest

from tests.torture.counted import added_up, missing
from tests.torture.playing import play

SEEDS = int(os.environ.get("ICEBERG_OPS_TORTURE", "120"))
FIRST = int(os.environ.get("ICEBERG_OPS_SEED", "0"))
BLOCK = 40
BLOCKS = [FIRST] if "ICEBERG_OPS_SEED" in os.environ else list(range(0, SEEDS, BLOCK))


@pytest.mark.parametrize("first", BLOCKS)
def test_every_reader_sees_the_models_rows_after_every_step(first: int, record_property: Callable[[str, object], None]) -> None:
    alone = "ICEBERG_OPS_SEED" in os.environ
    counts, wrong = [], []
    for seed in range(first, first + (1 if alone else min(BLOCK, SEEDS - first))):
        try:
            counts.append(play(seed, tells=alone).counts)
        except Exception as e:  # noqa: BLE001 - the other seeds of the block are played all the same
            wrong.append(f"seed {seed}: {e} (replay: ICEBERG_OPS_SEED={seed} make torture)")
    record_property("torture", added_up(counts))
    gc.collect()  # A world has many reference cycles.
    assert not wrong, "\n".join(wrong)


def test_a_seed_is_a_schedule() -> None:
    first, second = play(7), play(7)
    assert (first.tick, first.made, first.counts, first.story) == (second.tick, second.made, second.counts, second.story)


def test_what_is_never_drawn_shows() -> None:
    one = missing(added_up([play(7).counts]))
    assert len({"worlds: v1", "worlds: v2", "worlds: v3"} & set(one)) == 2, "a world has one format version to begin with"
