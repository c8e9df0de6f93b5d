"""A WAP id is published once on a branch, whatever evidence of the publication an expiry removes."""

from __future__ import annotations

import pytest

from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.refs import RemoveRef, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.protocol import ledger
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.requirements import AssertTableUUID
from iceberg_ops.spec.updates import RemoveSnapshots
from tests.builders import data_file
from tests.commit.test_run_keys import Keyed, done_again


def staged(keyed: Keyed, name: str) -> int:
    """The id of a snapshot that is staged under wap id ``w``."""
    snapshot = keyed.append(name, staged=True, summary={"wap.id": "w"}).snapshot
    assert snapshot is not None
    return snapshot.snapshot_id


def staged_twice() -> tuple[Keyed, int, int]:
    """A table with one snapshot, and two that are staged under one wap id."""
    keyed = Keyed()
    keyed.append("a")
    return keyed, staged(keyed, "b"), staged(keyed, "b again")


def published(keyed: Keyed, snapshot_id: int, by: str) -> int:
    """The head of main, once the snapshot is published on it."""
    if by == "a picked copy":
        keyed.append("between")
    if by == "a branch that moved":
        keyed.commit(SetRef(ref="main", snapshot_id=snapshot_id, replace_existing=True))
    else:
        keyed.commit(CherryPick(snapshot_id=snapshot_id))
    return keyed.table.metadata.current_snapshot_id or 0


@pytest.mark.parametrize("by", ["a fast-forward", "a branch that moved", "a picked copy"])
def test_a_wap_id_that_was_staged_twice_is_published_once_though_its_publication_expired(by: str) -> None:
    keyed, first, second = staged_twice()
    published(keyed, first, by)
    keyed.commit(SetRef(ref="again", snapshot_id=second, type="tag"))
    keyed.append("c")
    before = keyed.rows
    with pytest.raises(ValidationError, match="wap id that was published already: w"):
        keyed.commit(CherryPick(snapshot_id=second))
    keyed.expire()
    with pytest.raises(ValidationError, match="it was published on main already, by snapshot"):
        keyed.commit(CherryPick(snapshot_id=second))
    assert keyed.rows == before


@pytest.mark.parametrize("by", ["a fast-forward", "a branch that moved", "a picked copy"])
def test_a_snapshot_is_not_published_again_where_a_tag_kept_it_and_the_branchs_history_is_cut_after_it(by: str) -> None:
    keyed, first, second = staged_twice()
    head = published(keyed, first, by)
    for name, snapshot_id in (("first", first), ("second", second), ("publication", head)):
        keyed.commit(SetRef(ref=name, snapshot_id=snapshot_id, type="tag"))
    keyed.append("c")
    keyed.append("d")
    before = keyed.rows
    keyed.expire()
    for snapshot_id in (first, second):
        with pytest.raises(ValidationError, match="it was published on main already, by snapshot"):
            keyed.commit(CherryPick(snapshot_id=snapshot_id))
    assert keyed.rows == before


def test_a_wap_id_that_one_branch_published_is_published_on_another_after_an_expiry() -> None:
    keyed = Keyed()
    base = keyed.append("a").snapshot
    assert base is not None
    first, second = staged(keyed, "b"), staged(keyed, "b again")
    keyed.commit(SetRef(ref="other", snapshot_id=base.snapshot_id))
    keyed.commit(SetRef(ref="again", snapshot_id=second, type="tag"))
    keyed.commit(CherryPick(snapshot_id=first))
    keyed.append("c")
    keyed.expire()
    assert done_again(keyed.commit(CherryPick(snapshot_id=second, branch="other")))


@pytest.mark.parametrize("made", ["before the expiry", "after the expiry"])
@pytest.mark.parametrize("by", ["a fast-forward", "a branch that moved", "a picked copy"])
def test_a_branch_that_is_made_of_one_where_it_was_published_does_not_take_it_again(by: str, made: str) -> None:
    keyed, first, second = staged_twice()
    published(keyed, first, by)
    keyed.commit(SetRef(ref="again", snapshot_id=second, type="tag"))
    keyed.append("c")
    for step in (keyed.expire, None) if made == "after the expiry" else (None, keyed.expire):
        if step is not None:
            step()
        else:
            keyed.commit(SetRef(ref="audit", snapshot_id=keyed.table.metadata.current_snapshot_id or 0, type="branch"))
    with pytest.raises(ValidationError, match=r"it was published on (another branch|audit already), by snapshot"):
        keyed.commit(CherryPick(snapshot_id=second, branch="audit"))


def test_a_branch_whose_whole_history_is_there_takes_what_was_published_on_another_one() -> None:
    keyed = Keyed()
    keyed.append("a")
    keyed.commit(SetRef(ref="audit", snapshot_id=keyed.table.metadata.current_snapshot_id or 0, type="branch"))
    first = staged(keyed, "b")
    keyed.append("between")
    keyed.commit(CherryPick(snapshot_id=first, run_key="publish"))
    keyed.commit(SetRef(ref="kept", snapshot_id=first, type="tag"))
    keyed.append("c")
    keyed.expire()
    keyed.commit(CherryPick(snapshot_id=first, branch="audit"))
    assert keyed.table.metadata.refs["audit"].snapshot_id == first


def tagged(keyed: Keyed, snapshot_id: int) -> int:
    keyed.commit(SetRef(ref=f"tag-{snapshot_id}", snapshot_id=snapshot_id, type="tag"))
    return snapshot_id


def appended(keyed: Keyed, name: str) -> int:
    snapshot = keyed.append(name).snapshot
    assert snapshot is not None
    return snapshot.snapshot_id


@pytest.mark.parametrize("first_is_gone", [False, True], ids=["whole history", "history that is cut"])
@pytest.mark.parametrize("expired", [False, True])
def test_a_snapshot_that_a_rollback_took_out_of_a_branch_is_picked_again(expired: bool, first_is_gone: bool) -> None:
    keyed = Keyed()
    first = appended(keyed, "a")
    base = tagged(keyed, appended(keyed, "b"))
    rolled_back = tagged(keyed, appended(keyed, "c"))
    between = appended(keyed, "d")
    appended(keyed, "e")
    if expired:
        keyed.expire(ExpireSnapshots(snapshot_ids=(between,)))
    if first_is_gone:
        keyed.expire(ExpireSnapshots(snapshot_ids=(first,)))
    keyed.commit(SetCurrentSnapshot(snapshot_id=base))
    appended(keyed, "f")
    keyed.commit(CherryPick(snapshot_id=rolled_back))
    assert keyed.rows == {"a", "b", "c", "f"}


def test_a_publication_that_was_rolled_back_and_expired_is_none() -> None:
    keyed = Keyed()
    first = appended(keyed, "a")
    snapshot_id = tagged(keyed, staged(keyed, "b"))
    base = appended(keyed, "c")
    keyed.commit(CherryPick(snapshot_id=snapshot_id))
    keyed.commit(SetCurrentSnapshot(snapshot_id=base))
    appended(keyed, "d")
    keyed.expire()
    assert first not in keyed.table.metadata.snapshots_by_id
    keyed.commit(CherryPick(snapshot_id=snapshot_id, run_key="again"))
    assert keyed.rows == {"a", "b", "c", "d"}


def test_a_publication_that_was_rolled_back_counts_where_a_tag_has_its_rows() -> None:
    keyed = Keyed()
    appended(keyed, "a")
    snapshot_id = tagged(keyed, staged(keyed, "b"))
    base = appended(keyed, "c")
    publication = keyed.commit(CherryPick(snapshot_id=snapshot_id)).snapshot
    assert publication is not None
    tip = tagged(keyed, appended(keyed, "d"))
    keyed.commit(SetCurrentSnapshot(snapshot_id=base))
    appended(keyed, "e")
    keyed.expire()
    assert publication.snapshot_id not in keyed.table.metadata.snapshots_by_id
    keyed.commit(SetRef(ref="made", snapshot_id=tip, type="branch"))
    keyed.commit(RemoveRef(ref=f"tag-{tip}"))
    with pytest.raises(ValidationError, match=r"it was published on (another branch|made already), by snapshot"):
        keyed.commit(CherryPick(snapshot_id=snapshot_id, branch="made", run_key="again"))


def test_an_ordinary_snapshot_is_not_picked_again_where_the_history_that_has_it_is_cut() -> None:
    keyed = Keyed()
    appended(keyed, "a")
    ordinary = tagged(keyed, appended(keyed, "b"))
    appended(keyed, "c")
    appended(keyed, "d")
    keyed.expire()
    with pytest.raises(ValidationError, match="it was published on main already"):
        keyed.commit(CherryPick(snapshot_id=ordinary))
    assert keyed.rows == {"a", "b", "c", "d"}


def test_publications_push_no_run_key_out_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """One publication is remembered for each tag beyond a cut, on each branch."""
    monkeypatch.setattr(ledger, "LEDGER_SIZE", 4)
    monkeypatch.setattr(ledger, "MOST_REMEMBERED", 4)
    keyed = Keyed()
    keyed.append("run", run_key="nightly")
    for n in range(10):
        tagged(keyed, appended(keyed, f"t{n}"))
    between = appended(keyed, "between")
    appended(keyed, "last")
    keyed.expire()
    assert between not in keyed.table.metadata.snapshots_by_id
    assert not done_again(keyed.append("run", run_key="nightly"))


def _refused(keyed: Keyed, snapshot_id: int) -> None:
    before = keyed.rows
    with pytest.raises(ValidationError, match=r"it was published on (another branch|main already), by snapshot"):
        keyed.commit(CherryPick(snapshot_id=snapshot_id))
    assert keyed.rows == before


def _head(keyed: Keyed) -> int:
    return keyed.table.metadata.current_snapshot_id or 0


@pytest.mark.parametrize("hole", ["by this package", "by another engine"])
def test_a_publication_before_a_hole_in_the_history_is_remembered(hole: str) -> None:
    """``x`` after the publication expires first, so that no snapshot that stays is seen to come of the publication."""
    keyed, first, _ = staged_twice()
    base = _head(keyed)
    publication = published(keyed, first, "a picked copy")
    keyed.commit(SetRef(ref="kept", snapshot_id=first, type="tag"))
    keyed.append("x")
    gone = _head(keyed)
    keyed.append("h")
    good = _head(keyed)
    keyed.commit(SetRef(ref="good", snapshot_id=good, type="tag"))
    if hole == "by another engine":
        catalog, uuid = keyed.catalog, keyed.table.metadata.table_uuid
        keyed.table = catalog.commit_table(keyed.table, [AssertTableUUID(uuid)], [RemoveSnapshots((gone,))])
    else:
        keyed.commit(SetCurrentSnapshot(snapshot_id=base))
        keyed.expire(ExpireSnapshots(snapshot_ids=(gone,)))
    keyed.expire(ExpireSnapshots(snapshot_ids=(publication,)))
    keyed.commit(SetCurrentSnapshot(snapshot_id=good))
    _refused(keyed, first)


def test_of_two_publications_on_two_lines_of_a_branch_the_first_is_remembered() -> None:
    keyed, first, _ = staged_twice()
    base = _head(keyed)
    for name, snapshot_id in (("base", base), ("kept", first)):
        keyed.commit(SetRef(ref=name, snapshot_id=snapshot_id, type="tag"))
    lines = []
    for number in (1, 2):
        published(keyed, first, "a fast-forward" if number == 1 else "a picked copy")
        keyed.commit(SetRef(ref=f"publication {number}", snapshot_id=_head(keyed), type="tag"))
        keyed.append(f"x{number}")
        gone = _head(keyed)
        keyed.append(f"h{number}")
        lines.append(_head(keyed))
        keyed.commit(SetRef(ref=f"line {number}", snapshot_id=lines[-1], type="tag"))
        keyed.expire(ExpireSnapshots(snapshot_ids=(gone,)))
        if number == 1:
            keyed.commit(SetCurrentSnapshot(snapshot_id=base))
            keyed.append("y")
    for head in lines:
        keyed.commit(SetCurrentSnapshot(snapshot_id=head))
        _refused(keyed, first)


@pytest.fixture
def two_branches() -> Keyed:
    """A table whose branches main and z have a commit of their own each."""
    keyed = Keyed()
    keyed.append("a")
    keyed.commit(SetRef(ref="z", snapshot_id=_head(keyed)))
    keyed.append("on z", branch="z")
    return keyed


def picked(keyed: Keyed, snapshot_id: int, branch: str = "main") -> int:
    """The id of the copy."""
    copy = keyed.commit(CherryPick(snapshot_id=snapshot_id, branch=branch)).snapshot
    assert copy is not None
    return copy.snapshot_id


@pytest.mark.parametrize("wap", [{}, {"wap.id": "w"}], ids=["no wap id", "wap id"])
@pytest.mark.parametrize("by", ["a fast-forward", "a branch that moved", "a picked copy", "an append"])
def test_a_copy_is_not_picked_where_what_it_is_a_copy_of_is(two_branches: Keyed, by: str, wap: dict[str, str]) -> None:
    keyed = two_branches
    if by == "an append":
        source = appended(keyed, "b")
    else:
        snapshot = keyed.append("b", staged=True, summary=wap).snapshot
        assert snapshot is not None
        source = snapshot.snapshot_id
        published(keyed, source, by)
    copy = picked(keyed, source, "z")
    keyed.append("c")
    before = keyed.rows
    with pytest.raises(ValidationError, match=f"Cannot cherrypick snapshot {copy}: it is a copy of {source}, which is an ancestor"):
        keyed.commit(CherryPick(snapshot_id=copy))
    assert keyed.rows == before


def test_a_copy_is_picked_where_neither_it_nor_its_source_is(two_branches: Keyed) -> None:
    keyed = two_branches
    keyed.append("between")
    copy = picked(keyed, staged(keyed, "b"), "z")
    keyed.append("after")
    last = picked(keyed, copy)
    assert keyed.table.metadata.snapshots_by_id[last].summary["published-wap-id"] == "w"
    assert keyed.rows == {"a", "between", "b", "after"}


@pytest.mark.parametrize("engine", ["this package", "another engine"])
def test_a_copy_of_a_copy_is_known_by_what_was_copied_first_once_the_copy_between_has_expired(
    two_branches: Keyed, engine: str
) -> None:
    keyed = two_branches
    source = appended(keyed, "b")
    copy = tagged(keyed, picked(keyed, source, "z"))
    keyed.commit(SetRef(ref="y", snapshot_id=keyed.table.metadata.snapshots[0].snapshot_id))
    keyed.append("on y", branch="y")
    last = picked(keyed, copy, "y")
    for ref in ("z", f"tag-{copy}"):
        keyed.commit(RemoveRef(ref=ref))
    if engine != "another engine":
        keyed.expire(ExpireSnapshots(snapshot_ids=(copy,), older_than_ms=0))
    else:
        uuid = AssertTableUUID(keyed.table.metadata.table_uuid)
        keyed.table = keyed.catalog.commit_table(keyed.table, [uuid], [RemoveSnapshots((copy,))])
    for snapshot_id, branch in ((last, "main"), (source, "y")):
        with pytest.raises(ValidationError, match=f"Cannot cherrypick snapshot {snapshot_id}: "):
            keyed.commit(CherryPick(snapshot_id=snapshot_id, branch=branch))


@pytest.mark.parametrize("of_a_copy", [False, True])
def test_a_copy_is_not_picked_where_its_source_was_and_has_expired(two_branches: Keyed, of_a_copy: bool) -> None:
    keyed = two_branches
    source = appended(keyed, "b")
    copy = tagged(keyed, picked(keyed, source, "z"))
    if of_a_copy:
        keyed.commit(SetRef(ref="y", snapshot_id=keyed.table.metadata.snapshots[0].snapshot_id))
        keyed.append("on y", branch="y")
        copy = tagged(keyed, picked(keyed, copy, "y"))
    keyed.append("c")
    # The rows of "b" are in another file by now: only the ledger knows.
    keyed.commit(RewriteFiles(removed_data=(data_file("b"),), added_data=(data_file("b2"),), starting_snapshot_id=_head(keyed)))
    keyed.append("d")
    keyed.expire()
    assert source not in keyed.table.metadata.snapshots_by_id
    _refused(keyed, copy)


def test_a_staged_snapshot_that_expired_unpublished_leaves_its_wap_id_free(two_branches: Keyed) -> None:
    keyed = two_branches
    first = staged(keyed, "b")
    copy = picked(keyed, first, "z")
    keyed.append("c")
    keyed.append("d")
    keyed.expire()
    assert first not in keyed.table.metadata.snapshots_by_id
    picked(keyed, copy)
    assert keyed.rows == {"a", "b", "c", "d"}


def test_a_snapshot_behind_a_hole_that_another_engine_made_is_not_picked_where_its_file_is() -> None:
    keyed = Keyed()
    first, second = appended(keyed, "a"), appended(keyed, "b")
    keyed.append("c")
    uuid = AssertTableUUID(keyed.table.metadata.table_uuid)
    keyed.table = keyed.catalog.commit_table(keyed.table, [uuid], [RemoveSnapshots((second,))])
    with pytest.raises(ValidationError, match=f"Cannot cherrypick snapshot {first}: its file a is live on main already"):
        keyed.commit(CherryPick(snapshot_id=first))
    assert keyed.rows == {"a", "b", "c"}


def test_a_wap_id_whose_publication_lies_behind_a_hole_that_another_engine_made_is_not_published_again() -> None:
    keyed, first, second = staged_twice()
    published(keyed, first, "a fast-forward")
    hole = appended(keyed, "hole")
    appended(keyed, "c")
    uuid = AssertTableUUID(keyed.table.metadata.table_uuid)
    keyed.table = keyed.catalog.commit_table(keyed.table, [uuid], [RemoveSnapshots((hole,))])
    with pytest.raises(ValidationError, match=f"of its wap id is snapshot {first}, whose file b is live on main already"):
        keyed.commit(CherryPick(snapshot_id=second))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("engine", ["this package", "this package, then a compaction", "another engine"])
@pytest.mark.parametrize("again", ["the last copy", "the first source"])
def test_a_copy_that_another_engine_made_of_a_copy_that_has_expired_is_known(again: str, engine: str, version: int) -> None:
    """It records its direct source only. By the ledger where this package expired that; else by its files."""
    keyed = Keyed(version=version)
    keyed.append("a")
    for branch in ("y", "z"):
        keyed.commit(SetRef(ref=branch, snapshot_id=_head(keyed)))
        keyed.append(f"on {branch}", branch=branch)
    source = appended(keyed, "b")
    copy = picked(keyed, source, "z")
    last = keyed.append("b", branch="y", summary={"source-snapshot-id": str(copy)}).snapshot
    assert last is not None
    keyed.commit(RemoveRef(ref="z"))
    if engine != "another engine":
        keyed.expire(ExpireSnapshots(snapshot_ids=(copy,), older_than_ms=0))
    else:
        uuid = AssertTableUUID(keyed.table.metadata.table_uuid)
        keyed.table = keyed.catalog.commit_table(keyed.table, [uuid], [RemoveSnapshots((copy,))])
    snapshot_id, branch = (last.snapshot_id, "main") if again == "the last copy" else (source, "y")
    if "compaction" in engine:
        keyed.commit(RewriteFiles(removed_data=(data_file("b"),), added_data=(data_file("compacted"),), branch=branch))
    why = {"the last copy": f"it is a copy of {source}", "the first source": "already picked to create ancestor"}[again]
    expected = f"its file b is live on {branch} already" if engine == "another engine" else why
    with pytest.raises(ValidationError, match=f"Cannot cherrypick snapshot {snapshot_id}: {expected}"):
        keyed.commit(CherryPick(snapshot_id=snapshot_id, branch=branch))


def test_a_copy_of_what_another_engine_copied_records_the_first_source(two_branches: Keyed) -> None:
    keyed = two_branches
    source = appended(keyed, "b")
    copy = picked(keyed, source, "z")
    for branch in ("x", "y"):
        keyed.commit(SetRef(ref=branch, snapshot_id=keyed.table.metadata.snapshots[0].snapshot_id))
        keyed.append(f"on {branch}", branch=branch)
    theirs = keyed.append("b", branch="y", summary={"source-snapshot-id": str(copy)}).snapshot
    assert theirs is not None
    last = picked(keyed, theirs.snapshot_id, "x")
    assert keyed.table.metadata.snapshots_by_id[last].summary["iceberg-ops.first-source-snapshot-id"] == str(source)
