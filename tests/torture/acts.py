"""The work that a writer is about to commit, and whether its result is reported correctly.

An act is one piece of work: its family (the kind of change), branch, stage and run key. A repetition with the same key means the
same work; work of another family, branch or stage with that key is other work, wherever the key came from. Three rules must hold
for each attempt: an attempt that is reported as refused changed nothing, one that is reported as done is in the table (now, or
since an earlier attempt at the same work), and one piece of work with a key is in the table once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.config.report import ActionReport
from iceberg_ops.table.table import Table

if TYPE_CHECKING:
    from tests.torture.watched import Watched
    from tests.torture.world import World

Identity = tuple[str, str, str, str, bool]
"""(table uuid, run key, family, branch, staged)."""
ANY = 10**9


@dataclass
class Act:
    """``family``: the operation's name, or the job's. ``most``: how many commits it may make. ``in_parts``: if it fails, its
    finished parts stay, by design."""

    family: str
    key: str | None = None
    branch: str = "main"
    staged: bool = False
    most: int = 1
    in_parts: bool = False
    is_job: bool = False
    changes: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    """Table and new snapshots of each change of a table's metadata that it made."""
    in_doubt: bool = False
    """An attempt ended without an answer."""

    def is_other_work(self, than: Act) -> bool:
        """Whether it must not be taken for ``than`` if both have the same key. A job and an operation that may be a part of it
        cannot be distinguished."""
        if (self.branch, self.staged) != (than.branch, than.staged):
            return True
        if self.family == than.family:
            return False
        return self.is_job == than.is_job or "append" in (self.family, than.family)

    def identity(self, uuid: str) -> Identity | None:
        return None if self.key is None else (uuid, self.key, self.family, self.branch, self.staged)


class Acts:
    """The work done under each key, as observed in the tables."""

    def __init__(self) -> None:
        self.done: dict[Identity, list[int]] = {}
        """Snapshots, if any, by work."""
        self.keys: list[Act] = []
        """Acts that have a key, in the order in which they began."""

    def __copy__(self) -> Acts:
        found = Acts()
        found.done, found.keys = {identity: list(snapshots) for identity, snapshots in self.done.items()}, list(self.keys)
        return found

    def landed(self, act: Act, table: Watched, snapshots: tuple[int, ...]) -> None:
        """A change of ``act`` is in the table. Staged work that expired unpublished may be done again."""
        assert act.key is not None or len(act.changes) < act.most, f"{act.family} on {act.branch} is in the table twice"
        act.changes.append((table.uuid, snapshots))
        if (identity := act.identity(table.uuid)) is not None:
            known = self.done.setdefault(identity, [])
            if act.staged:
                known[:] = [i for i in known if i in table.snapshots or i in table.published]
            assert len(known) < act.most, f"{act.family} under run key {act.key} on {act.branch} is in the table twice"
            known += snapshots or (0,)

    def check_done(self, world: World, act: Act, loads: Sequence[Table], result: Any) -> None:
        """Work that is reported as done must be in the table. ``loads``: the tables that the attempt looked at."""
        if isinstance(result, Committed):
            ids = [] if result.snapshot is None else [result.snapshot.snapshot_id]
            self._check(world, act, loads, result.already_committed, ids)
        elif isinstance(result, ActionReport) and result.status in ("committed", "partially-committed", "already-committed"):
            self._check(world, act, loads, result.status == "already-committed", result.snapshot_ids)

    def _check(self, world: World, act: Act, loads: Sequence[Table], already: bool, snapshot_ids: list[int]) -> None:
        uuid = world.key_of(loads[0])
        table = world.tables[uuid]
        unseen = [i for i in snapshot_ids if i not in table.seen]
        assert not unseen, f"{act.family} is reported as committed, and never was: {unseen}"
        if not already:
            return
        identity = act.identity(uuid)
        what = f"{act.family} on {act.branch}{' (staged)' if act.staged else ''} under run key {act.key}"
        assert identity in self.done, f"{what} is reported as committed already, and never was"
        if act.staged:
            known = {*table.snapshots, *table.published, *(i for t in loads for i in t.metadata.snapshots_by_id)}
            assert known & {*self.done[identity]}, f"{what} is reported as committed already, and its snapshot expired unpublished"
