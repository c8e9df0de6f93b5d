"""The input of the group-commit service: a plan's groups, the function that does their work, and how an action commits them.

A group is work that is committed as a whole or not at all: data files that become fewer, deletes that become positions. A ``work``
generator does it, in any process; its answers, and the results of each hook of a strategy, are values. The service decides when
each hook is called, and what is recorded and deleted (``group_commits``).
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
"""A file's location and, for a deletion vector, its offset in the file."""


def file_key(file: DataFile) -> FileKey:
    """The key by which two entries are the same file, or the same vector in one."""
    return file.file_path, file.content_offset


class FinishedGroup(Protocol):
    """A group whose work is done and which is not committed yet.

    ``removed`` are the files its commit replaces, ``added`` those that were written for it. A conflict drops the group if it
    names one of ``named``: locations of files that must be unchanged."""

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
    """A group whose work failed. Its written files are deleted, or have the run's operation id in their names."""

    group_id: str
    error: Exception


Work = Callable[[], Generator[F | FailedGroup]]
"""Does the work of a plan's groups: one answer per group, in the order of completion. A caller that stops early closes the
generator; after that no work is running, and no more files are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The commit of a batch, besides its groups, and the state that it builds on.

    ``dangling`` are delete files that apply to no file once the groups are committed. ``snapshot_ids`` are the run's own commits on
    the same plan so far."""

    run_key: str
    dangling: tuple[DataFile, ...] = ()
    snapshot_ids: tuple[int, ...] = ()


CommitStaged = Callable[[Operation, Sequence[DataFile]], Committed]
"""Commits an operation; the files are those that were written for it besides the groups' own."""


@dataclass(frozen=True, kw_only=True)
class GroupStrategy(ABC, Generic[F]):
    """How an action commits its groups: the hooks of the service. The result of each depends only on its arguments and the plan."""

    run: Run

    @abstractmethod
    def operation(self, groups: Sequence[F], batch: Batch) -> Operation:
        """The operation that commits finished groups."""

    def dangling(self, groups: Sequence[F], replaced: Collection[str]) -> Sequence[DataFile]:
        """Delete files that apply to no file once ``groups`` are committed; ``replaced`` are locations of data files that earlier
        commits of the run replaced."""
        return ()

    def waited(self) -> Mapping[str, int]:
        """Wait for a better moment to commit; returns the metrics of the wait."""
        return {}

    def committed(self, operation: Operation, groups: Sequence[F], turn: int, commit: CommitStaged) -> CarriedOver:
        """Commit ``operation``, the ``turn``-th of the plan, with ``commit``; carries over concurrent deletes if the action
        can."""
        return CarriedOver(committed=commit(operation, ()))

    def counts(self, groups: Sequence[F], batch: Batch, done: CarriedOver) -> Mapping[str, int]:
        """The metrics of a commit."""
        return {}

    def plan_again(self, conflicted: Sequence[F]) -> SecondPlan[F] | None:
        """The rest of groups dropped by a conflict; None if an action leaves it to the next run."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan(Generic[F]):
    """Groups of one plan, which was made on the snapshot ``snapshot_id``. ``groups`` has the planned report of each."""

    groups: tuple[GroupReport, ...]
    work: Work[F]
    strategy: GroupStrategy[F]
    snapshot_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPlan(Generic[F]):
    """A second plan for the files that conflicts left over. ``successors``: the groups that took a conflicted group's files, by its
    id; ``why_not`` says why groups without successors are not planned again."""

    plan: GroupPlan[F]
    why_not: str = ""
    successors: Mapping[str, Sequence[str]] = field(default_factory=dict)
