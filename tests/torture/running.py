"""How writers run jobs, and under which run keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_ops.config.report import ActionReport
from tests.torture.acts import Act
from tests.torture.stepping import Writer
from tests.torture.world import World

RECENT = 5
"""Only pieces of work that are close in time share a key."""


def act_of(
    world: World,
    w: Writer,
    family: str,
    *,
    staged: bool = False,
    of: Act | None = None,
    most: int = 1,
    in_parts: bool = False,
    is_job: bool = False,
) -> Act:
    """The writer's next act. In worlds with shared keys it may have no key, or the key of other work: that of ``of``, or of any
    act."""
    act = Act(family, None if world.shape.keyless else world.name(family), w.branch, staged, most, in_parts, is_job)
    if world.shape.shared_keys and (dice := world.random.random()) < 0.6:
        known = world.acts.keys
        others = [a for a in known[-RECENT:] if all(act.is_other_work(b) for b in known if b.key == a.key)]
        if dice < 0.15:
            act.key = None
        elif of is not None:
            act.key = of.key
        elif others:
            act.key = world.random.choice(others).key
    if act.key is not None:
        world.acts.keys.append(act)
    return act


def job(
    world: World,
    w: Writer,
    name: str,
    options: Mapping[str, str] | None = None,
    *,
    family: str | None = None,
    most: int = 1,
    in_parts: bool = False,
    staged: bool = False,
    **more: Any,
) -> ActionReport | None:
    """Run a job, sometimes twice under its run key: the second run must find the work done, unless it is one that is done
    ``in_parts``, so that a second run does what is left or has come since. Where there are zombies it may be started again before
    the first run ends. ``acts`` checks that no work is done twice."""
    act = act_of(world, w, family or name, staged=staged, most=most, in_parts=in_parts, is_job=True)

    def run(who: Writer) -> ActionReport | None:
        mine = Act(act.family, act.key, act.branch, act.staged, act.most, act.in_parts, act.is_job)
        found: ActionReport | None = world.attempt(
            who, mine, lambda: world.run(who, name, options or {}, run_key=mine.key, branch=who.branch, **more)
        )
        return found

    if world.shape.zombies and act.key is not None and world.random.random() < 0.3:
        world.again.append((w, lambda _, who: (run(who), None)[1]))
    done = run(w)
    if done is not None and act.key is not None:
        world.submit_late(w, lambda _, who: (run(who), None)[1])
    if done is not None and done.status == "committed" and act.key is not None and world.once_more():
        run(w)
    return done
