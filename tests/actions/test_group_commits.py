"""The group-commit service alone: groups whose work is done, and commits whose outcomes follow a script."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from iceberg_ops.actions.groups.group_commits import GroupCommits
from iceberg_ops.actions.groups.group_plans import Batch, CommitStaged, FailedGroup, GroupPlan, GroupStrategy, SecondPlan
from iceberg_ops.actions.run.context import Outcome, Run
from iceberg_ops.actions.run.results import Committed, Findings, PartiallyCommitted, Result
from iceberg_ops.commit.operations.carried_over import CarriedOver
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.protocol.operation import Committed as Entered
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.config.options import ProgressOptions
from iceberg_ops.config.report import GroupReport
from iceberg_ops.errors import CommitFailedError, CommitStateUnknownError, CorruptTableError, ValidationError, VerificationError
from iceberg_ops.spec.content_files import DataFile
from tests.actions.lake import NOW, Lake, make_lake, numbered

AT_ONCE = ProgressOptions(
    max_concurrent_file_group_rewrites=1, partial_progress=False, max_commits=10, max_failed_commits=10, rewrite_job_order="none"
)
ONE_BY_ONE = ProgressOptions(
    max_concurrent_file_group_rewrites=1, partial_progress=True, max_commits=10, max_failed_commits=10, rewrite_job_order="none"
)
IN_PAIRS = ProgressOptions(
    max_concurrent_file_group_rewrites=1, partial_progress=True, max_commits=2, max_failed_commits=10, rewrite_job_order="none"
)


@dataclass(frozen=True)
class Done:
    """A file that became another one of the same rows."""

    group_id: str
    old: DataFile
    new: DataFile
    input_files: int = 1
    input_bytes: int = 0
    output_bytes: int = 0
    certificate: None = None

    @property
    def removed(self) -> tuple[DataFile, ...]:
        return (self.old,)

    @property
    def added(self) -> tuple[DataFile, ...]:
        return (self.new,)

    @property
    def named(self) -> tuple[str, ...]:
        return (self.old.file_path,)


Ends = Callable[[Sequence[Done]], BaseException | None]
"""The error that the next commit of these groups meets."""


@dataclass(frozen=True, kw_only=True)
class Scripted(GroupStrategy[Done]):
    script: Iterator[Ends]
    keys: list[str]
    again: list[Done] = field(default_factory=list)

    def operation(self, groups: Sequence[Done], batch: Batch) -> RewriteFiles:
        self.keys.append(batch.run_key)
        return RewriteFiles(
            removed_data=tuple(group.old for group in groups),
            added_data=tuple(group.new for group in groups),
            run_key=batch.run_key,
            starting_snapshot_id=self.run.table.metadata.current_snapshot_id,
        )

    def committed(self, operation: Operation, groups: Sequence[Done], turn: int, commit: CommitStaged) -> CarriedOver:
        if (error := next(self.script, no_error)(groups)) is not None:
            raise error
        return CarriedOver(committed=commit(operation, ()))

    def plan_again(self, conflicted: Sequence[Done]) -> SecondPlan[Done] | None:
        self.again.extend(conflicted)
        return None


def no_error(groups: Sequence[Done]) -> None:
    return None


def conflict_with(group_id: str) -> Ends:
    def ends(groups: Sequence[Done]) -> BaseException | None:
        paths = tuple(group.old.file_path for group in groups if group.group_id == group_id)
        return ValidationError("replaced by others", file_paths=paths) if paths else None

    return ends


def always(error: BaseException) -> Ends:
    return lambda groups: error


@dataclass
class World:
    """Four groups of a file each, and what became of them."""

    lake: Lake
    groups: list[Done]
    run: Run
    keys: list[str] = field(default_factory=list)
    again: list[Done] = field(default_factory=list)

    def commit(
        self,
        progress: ProgressOptions,
        *script: Ends,
        answers: Sequence[Done | FailedGroup] | None = None,
        strategy_of: Callable[..., Scripted] = Scripted,
    ) -> Result:
        def work() -> Generator[Done | FailedGroup]:
            yield from self.groups if answers is None else answers

        planned = tuple(GroupReport(group_id=group.group_id, status="planned", input_files=1) for group in self.groups)
        strategy = strategy_of(run=self.run, script=iter(script), keys=self.keys, again=self.again)
        plan = GroupPlan(groups=planned, work=work, strategy=strategy, snapshot_id=self.run.table.metadata.current_snapshot_id)
        return GroupCommits[Done](self.run, Findings(groups=planned), lost="failed-count").work_and_commit(plan, progress)

    @property
    def statuses(self) -> str:
        """The first letter of each group's status: committed, dropped, failed, planned."""
        return "".join(group.status[0] for group in self.run.outcome.groups.values())

    @property
    def left(self) -> str:
        """Groups whose new file is in storage."""
        return "".join(group.group_id[1] for group in self.groups if self.lake.table.io.exists(group.new.file_path))


@pytest.fixture
def world() -> World:
    lake = make_lake()
    rows = [numbered(10 * i, 5) for i in range(4)]
    lake.append(*rows)
    old = sorted((task.data_file for task in lake.tasks()), key=lambda f: f.file_path)
    groups = [Done(f"g{i}", before, after) for i, (before, after) in enumerate(zip(old, lake.written(*rows), strict=True))]
    job = lake.job("rewrite_data_files")
    run = Run(job=job, catalog=lake.catalog, table=lake.table, runner=None, run_key="k", now_ms=lambda: NOW, outcome=Outcome())
    return World(lake, groups, run)


def test_one_commit_has_the_run_s_key_and_batches_have_keys_of_their_own(world: World) -> None:
    assert type(world.commit(AT_ONCE)) is Committed
    assert (world.keys, world.statuses) == (["k"], "cccc")


def test_the_key_of_a_batch_is_that_of_its_files_in_any_order(world: World) -> None:
    lake, (a, b, c, d) = world.lake, world.groups
    never = always(CommitFailedError("refused"))
    other = World(lake, world.groups, world.run)
    for its, answers in ((world, (a, b, c, d)), (other, (d, c, b, a))):
        with pytest.raises(CommitFailedError):
            its.commit(IN_PAIRS, never, never, answers=answers)
    assert len(set(world.keys)) == 2
    assert sorted(world.keys) == sorted(other.keys)
    assert all(key.startswith("k/") for key in world.keys)


def test_a_conflict_takes_its_group_and_no_other(world: World) -> None:
    done = world.commit(AT_ONCE, conflict_with("g1"))
    assert type(done) is PartiallyCommitted
    assert (world.statuses, world.left, world.keys) == ("cdcc", "023", ["k", "k"])
    assert done.findings.metrics["failed-count"] == 1
    assert [group.group_id for group in world.again] == ["g1"]


def test_a_group_that_a_conflict_took_is_planned_again_also_where_its_batch_fails_in_the_end(world: World) -> None:
    done = world.commit(IN_PAIRS, no_error, conflict_with("g2"), always(CommitFailedError("refused")))
    assert type(done) is PartiallyCommitted
    assert (world.statuses, world.left) == ("ccdd", "01")
    assert [group.group_id for group in world.again] == ["g2"]


@pytest.mark.parametrize("progress", [AT_ONCE, IN_PAIRS], ids=["at once", "in pairs"])
def test_where_an_unknown_outcome_is_behind_a_conflict_nothing_is_deleted_or_tried_again(
    world: World, progress: ProgressOptions
) -> None:
    def ends(groups: Sequence[Done]) -> BaseException:
        found = conflict_with("g1")(groups)
        assert found is not None
        found.__cause__ = CommitStateUnknownError("no answer")
        return found

    with pytest.raises(ValidationError):
        world.commit(progress, ends)
    assert (world.statuses[:2], world.left, len(world.keys)) == ("ff", "0123", 1)
    assert "no answer" in world.run.outcome.groups["g0"].reason


@pytest.mark.parametrize("progress", [AT_ONCE, ONE_BY_ONE], ids=["at once", "one by one"])
def test_rows_that_do_not_add_up_end_the_run(world: World, progress: ProgressOptions) -> None:
    a, b, c, _ = world.groups
    answers = [a, FailedGroup(b.group_id, VerificationError("19 of 20 positions")), c]
    with pytest.raises(VerificationError, match="19 of 20"):
        world.commit(progress, answers=answers)
    assert world.statuses == ("dfdd" if progress is AT_ONCE else "cfdd")


def test_a_group_that_failed_and_batches_that_did_are_counted_apart(world: World) -> None:
    a, b, c, d = world.groups
    answers = [FailedGroup(a.group_id, CorruptTableError("gone")), b, c, d]
    done = world.commit(ONE_BY_ONE, no_error, always(CommitFailedError("refused")), answers=answers)
    assert type(done) is PartiallyCommitted
    assert (world.statuses, done.findings.metrics["failed-count"]) == ("fcdc", 2)
    assert "2 commits, 1 failed" in world.run.outcome.steps[0].detail


@pytest.mark.parametrize("progress", [AT_ONCE, ONE_BY_ONE], ids=["at once", "one by one"])
def test_an_interrupt_drops_what_is_not_committed(world: World, progress: ProgressOptions) -> None:
    script = [always(KeyboardInterrupt())] if progress is AT_ONCE else [no_error, always(KeyboardInterrupt())]
    with pytest.raises(KeyboardInterrupt):
        world.commit(progress, *script)
    assert world.statuses == ("dddd" if progress is AT_ONCE else "cddd")
    assert world.left == (
        "" if progress is AT_ONCE else "023"
    )  # files of groups that were not answered for are found by their name
    assert world.lake.rows() == sorted(row for i in range(4) for row in numbered(10 * i, 5))


@dataclass(frozen=True, kw_only=True)
class Interrupted(Scripted):
    """Carries a row over to the first group's file, and is interrupted right after the commit, or when the groups are recorded."""

    recorded: bool

    def committed(self, operation: Operation, groups: Sequence[Done], turn: int, commit: CommitStaged) -> CarriedOver:
        done = super().committed(operation, groups, turn, commit)
        if not self.recorded:
            raise KeyboardInterrupt
        return replace(done, rows={groups[0].new.file_path: 3})

    def counts(self, groups: Sequence[Done], batch: Batch, done: CarriedOver) -> Mapping[str, int]:
        raise KeyboardInterrupt


@pytest.mark.parametrize("recorded", [True, False])
def test_what_is_committed_is_recorded_whatever_interrupts_its_record(world: World, recorded: bool) -> None:
    def interrupted(**given: Any) -> Interrupted:
        return Interrupted(**given, recorded=recorded)

    with pytest.raises(KeyboardInterrupt):
        world.commit(AT_ONCE, strategy_of=interrupted)
    assert (world.statuses, world.left) == ("cccc", "0123")
    assert world.run.outcome.changed
    first = world.run.outcome.groups["g0"]
    assert first.status == ("carried-over" if recorded else "committed")
    assert first.reason.count("3 concurrently deleted rows") == recorded
    assert {task.file_path for task in world.lake.tasks()} == {group.new.file_path for group in world.groups}


@pytest.mark.parametrize("progress", [AT_ONCE, ONE_BY_ONE], ids=["at once", "one by one"])
def test_what_a_failed_group_left_is_found_by_its_name(world: World, progress: ProgressOptions) -> None:
    io, folder = world.lake.table.io, f"{world.lake.table.location}/data"
    left, other = f"{folder}/{world.run.operation_id}-g1.parquet", f"{folder}/of-another-run.parquet"
    for location in (left, other):
        io.write(location, b"x")
    a, b, *_ = world.groups
    answers = [a, FailedGroup(b.group_id, CorruptTableError("gone"))]
    if progress is AT_ONCE:
        with pytest.raises(CorruptTableError, match=r"group g1: gone \(nothing was committed\)"):
            world.commit(progress, answers=answers)
    else:
        assert type(world.commit(progress, answers=answers)) is PartiallyCommitted
    assert (io.exists(left), io.exists(other)) == (False, True)
    assert (world.left, world.run.outcome.failures) == ("123" if progress is AT_ONCE else "0123", []), (
        "files of no name of the run stay"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError])
def test_a_commit_is_recorded_also_where_its_entry_is_interrupted(world: World, error: type[BaseException]) -> None:
    class Interrupted(Outcome):
        """Fails when the first commit is entered."""

        tries = 0

        def enter(self, done: Entered) -> None:
            Interrupted.tries += 1
            if Interrupted.tries == 1:
                raise error("now")
            super().enter(done)

    outcome = Interrupted()
    world.run = replace(world.run, outcome=outcome)
    with pytest.raises(error):
        world.commit(AT_ONCE)
    assert (world.statuses, world.left, outcome.changed) == ("cccc", "0123", True)
    assert outcome.snapshot_ids == [world.lake.table.metadata.current_snapshot_id]


def test_an_interrupt_between_work_and_commit_leaves_nothing_behind(world: World) -> None:
    def interrupt(record: logging.LogRecord) -> bool:
        if record.getMessage().endswith(": commit"):
            raise KeyboardInterrupt
        return True

    log = logging.getLogger("iceberg_ops.actions.run.context")
    level = log.level
    log.setLevel(logging.INFO)
    log.addFilter(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            world.commit(AT_ONCE)
    finally:
        log.removeFilter(interrupt)
        log.setLevel(level)
    assert (world.statuses, world.left) == ("dddd", "")


def test_a_batch_that_gets_no_key_is_dropped(world: World) -> None:
    @dataclass(frozen=True)
    class TooMuch(Done):
        @property
        def removed(self) -> tuple[DataFile, ...]:
            raise MemoryError("full")

    a, b, *_ = world.groups
    with pytest.raises(MemoryError):
        world.commit(ONE_BY_ONE, answers=[a, TooMuch(b.group_id, b.old, b.new)])
    assert (world.statuses, world.left) == ("cddd", "023")


def test_rows_that_do_not_add_up_when_a_batch_is_committed_end_the_run(world: World) -> None:
    with pytest.raises(VerificationError, match="59 of 60 rows"):
        world.commit(ONE_BY_ONE, no_error, always(VerificationError("59 of 60 rows")))
    assert (world.statuses, len(world.keys)) == ("cddd", 2)


def test_too_many_failed_commits_are_told_with_what_failed_a_commit_and_not_with_what_failed_a_group(world: World) -> None:
    broken, b, *_ = world.groups
    failed = FailedGroup(broken.group_id, CorruptTableError("file x is broken"))
    with pytest.raises(CommitFailedError, match=r"1 commits failed, more than .* 0: conflict: replaced by others"):
        world.commit(replace(ONE_BY_ONE, max_failed_commits=0), no_error, conflict_with("g1"), answers=[world.groups[2], failed, b])
