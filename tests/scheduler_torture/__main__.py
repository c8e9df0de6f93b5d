"""``python -m tests.scheduler_torture [SCENARIO...]``: exit code 0, or 1 with the violated invariants; counts of what was drawn."""

from __future__ import annotations

import sys

from demo.places import PROJECT, Places
from tests.scheduler_torture.story import tell
from tests.scheduler_torture.world import World


def main(only: list[str]) -> int:
    world = World(Places.of(PROJECT / "build" / "scheduler_torture"))
    violations = tell(world, tuple(only))
    for what, count in sorted(world.counts.items()):
        print(f"{count:>7,} {what}")
    print(f"{len(violations)} violations", flush=True)
    for violation in violations:
        print(f"error: {violation}", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
