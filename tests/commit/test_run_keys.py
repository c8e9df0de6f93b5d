"""A run key identifies one piece of work: an action on a branch, staged or not. It is remembered for long, but never for undone
work."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.refs import RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol import ledger
from iceberg_ops.commit.protocol.ledger import LEDGER_SIZE
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.commit.protocol.run_keys import MADE_UP, Publication, RunIdentity, find_run
from iceberg_ops.config.properties import LEDGER_FILE_PREFIX, LEDGER_PREFIX
from iceberg_ops.errors import CorruptTableError, RunKeyReusedError, ValidationError
from iceberg_ops.table.metadata_files import ledger_files
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import LosesTheAnswer, Meddles

ALL = ExpireSnapshots(older_than_ms=2**60, retain_last=1)

MADE_UP_KEY = {MADE_UP: "true"}


class Keyed:
    def __init__(self, version: int = 2) -> None:
        self.catalog = make_catalog()
        self.table = make_table(self.catalog, version=version)

    def commit(self, operation: Any) -> Committed:
        done = commit(self.catalog, self.table, operation)
        self.table = done.table
        return done

    def append(self, name: str, **fields: Any) -> Committed:
        return self.commit(AppendFiles(added=(data_file(name),), merge=False, **fields))

    def expire(self, operation: ExpireSnapshots = ALL) -> Table:
        expire(self.catalog, self.table, operation)
        self.table = self.catalog.load_table(IDENTIFIER)
        return self.table

    @property
    def rows(self) -> set[str]:
        return live_paths(self.table)


def done_again(done: Committed) -> bool:
    return not done.already_committed


def test_a_delete_under_the_key_of_an_append_is_done() -> None:
    keyed = Keyed()
    keyed.append("a", run_key="orders-1")
    assert done_again(keyed.commit(DeleteFiles(paths=("a",), run_key="orders-1")))
    assert keyed.rows == set()
    keyed.expire()
    assert not done_again(keyed.commit(DeleteFiles(paths=("a",), run_key="orders-1")))
    assert not done_again(keyed.append("a", run_key="orders-1"))


def test_an_append_to_another_branch_under_the_same_key_is_done() -> None:
    keyed = Keyed()
    keyed.append("a", run_key="k")
    assert done_again(keyed.append("b", run_key="k", branch="audit"))
    assert not done_again(keyed.append("b", run_key="k", branch="audit"))
    assert (live_paths(keyed.table, "audit"), keyed.rows) == ({"a", "b"}, {"a"})


@pytest.mark.parametrize("moved", [False, True])
def test_what_was_staged_under_a_key_is_published_under_the_same_one(moved: bool) -> None:
    keyed = Keyed()
    keyed.append("a")
    staged = keyed.append("b", run_key="k", staged=True, summary={"wap.id": "w"})
    if moved:
        keyed.append("c")
    assert staged.snapshot is not None
    picking = CherryPick(snapshot_id=staged.snapshot.snapshot_id, run_key="k")
    assert done_again(keyed.commit(picking))
    assert not done_again(keyed.commit(picking))
    assert keyed.rows == {"a", "b"} | ({"c"} if moved else set())


def test_the_key_of_a_ref_counts_for_that_ref() -> None:
    keyed = Keyed()
    head = keyed.append("a").table.metadata.current_snapshot_id or 0
    for ref in ("one", "two"):
        assert done_again(keyed.commit(SetRef(ref=ref, snapshot_id=head, type="tag", run_key="k")))
        assert not done_again(keyed.commit(SetRef(ref="one", snapshot_id=head, type="tag", run_key="k")))
    assert done_again(keyed.commit(RemoveRef(ref="one", run_key="k")))
    assert done_again(keyed.commit(RemoveRef(ref="two", run_key="k")))
    assert set(keyed.table.metadata.refs) == {"main"}


def test_the_key_of_a_rename_counts_for_its_two_names() -> None:
    keyed = Keyed()
    head = keyed.append("a").table.metadata.current_snapshot_id or 0
    for ref in ("a", "a to b", "x%20y", "x"):
        keyed.commit(SetRef(ref=ref, snapshot_id=head))
    for old, new in (("a", "b to c"), ("a to b", "c"), ("x", "y to z"), ("x%20y", "to z")):
        assert done_again(keyed.commit(RenameBranch(old=old, new=new, run_key="k")))
        assert not done_again(keyed.commit(RenameBranch(old=old, new=new, run_key="k")))
    assert set(keyed.table.metadata.refs) == {"main", "b to c", "c", "y to z", "to z"}


def test_a_known_key_with_other_work_is_an_error() -> None:
    keyed = Keyed()
    keyed.append("a", run_key="k", summary={"iceberg-ops.work": "source-1"})
    assert not done_again(keyed.append("a", run_key="k", summary={"iceberg-ops.work": "source-1"}))
    assert not done_again(keyed.append("a", run_key="k")), "who does not say what it does is not asked"
    with pytest.raises(
        RunKeyReusedError, match=r"run key 'k' of append on table test\.ns\.t, branch main, was used for other work: it"
    ):
        keyed.append("b", run_key="k", summary={"iceberg-ops.work": "source-2"})
    keyed.append("last")
    keyed.expire()
    assert not done_again(keyed.append("a", run_key="k", summary={"iceberg-ops.work": "source-1"}))
    with pytest.raises(RunKeyReusedError, match="it made an expired snapshot"):
        keyed.append("b", run_key="k", summary={"iceberg-ops.work": "source-2"})
    assert keyed.rows == {"a", "last"}


def test_a_staged_snapshot_that_expires_unpublished_is_staged_again_under_its_key() -> None:
    keyed = Keyed()
    keyed.append("a")
    keyed.append("b", run_key="k", staged=True, summary={"wap.id": "w"})
    keyed.append("c")
    keyed.expire()
    assert done_again(keyed.append("b", run_key="k", staged=True, summary={"wap.id": "w"}))
    assert done_again(keyed.commit(CherryPick(wap_id="w", run_key="k")))
    assert keyed.rows == {"a", "b", "c"}


def test_a_staged_snapshot_that_was_published_is_not_staged_again_after_it_expired() -> None:
    keyed = Keyed()
    keyed.append("a")
    keyed.append("b", run_key="k", staged=True, summary={"wap.id": "w"})
    keyed.append("c")
    keyed.commit(CherryPick(wap_id="w"))
    keyed.append("d")
    keyed.expire()
    assert not done_again(keyed.append("b", run_key="k", staged=True, summary={"wap.id": "w"}))


@pytest.mark.parametrize("by", ["snapshot", "wap id"])
def test_a_staged_snapshot_is_not_published_twice_though_what_published_it_expired(by: str) -> None:
    keyed = Keyed()
    keyed.append("a")
    staged = keyed.append("b", staged=True, summary={"wap.id": "w"}).snapshot
    assert staged is not None
    keyed.commit(SetRef(ref="kept", snapshot_id=staged.snapshot_id, type="tag"))
    keyed.append("c")
    picking = CherryPick(snapshot_id=staged.snapshot_id) if by == "snapshot" else CherryPick(wap_id="w")
    keyed.commit(picking)
    keyed.append("d")
    keyed.expire()
    with pytest.raises(ValidationError, match=r"it was published on main already, by snapshot \d+, which has expired"):
        keyed.commit(picking)
    assert keyed.rows == {"a", "b", "c", "d"}


def test_keys_outlive_any_number_of_runs() -> None:
    keyed = Keyed()
    for n in range(LEDGER_SIZE + 10):
        keyed.append(f"f{n}", run_key=f"k{n}")
        if n % 30 == 29:
            keyed.expire()
    keyed.append("last")
    table = keyed.expire()
    properties = [k for k in table.properties if k.startswith((LEDGER_PREFIX, LEDGER_FILE_PREFIX))]
    assert len(properties) <= LEDGER_SIZE, "the rest lies in a file"
    for n in range(LEDGER_SIZE + 10):
        assert not done_again(keyed.append(f"f{n}", run_key=f"k{n}")), n
    assert done_again(keyed.append("new", run_key="new"))


def test_old_keys_never_push_out_one_that_was_entered_a_moment_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MOST_REMEMBERED", LEDGER_SIZE + 1)
    keyed = Keyed()
    for n in range(LEDGER_SIZE + 10):
        keyed.append(f"f{n}", run_key=f"k{n}", timestamp_ms=1_000_000 + n)
    keyed.commit(UpdateProperties(updates={"x": "1"}, run_key="just now"))
    keyed.append("last")
    table = keyed.expire()
    assert find_run(table, RunIdentity(key="just now", action="update_properties")) is not None
    assert find_run(table, RunIdentity(key=f"k{LEDGER_SIZE + 9}", action="append")) is not None
    assert find_run(table, RunIdentity(key="k0", action="append")) is None, "the oldest go first"


def test_a_ledger_file_is_kept_while_the_table_names_it_and_goes_when_another_takes_its_place() -> None:
    keyed = Keyed()
    files: list[str] = []
    for round_ in range(3):
        for n in range(LEDGER_SIZE + 2):
            keyed.append(f"f{round_}-{n}", run_key=f"k{round_}-{n}")
        table = keyed.expire()
        (location,) = ledger_files(table.metadata)
        assert location in set(reachable_files(table))
        files.append(location)
        assert [path for path in files if table.io.exists(path)] == [location]


def test_two_expiries_at_once_lose_no_key() -> None:
    keyed = Keyed()
    for n in range(LEDGER_SIZE + 10):
        keyed.append(f"f{n}", run_key=f"k{n}")
    first = [s.snapshot_id for s in keyed.table.metadata.snapshots]
    half = ExpireSnapshots(older_than_ms=0, retain_last=1, snapshot_ids=tuple(first[:40]))
    other = Meddles(keyed.catalog, lambda: expire(keyed.catalog, keyed.catalog.load_table(IDENTIFIER), half))
    expire(other, keyed.table, ALL)
    keyed.table = keyed.catalog.load_table(IDENTIFIER)
    for n in range(LEDGER_SIZE + 9):
        assert not done_again(keyed.append(f"f{n}", run_key=f"k{n}")), n


def test_a_ledger_file_that_is_missing_is_an_error_for_who_asks_for_a_key() -> None:
    keyed = Keyed()
    for n in range(LEDGER_SIZE + 2):
        keyed.append(f"f{n}", run_key=f"k{n}")
    table = keyed.expire()
    ledger.CACHE.clear()
    (location,) = ledger_files(table.metadata)
    keyed.catalog.io.delete(location)
    assert done_again(keyed.append("without a key"))
    with pytest.raises(CorruptTableError, match=r"ledger file .* of table test\.ns\.t, which remembers run keys, does not exist"):
        keyed.append("a", run_key="k")


def test_a_made_up_key_is_remembered_for_rows_and_for_nothing_else() -> None:
    """A user may run a job again with a key from a report."""
    keyed = Keyed()
    keyed.append("a", run_key="made up", summary=MADE_UP_KEY)
    keyed.commit(RewriteFiles(removed_data=(data_file("a"),), added_data=(data_file("b"),), run_key="rewrite", summary=MADE_UP_KEY))
    keyed.append("last")
    keyed.commit(UpdateProperties(updates={"x": "1"}, run_key="change", summary=MADE_UP_KEY))
    keyed.commit(ExpireSnapshots(older_than_ms=2**60, retain_last=1, run_key="expiry", summary=MADE_UP_KEY))
    assert [k for k in keyed.table.properties if k.startswith(LEDGER_PREFIX)] == [f"{LEDGER_PREFIX}append@main:made up"]
    assert not done_again(keyed.append("a", run_key="made up"))


@pytest.mark.parametrize("key", ["run-1", f"run-{uuid.uuid4()}", f"run-{uuid.uuid4()}/0123456789ab"], ids=range(3))
def test_a_given_key_is_remembered_whatever_it_looks_like(key: str) -> None:
    """Earlier releases made keys up that look so, and did not say in the snapshot that they did."""
    keyed = Keyed()
    keyed.append("a", run_key=key)
    keyed.commit(UpdateProperties(updates={"x": "first"}, run_key=key))
    keyed.commit(UpdateProperties(updates={"x": "changed by another"}))
    assert not done_again(keyed.commit(UpdateProperties(updates={"x": "first"}, run_key=key)))
    keyed.append("last")
    keyed.expire()
    assert not done_again(keyed.append("a", run_key=key))
    assert (keyed.table.properties["x"], keyed.rows) == ("changed by another", {"a", "last"})


def test_made_up_keys_push_no_given_ones_out_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MOST_REMEMBERED", 3)
    keyed = Keyed()
    keyed.append("given", run_key="given", timestamp_ms=1_000_000)
    for n in range(LEDGER_SIZE):
        keyed.append(f"f{n}", run_key=f"k{n}", summary=MADE_UP_KEY, timestamp_ms=1_000_001 + n)
    keyed.append("last")
    table = keyed.expire()
    keys = ["given", *(f"k{n}" for n in range(LEDGER_SIZE))]
    assert [k for k in keys if find_run(table, RunIdentity(key=k, action="append"))] == ["given", *keys[-3:]]


def test_a_rolled_back_run_is_not_done_again_under_its_key_before_and_after_its_snapshot_expired() -> None:
    keyed = Keyed()
    before = keyed.append("a").table.metadata.current_snapshot_id
    first = keyed.append("b", run_key="job/1")
    keyed.commit(RollBack(snapshot_id=before))
    again = keyed.append("b", run_key="job/1")
    assert (again.already_committed, again.snapshot, keyed.rows) == (True, first.snapshot, {"a"})
    keyed.expire()
    again = keyed.append("b", run_key="job/1")
    assert (again.already_committed, again.snapshot) == (True, None)
    found = find_run(again.table, RunIdentity(key="job/1", action="append"))
    assert found is not None
    assert first.snapshot is not None
    assert found.snapshot_id == first.snapshot.snapshot_id
    keyed.append("b", run_key="job/2")
    assert keyed.rows == {"a", "b"}


def test_a_repeated_transaction_finds_its_snapshot() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    both = Transaction(operations=(AppendFiles(added=(data_file("a"),)), UpdateProperties(updates={"b": "c"})), run_key="job/1")
    first = commit(LosesTheAnswer(catalog), table, both, sleep=lambda _: None)
    again = commit(catalog, table, both)
    assert (again.already_committed, again.snapshot, live_paths(again.table)) == (True, first.snapshot, {"a"})


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("how", ["alone", "in a transaction"])
def test_one_run_submitted_twice_at_once_stages_one_snapshot(how: str, version: int) -> None:
    """No branch moves, and v1 snapshots have no sequence numbers: only the run key makes the two collide."""
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog, version=version), AppendFiles(added=(data_file("base"),))).table

    def staging(name: str) -> Any:
        append = AppendFiles(added=(data_file(name),), staged=True, run_key="K", summary={"wap.id": "w"})
        return append if how == "alone" else Transaction(operations=(append,), run_key="K")

    meddling = Meddles(catalog, lambda: commit(catalog, table, staging("a")))
    assert commit(meddling, table, staging("b"), sleep=lambda _: None).already_committed
    assert len(catalog.load_table(IDENTIFIER).metadata.snapshots) == 2
    done = commit(catalog, table, CherryPick(wap_id="w"))
    assert live_paths(done.table) == {"base", "a"}


def test_a_change_of_metadata_submitted_twice_at_once_is_done_once() -> None:
    """The second would undo another writer's change after the first."""
    keyed = Keyed()
    change = UpdateProperties(updates={"owner": "a"}, run_key="K")

    def meanwhile() -> None:
        keyed.commit(change)
        keyed.commit(UpdateProperties(updates={"owner": "b"}))

    commit(Meddles(keyed.catalog, meanwhile), keyed.table, change, sleep=lambda _: None)
    assert keyed.catalog.load_table(IDENTIFIER).properties["owner"] == "b"


def test_a_change_of_metadata_is_done_once_though_an_expiry_moves_its_key_into_a_ledger_file_meanwhile() -> None:
    """The properties no longer show it, and the swap reads no file: it is refused, and the run looked for again."""
    keyed = Keyed()
    for n in range(LEDGER_SIZE + 2):
        keyed.append(f"x{n}", run_key=f"x{n}")
    change = UpdateProperties(updates={"owner": "a"}, run_key="K")

    def meanwhile() -> None:
        keyed.commit(change)
        keyed.commit(UpdateProperties(updates={"owner": "b"}))
        keyed.expire()

    commit(Meddles(keyed.catalog, meanwhile), keyed.table, change, sleep=lambda _: None)
    now = keyed.catalog.load_table(IDENTIFIER)
    assert ledger_files(now.metadata), "the expiry moved the keys"
    assert now.properties["owner"] == "b"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_run_that_is_not_found_is_committed_at_its_first_attempt(version: int) -> None:
    """What the loop finds committed and what the swap refuses as committed is one and the same: the loop would never end."""
    catalog = make_catalog()
    table = make_table(catalog, version=version)
    stages = [(branch, staged) for branch in ("main", "b") for staged in (True, False)]
    for key, order in (("K", stages), ("L", stages[::-1])):
        for branch, staged in order:
            name = f"{key}-{branch}-{staged}"
            summary = {"wap.id": name} if staged else {}
            run = AppendFiles(added=(data_file(name),), branch=branch, staged=staged, run_key=key, summary=summary)
            done = commit(catalog, table, run, sleep=_never)
            assert (done.attempts, done.already_committed) == (1, False)
            assert commit(catalog, done.table, run).already_committed


def _never(_: float) -> None:
    raise AssertionError("it is committed at once")


def test_the_swap_knows_a_run_by_the_name_it_had_in_the_ledger_before_names_were_coded() -> None:
    run = RunIdentity(key="K", action="append", branch="a%b")
    older = run.older_ledger_name
    assert older is not None
    keyed = Keyed()
    meddling = Meddles(keyed.catalog, lambda: keyed.commit(UpdateProperties(updates={older: "7@1"})))
    append = AppendFiles(added=(data_file("x"),), branch=run.branch, run_key=run.key)
    assert commit(meddling, keyed.table, append, sleep=lambda _: None).already_committed


def test_two_runs_at_once_under_one_key_with_other_work_are_not_both_taken() -> None:
    keyed = Keyed()

    def staging(work: str) -> AppendFiles:
        summary = {"wap.id": work, "iceberg-ops.work": work}
        return AppendFiles(added=(data_file(work),), staged=True, run_key="K", summary=summary)

    table = keyed.table
    with pytest.raises(RunKeyReusedError):
        commit(Meddles(keyed.catalog, lambda: keyed.commit(staging("x"))), table, staging("y"), sleep=lambda _: None)


texts = st.lists(st.sampled_from(["a", ":", "@", "+staged", "+", "%3A", "%", "published-wap", ""]), max_size=4).map("".join)
runs = st.builds(RunIdentity, key=texts, action=texts, branch=texts, staged=st.booleans())


@given(one=runs, other=runs)
def test_no_two_runs_have_one_name_in_the_ledger(one: RunIdentity, other: RunIdentity) -> None:
    assert (one.ledger_name == other.ledger_name) is (one == other)
    assert one.older_ledger_name != other.ledger_name
    assert one.ledger_name not in Publication(frozenset(), frozenset({other.key})).names(other.branch)
    assert one.older_ledger_name not in Publication(frozenset(), frozenset({other.key})).names(other.branch)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"branch": "a", "run_key": "b:1"}, {"branch": "a:b", "run_key": "1"}),
        ({"branch": "x", "run_key": "k", "staged": True}, {"branch": "x+staged", "run_key": "k"}),
    ],
)
def test_a_run_is_not_taken_for_another_whose_branch_and_key_read_the_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    keyed = Keyed()
    keyed.append("base")
    for branch in (first["branch"], second["branch"]):
        keyed.commit(SetRef(ref=branch, snapshot_id=keyed.table.metadata.current_snapshot_id or 0))
    done = keyed.append("one", **first)
    assert done.snapshot is not None
    keyed.append("two", branch=first["branch"])
    if "staged" in first:
        keyed.commit(CherryPick(snapshot_id=done.snapshot.snapshot_id, branch=first["branch"]))
    keyed.expire()
    assert not done_again(keyed.append("one", **first))
    assert done_again(keyed.append("wanted", **second))
    assert "wanted" in live_paths(keyed.table, second["branch"])


@pytest.mark.parametrize("run", [RunIdentity(key="a:1", action="append"), RunIdentity(key="k", action="an@action", branch="b%c")])
def test_a_run_is_known_by_the_name_it_had_before_names_were_coded(run: RunIdentity) -> None:
    keyed = Keyed()
    name = f"{LEDGER_PREFIX}{run.action}@{run.branch}:{run.key}"
    assert find_run(keyed.table, run) is None
    assert find_run(keyed.commit(UpdateProperties(updates={name: "7@1"})).table, run) is not None


class StagedOnce(Keyed):
    """A staged append under a key, kept by a tag, and ways to publish it."""

    def __init__(self, publish: str) -> None:
        super().__init__()
        self.append("base")
        staged = self.stage()
        assert staged.snapshot is not None
        self.id = staged.snapshot.snapshot_id
        self.commit(SetRef(ref="kept", snapshot_id=self.id, type="tag"))
        if publish == "picked":
            self.append("other")
        if publish in ("picked", "fast-forwarded"):
            self.commit(CherryPick(wap_id="w"))
        elif publish == "fast-forwarded on a branch":
            parent = self.table.metadata.snapshots_by_id[self.id].parent_snapshot_id or 0
            self.commit(SetRef(ref="audit", snapshot_id=parent))
            self.commit(CherryPick(wap_id="w", branch="audit"))
        elif publish == "made current":
            self.commit(SetCurrentSnapshot(snapshot_id=self.id))

    def stage(self) -> Committed:
        return self.commit(AppendFiles(added=(data_file("w"),), staged=True, run_key="K", summary={"wap.id": "w"}))

    def expire_it(self) -> None:
        """What published it goes first, then the snapshot itself."""
        self.append("later")
        self.expire()
        self.commit(RemoveRef(ref="kept"))
        self.expire()
        assert self.id not in self.table.metadata.snapshots_by_id


@pytest.mark.parametrize("publish", ["picked", "fast-forwarded", "fast-forwarded on a branch", "made current"])
@pytest.mark.parametrize("undone", [False, True])
def test_what_was_published_once_is_not_staged_again_under_its_key(publish: str, undone: bool) -> None:
    """Not even after a rollback, which forgets no key."""
    once = StagedOnce(publish)
    branch = "audit" if "branch" in publish else "main"
    if undone:
        head = once.table.metadata.branch_head(branch)
        once.commit(RollBack(snapshot_id=head.parent_snapshot_id if head else 0, branch=branch))
        once.append("instead", branch=branch)
    elif branch == "audit":
        once.append("more", branch=branch)
    once.expire_it()
    assert not done_again(once.stage())


def test_a_staged_snapshot_that_only_a_tag_kept_is_staged_again_under_its_key() -> None:
    once = StagedOnce("never")
    once.commit(SetRef(ref="kept", snapshot_id=once.id, type="tag", replace_existing=True, max_ref_age_ms=1))
    once.append("later", timestamp_ms=2**50)
    once.expire(replace(ALL, now_ms=2**50))
    assert once.id not in once.table.metadata.snapshots_by_id
    assert done_again(once.stage())
