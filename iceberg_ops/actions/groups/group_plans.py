"""What the group-commit service is given: a plan's groups, who does their work, and how an action commits them.

A group is work that is committed as a whole or not at all: data files that become fewer, deletes that become positions. Its work
is done by a ``work`` generator, in any process; what it answers, and what each hook of a strategy gives, are values. Which
hook is called when, and what is recorded and deleted, is the service's (``group_commits``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from iceberg_ops.actions.run.context import Run
from iceberg_ops.commit.operations.carried_over import CarriedOver
from iceberg_ops.commit.protocol.operation import Committed, Operation
from iceberg_ops.config.report import Certificate, GroupReport
from iceberg_ops.spec.content_files import DataFile

FileKey = tuple[str, int | None]
"""A file's location and, of a deletion vector, its place in the file."""


def file_key(file: DataFile) -> FileKey:
    """By which two entries are the same file, or the same vector in one."""
    return file.file_path, file.content_offset


class FinishedGroup(Protocol):
    """A group whose work is done and which is not committed yet.

    ``removed`` are the files its commit replaces, ``added`` those that were written for it. A conflict takes the group where it
    names one of ``named``: locations of files that must still be as they were."""

    @property
    def group_id(self) -> str: ...
    @property
    def removed(self) -> Sequence[DataFile]: ...
    @property
    def added(self) -> Sequence[DataFile]: ...
    @property
    def named(self) -> Collection[str]: ...
    @property
    def input_files(self) -> int: ...
    @property
    def input_bytes(self) -> int: ...
    @property
    def output_bytes(self) -> int: ...
    @property
    def certificate(self) -> Certificate | None: ...


F = TypeVar("F", bound=FinishedGroup)


@dataclass(frozen=True, slots=True)
class FailedGroup:
    """A group whose work failed. What it wrote is gone, or carries the run's operation id in its name."""

    group_id: str
    error: Exception


Work = Callable[[], Generator[F | FailedGroup]]
"""Does the work of a plan's groups: one answer per group, as they complete. Who stops early closes the generator; when that
returns, no work goes on, and no file of one comes any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What is committed together with a batch's groups, and what it builds on.

    ``dangling`` are delete files that apply to nothing once the groups are committed. ``snapshot_ids`` are the run's own commits on
    the same plan so far."""

    run_key: str
    dangling: tuple[DataFile, ...] = ()
    snapshot_ids: tuple[int, ...] = ()


CommitStaged = Callable[[Operation, Sequence[DataFile]], Committed]
"""Commits an operation; the files are those that were written for it besides the groups' own."""


@dataclass(frozen=True, kw_only=True)
class GroupStrategy(ABC, Generic[F]):
    """How an action commits its groups: the hooks that the service calls. Each is a function of its arguments and the plan."""

    run: Run

    @abstractmethod
    def operation(self, groups: Sequence[F], batch: Batch) -> Operation:
        """The operation that commits finished groups."""

    def dangling(self, groups: Sequence[F], replaced: Collection[str]) -> Sequence[DataFile]:
        """Delete files that apply to nothing once ``groups`` are committed; ``replaced`` are locations of data files that earlier
        commits of the run replaced."""
        return ()

    def waited(self) -> Mapping[str, int]:
        """Wait for a better moment to commit; what to count of it."""
        return {}

    def committed(self, operation: Operation, groups: Sequence[F], turn: int, commit: CommitStaged) -> CarriedOver:
        """Commit ``operation``, the ``turn``-th of the plan, with ``commit``; carries over what came meanwhile, where the action
        can."""
        return CarriedOver(committed=commit(operation, ()))

    def counts(self, groups: Sequence[F], batch: Batch, done: CarriedOver) -> Mapping[str, int]:
        """What the report counts of a commit."""
        return {}

    def plan_again(self, conflicted: Sequence[F]) -> PlannedAgain[F] | None:
        """What is left of groups that a conflict took; None where an action leaves that to the next run."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan(Generic[F]):
    """Groups of one plan, which was made on the snapshot ``snapshot_id``. ``groups`` says of each how it was planned."""

    groups: tuple[GroupReport, ...]
    work: Work[F]
    strategy: GroupStrategy[F]
    snapshot_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAgain(Generic[F]):
    """What conflicts left over, planned once more. ``successors``: the groups that took a conflicted group's files, by its id;
    ``why_not`` says why those without are not planned again."""

    plan: GroupPlan[F]
    why_not: str = ""
    successors: Mapping[str, Sequence[str]] = field(default_factory=dict)
