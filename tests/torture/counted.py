"""Counts of what the seeds of a run drew: shapes of worlds, kinds of writers, faults. A case that is never drawn proves nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from tests.torture import evolution, moving, naming
from tests.torture.drawing import ALL_NAMES
from tests.torture.faults import BOUNDARIES, EXCEPTIONS, KILLED, LOST_ANSWER
from tests.torture.sights import SIGHTS
from tests.torture.writers import KINDS

Counts = Mapping[str, Mapping[str, int]]
MOVES_NO_BRANCH = frozenset(
    {
        *("orphans", "expire", "expire as called", "statistics", "foreign stage", "foreign expiry"),
        *evolution.KINDS,
        *naming.KINDS,
        *moving.KINDS,
        *moving.CODECS,
    },
)
WANTED: dict[str, frozenset[str]] = {
    "worlds": ALL_NAMES,
    "writers": frozenset({*KINDS, "the same again"}),
    "commits": frozenset(KINDS) - MOVES_NO_BRANCH,
    "faults": frozenset({*EXCEPTIONS, LOST_ANSWER, KILLED}),
    "boundaries": BOUNDARIES,
    "sights": SIGHTS,
    "events": frozenset({"deletes carried over", "imported again", "time past all leases"}),
}
"""Topic -> the cases that a long run must draw. ``commits`` counts those that move a branch."""
ENOUGH = 2_000
"""The number of seeds after which no case may be missing."""


def added_up(counts: Iterable[Counts]) -> str:
    """The sum of several counts, topic by topic, as JSON."""
    found: dict[str, Counter[str]] = {}
    for one in counts:
        for topic, seen in one.items():
            found.setdefault(topic, Counter()).update(seen)
    return json.dumps({topic: dict(seen) for topic, seen in found.items()})


def missing(total: str) -> list[str]:
    """What was never drawn."""
    found: Counts = json.loads(total)
    return sorted(f"{topic}: {name}" for topic, names in WANTED.items() for name in names if not found.get(topic, {}).get(name))


def lines(total: str) -> list[str]:
    """For people to read: topic by topic, each name with its count; 0 for what was never drawn."""
    found: Counts = json.loads(total)
    shown = {topic: {**dict.fromkeys(WANTED.get(topic, ()), 0), **found.get(topic, {})} for topic in {*found, *WANTED}}
    return [f"{topic}: {', '.join(f'{name} {n}' for name, n in sorted(seen.items()))}" for topic, seen in sorted(shown.items())]
