"""Writers that move refs: rollbacks, branches and tags, fast-forwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_ops.commit.operations.refs import FastForward, RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from tests.torture.acts import Act
from tests.torture.rows import Model
from tests.torture.running import act_of
from tests.torture.stepping import Writer
from tests.torture.watched import MAIN
from tests.torture.world import World


def roll_back(world: World, w: Writer, *, by: int | None = None) -> None:
    """To an ancestor, ``by`` commits back (None: a few)."""
    table = world.load(w)
    head = table.metadata.branch_head(w.branch)
    ancestors = [s.snapshot_id for s in table.metadata.ancestors(None if head is None else head.snapshot_id)][1:3]
    if ancestors:
        target = world.random.choice(ancestors) if by is None else ancestors[by - 1]
        w.effect = to_rows_of(world, target)
        kind: Any = world.random.choice([RollBack, SetCurrentSnapshot])
        act = act_of(world, w, kind.name)
        world.commit(w, table, kind(snapshot_id=target, branch=w.branch, run_key=act.key), act)


def to_rows_of(world: World, target: int) -> Callable[[Model], Model]:
    return lambda model: world.looking.seen[target].rows


def branch_or_tag(world: World, w: Writer) -> None:
    """Create, move or drop a branch or tag, or set how many snapshots it keeps."""
    table, w.branch = world.load(w), "audit"
    snapshots = [s.snapshot_id for s in table.metadata.snapshots]
    if not snapshots:
        return
    target, dice = world.random.choice(snapshots), world.random.random()
    key = world.name("ref") if world.random.random() < 0.5 else None
    operation: Any
    if dice < 0.4:
        w.effect = to_rows_of(world, target)
        operation = SetRef(ref="audit", snapshot_id=target, replace_existing=True, run_key=key)
    elif dice < 0.5:
        kept = world.random.choice([MAIN, "audit"])
        kept = kept if kept in table.metadata.refs else MAIN
        operation = SetRef(ref=kept, min_snapshots_to_keep=world.random.randint(1, 3), replace_existing=True, run_key=key)
    elif dice < 0.7:
        ref = world.random.choice(["noon", "night"])
        operation = SetRef(ref=ref, snapshot_id=target, type="tag", replace_existing=True, run_key=key)
    elif dice < 0.9:
        operation = RemoveRef(ref=world.random.choice(["audit", "noon", "night", "made on the fly"]), run_key=key)
    else:
        w.branch = world.name("old")
        operation = RenameBranch(old="audit", new=w.branch, run_key=key)
    act = act_of(world, w, "ref")
    act.key = key
    world.commit(w, table, operation, act)


def fast_forward(world: World, w: Writer) -> None:
    """Fast-forward main to the branch, if possible."""
    w.branch = MAIN
    table = world.load(w)
    w.effect = lambda model: world.looking.models["audit"]
    act = act_of(world, w, "fast_forward")
    world.commit(w, table, FastForward(to="audit", run_key=act.key), act)


def make_branch(world: World, w: Writer, name: str) -> None:
    """A branch at main's parent, and a tag at its head."""
    table, w.branch = world.load(w), name
    head = table.metadata.branch_head()
    assert head is not None
    target = head.parent_snapshot_id or head.snapshot_id
    w.effect = to_rows_of(world, target)
    world.commit(w, table, SetRef(ref=name, snapshot_id=target), Act("ref"))
    world.commit(w, table, SetRef(ref="noon", snapshot_id=head.snapshot_id, type="tag"), Act("ref"))


KINDS: dict[str, tuple[float, Callable[[World, Writer], None]]] = {
    "roll back": (2, roll_back),
    "branch or tag": (2, branch_or_tag),
    "fast-forward": (1, fast_forward),
}
