"""Finds out whether a piece of work has already been committed.

A run key names one piece of work in all its retries, in any process. It counts together with the kind of work: the action,
the branch, and whether the snapshot is staged (write-audit-publish). So a delete under an append's key is separate work, and so
is the publication of a staged snapshot under its staging job's key. A run may also identify its work (``work``, a digest of its
source and change): the same key with other work is an error, because one of the two would never be done.

The summary of a snapshot holds its run key. When this package expires that snapshot, the key moves into a ledger in the table's
properties (``ledger``). Operations that make no snapshot enter theirs at once, and so does a complete run whose commits carry
separate keys. The key of a staged snapshot that expires unpublished does not enter the ledger: its work is undone, and is done
again if the key is used again. A published one is remembered by its publication: a branch that moves to it enters it at once, a
picked copy when the copy expires. The same holds for its WAP id, on each branch whose history an expiry cuts off there.

A run without a given key makes one up, which its report shows, because a user may run again with that key. The snapshot records
that the key was made up, and so does the ledger, where made-up keys do not push out given ones. They enter it only for snapshots
that change rows; other work under them (a rewrite, an expiry) is harmless when it is done again.

A rollback forgets nothing: the snapshot and its key stay until they expire. To redo a run after a rollback, use another key;
otherwise a late retry would silently undo the rollback."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from iceberg_ops.commit.protocol.ledger import MADE_UP_MARK, PUBLICATION, entries_whose_name, ledger_entry, names_publication
from iceberg_ops.config.properties import LEDGER_PREFIX
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import CorruptTableError, RunKeyReusedError
from iceberg_ops.spec.requirements import AssertNoRun
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import ledger_files
from iceberg_ops.table.same_table import same_table
from iceberg_ops.table.table import Table

RUN_KEY = "iceberg-ops.run-key"
ACTION = "iceberg-ops.action"
BRANCH = "iceberg-ops.branch"
STAGED = "iceberg-ops.staged"
WORK = "iceberg-ops.work"
PLAN_ID = "iceberg-ops.plan-id"
SOURCE = "source-snapshot-id"
PUBLISHED_WAP_ID = "published-wap-id"
"""Summary key of a snapshot that publishes another (Java: SnapshotSummary)."""
FIRST_SOURCE = "iceberg-ops.first-source-snapshot-id"
"""Summary key of a copy of a copy: the snapshot that was copied first."""
WAP_ID = "wap.id"
"""Summary key of a staged snapshot (write-audit-publish)."""
MADE_UP = "iceberg-ops.run-key-made-up"
"""Summary key of a snapshot whose run had no given key and made one up."""
IDENTITY_KEYS = frozenset({RUN_KEY, ACTION, BRANCH, STAGED, WORK, MADE_UP})
_STAGED = "+staged"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """A run key and the work under it. ``work`` None: unknown. ``made_up``: the run had no given key; a later run that is given
    this key is the same run."""

    key: str
    action: str
    branch: str = MAIN_BRANCH
    staged: bool = False
    work: str | None = None
    made_up: bool = False

    @property
    def ledger_name(self) -> str:
        """The property that holds the run in the ledger; it is unique per run."""
        return (
            f"{LEDGER_PREFIX}{_coded_action(self.action)}@{_coded_branch(self.branch)}{_STAGED if self.staged else ''}:{self.key}"
        )

    @property
    def older_ledger_name(self) -> str | None:
        """The property that held it before names were encoded; None if that is the same, or is now the name of another run."""
        name = f"{LEDGER_PREFIX}{self.action}@{self.branch}{_STAGED if self.staged else ''}:{self.key}"
        return None if _is_coded(name) else name

    @property
    def ledger_names(self) -> tuple[str, ...]:
        """Every property that may hold the run in the ledger, the present one first."""
        older = self.older_ledger_name
        return (self.ledger_name,) if older is None else (self.ledger_name, older)

    def made(self, snapshot: Snapshot) -> bool:
        """Whether the run made the snapshot: key, action, branch and stage agree."""
        summary = snapshot.summary
        return (
            summary.get(RUN_KEY) == self.key
            and summary.get(ACTION, self.action) == self.action
            and summary.get(BRANCH, self.branch) == self.branch
            and (STAGED in summary) == self.staged
        )

    @property
    def summary(self) -> dict[str, str]:
        """The summary keys that a snapshot records about the run that made it."""
        return {
            RUN_KEY: self.key,
            BRANCH: self.branch,
            **({STAGED: "true"} if self.staged else {}),
            **({} if self.work is None else {WORK: self.work}),
            **({MADE_UP: "true"} if self.made_up else {}),
        }


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A commit with the run key: its snapshot's id (None: it made none) and the snapshot, if it is still in the table."""

    snapshot_id: int | None
    snapshot: Snapshot | None


def find_run(table: Table, run: RunIdentity | None) -> EarlierRun | None:
    """The commit of ``run``, or None. Raises RunKeyReusedError if its key was used for other work, CorruptTableError if the ledger
    cannot be read."""
    if run is None:
        return None
    for snapshot in reversed(table.metadata.snapshots):
        if run.made(snapshot):
            _forbid_other_work(table, run, snapshot.summary.get(WORK), f"snapshot {snapshot.snapshot_id}")
            return EarlierRun(snapshot.snapshot_id, snapshot)
    entries = (ledger_entry(table, name) for name in run.ledger_names)
    if (text := next((entry for entry in entries if entry is not None), None)) is None:
        return None
    known, _, rest = text.partition("@")
    _forbid_other_work(table, run, rest.partition("@")[2] or None, "an expired snapshot" if known else "a change of metadata")
    snapshot_id = parse_count(known)
    if snapshot_id is None:
        return EarlierRun(None, None)
    return EarlierRun(snapshot_id, table.metadata.snapshots_by_id.get(snapshot_id))


def find_run_now(load: Callable[[], Table], table: Table, run: RunIdentity | None) -> EarlierRun | None:
    """``find_run``; if an expiry has replaced the ledger file since ``table`` was loaded, it searches the current table."""
    while True:
        try:
            return find_run(table, run)
        except CorruptTableError:
            now = load()
            if now.metadata_location == table.metadata_location or not same_table(table, now):
                raise
            table = now


def not_committed_yet(run: RunIdentity | None, metadata: TableMetadata) -> tuple[AssertNoRun, ...]:
    """Prevents two commits of one run that is submitted twice at once: neither finds the other before its swap. Most commits of
    snapshots collide anyway; one that moves no branch of a v1 table, and changes of metadata, do not. ``metadata``: the state in
    which ``find_run`` did not find the run."""
    return () if run is None else (AssertNoRun(run, frozenset(ledger_files(metadata))),)


def snapshot_run_identity(snapshot: Snapshot) -> RunIdentity | None:
    """The run that made a snapshot; None if the snapshot carries no key."""
    summary = snapshot.summary
    if RUN_KEY not in summary:
        return None
    return RunIdentity(
        key=summary[RUN_KEY],
        action=summary.get(ACTION, ""),
        branch=summary.get(BRANCH, MAIN_BRANCH),
        staged=STAGED in summary,
        work=summary.get(WORK),
        made_up=MADE_UP in summary,
    )


def ledger_entries(runs: Mapping[RunIdentity, int | None], at_ms: int) -> dict[str, str]:
    """Properties that enter ``runs`` (run -> snapshot id) into the ledger; a made-up key only with a snapshot."""
    kept = {run: snapshot_id for run, snapshot_id in runs.items() if snapshot_id is not None or not run.made_up}
    return {run.ledger_name: entry_text(run, snapshot_id, at_ms) for run, snapshot_id in kept.items()}


def entries_of_expiring(metadata: TableMetadata, gone: Collection[int]) -> dict[str, str]:
    """The ledger entries for snapshots that are about to be removed: their runs and, if they published staged snapshots, those
    snapshots and their runs. Once the publication is removed, nothing else records that a staged snapshot was published. A
    publication that was rolled back, and from which certainly no retained snapshot descends, does not count."""
    entries: dict[str, str] = {}
    known = metadata.snapshots_by_id
    published = {s.summary.get(SOURCE) for s in metadata.snapshots} | {str(e.snapshot_id) for e in metadata.snapshot_log}
    heads = [ref.snapshot_id for ref in metadata.refs.values() if ref.is_branch]
    in_a_branch = {s.snapshot_id for head in heads for s in metadata.ancestors(head)}
    left = metadata.snapshots_by_id.keys() - frozenset(gone)
    hidden, copied = _end_in_a_cut(metadata, left), {i for s in left for i in copied_by(metadata, known[s]).sources}
    sources = {str(s.snapshot_id): s for s in metadata.snapshots if STAGED in s.summary}
    for snapshot in (known[i] for i in gone):
        staged = STAGED in snapshot.summary
        if not staged or str(snapshot.snapshot_id) in published or snapshot.snapshot_id in in_a_branch:
            entries |= entries_of_made(snapshot)
        if (source := sources.get(snapshot.summary.get(SOURCE, ""))) is not None:
            entries |= entries_of_made(source)
        if snapshot.sequence_number <= hidden:
            _enter_publication(entries, metadata, snapshot, copied_by(metadata, snapshot), snapshot.summary.get(BRANCH, ""))
    _enter_cut_histories(entries, metadata, frozenset(gone), copied | set(map(str, left)))
    return entries


def with_first_publishers(table: Table, entries: Mapping[str, str]) -> dict[str, str]:
    """The entries; if several snapshots made the same publication (a branch was rolled back in between), only the first: a look-up
    in the expired part of a history uses the time of publication. Raises CorruptTableError for a broken ledger file."""
    publications = set(filter(names_publication, entries))
    known = entries_whose_name(table, publications.__contains__) if publications else {}
    earlier = {name: entry for name, entry in known.items() if _published_before(table.metadata, entry, entries[name])}
    return {**entries, **earlier}


def publisher(metadata: TableMetadata, entry: str) -> Snapshot | None:
    """The snapshot that published, by a publication's entry; None if it has expired."""
    return metadata.snapshots_by_id.get(parse_count(entry.partition("@")[0]) or -1)


def _published_before(metadata: TableMetadata, entry: str, other: str) -> bool:
    one, two = publisher(metadata, entry), publisher(metadata, other)
    return one is None or (two is not None and one.sequence_number <= two.sequence_number)


def _end_in_a_cut(metadata: TableMetadata, snapshot_ids: Collection[int]) -> int:
    """The highest sequence number at which the line of one of the snapshots ends although it has a parent: an earlier publication
    may have been its ancestor. -1 if all lines are whole."""
    ends, passed = [-1], set[int]()
    for start in snapshot_ids:
        for snapshot in metadata.ancestors(start):
            if snapshot.snapshot_id in passed:
                break
            passed.add(snapshot.snapshot_id)
            if snapshot.parent_snapshot_id is not None and snapshot.parent_snapshot_id not in metadata.snapshots_by_id:
                ends.append(snapshot.sequence_number)
    return max(ends)


def _enter_cut_histories(entries: dict[str, str], metadata: TableMetadata, gone: frozenset[int], own_ids: Collection[str]) -> None:
    """Enter the publications that a history shows now and does not show once these snapshots are removed: the first of them hides
    all its ancestors. A staged snapshot that was published by a fast-forward, or together with snapshots built on it, is an
    ancestor itself. A branch may be moved to any remaining snapshot, so the histories of all of them count."""
    branches = {MAIN_BRANCH, *(name for name, ref in metadata.refs.items() if ref.is_branch)}
    entered = set[int]()
    for branch in branches:
        if (head := metadata.branch_head(branch)) is not None:
            entered |= _enter_cut_history(entries, metadata, gone, branch, head.snapshot_id, own_ids, set())
    passed = set[tuple[int, bool]]()
    for start in metadata.snapshots_by_id.keys() - gone:
        _enter_cut_history(entries, metadata, gone, "", start, own_ids, passed, entered)


def _enter_cut_history(
    entries: dict[str, str],
    metadata: TableMetadata,
    gone: frozenset[int],
    branch: str,
    head: int,
    own_ids: Collection[str],
    passed: set[tuple[int, bool]],
    entered: Collection[int] = (),
) -> set[int]:
    """``own_ids``: snapshots that can still be picked, or a copy of which can. ``passed``: snapshots, and whether the history was
    cut there, that are already processed."""
    cut, is_cut = set[int](), False
    for snapshot in metadata.ancestors(head):
        is_cut = is_cut or snapshot.snapshot_id in gone
        if (snapshot.snapshot_id, is_cut) in passed:
            break
        passed.add((snapshot.snapshot_id, is_cut))
        if not is_cut or snapshot.snapshot_id in entered:
            continue
        cut.add(snapshot.snapshot_id)
        own_id = str(snapshot.snapshot_id)
        sources = copied_by(metadata, snapshot).sources | ({own_id} if own_id in own_ids else set())
        _enter_publication(entries, metadata, snapshot, Publication(sources, snapshot_wap_ids(snapshot)), branch)
    return cut


def _enter_publication(
    entries: dict[str, str], metadata: TableMetadata, snapshot: Snapshot, published: Publication, branch: str
) -> None:
    entry = f"{snapshot.snapshot_id}@{snapshot.timestamp_ms}"
    for name in published.names(branch):
        if name not in entries or _published_before(metadata, entry, entries[name]):
            entries[name] = entry


def entries_of_moving(metadata: TableMetadata, branch: str, before: int | None, head: int) -> dict[str, str]:
    """The ledger entries when the branch moves from one snapshot to another: the runs of snapshots that were staged for the branch
    and that this publishes. A branch for other purposes may point to them without publishing them."""
    line = {s.snapshot_id for s in metadata.ancestors(before)}
    entries: dict[str, str] = {}
    for snapshot in metadata.ancestors(head):
        if snapshot.snapshot_id in line:
            break
        if STAGED in snapshot.summary and snapshot.summary.get(BRANCH, MAIN_BRANCH) == branch:
            entries |= entries_of_made(snapshot)
    return entries


def entries_of_made(snapshot: Snapshot) -> dict[str, str]:
    """The entries for the run that made the snapshot; empty if it has no key, or made one up and changed no row."""
    run = snapshot_run_identity(snapshot)
    if run is None or (run.made_up and snapshot.operation == "replace"):
        return {}
    return ledger_entries({run: snapshot.snapshot_id}, snapshot.timestamp_ms)


def snapshot_origins(metadata: TableMetadata, snapshot: Snapshot) -> frozenset[str]:
    """Ids of the snapshots that have the same change: its own, and those of which it is a copy, directly or through other
    copies."""
    origins: set[str] = set()
    waiting: list[str | None] = [str(snapshot.snapshot_id)]
    while waiting:
        if (name := waiting.pop()) is None or name in origins:
            continue
        origins.add(name)
        if (known := metadata.snapshots_by_id.get(parse_count(name) or -1)) is not None:
            waiting += [known.summary.get(SOURCE), known.summary.get(FIRST_SOURCE)]
    return frozenset(origins)


def first_source(metadata: TableMetadata, picked: Snapshot) -> str | None:
    """Id of the snapshot that was copied first, as far as the table still shows it, if ``picked`` is a copy; else None."""
    source, passed, snapshot = None, {str(picked.snapshot_id)}, picked
    while (name := snapshot.summary.get(FIRST_SOURCE, snapshot.summary.get(SOURCE))) is not None and name not in passed:
        source = name
        passed.add(name)
        if (known := metadata.snapshots_by_id.get(parse_count(name) or -1)) is None:
            break
        snapshot = known
    return source


def oldest_origin(metadata: TableMetadata, snapshot: Snapshot) -> int | None:
    """The lowest sequence number of ``snapshot_origins``; None if one of them has expired: its own source is unknown if another
    engine made the copy, because such engines record only the direct source."""
    known = [metadata.snapshots_by_id.get(parse_count(name) or -1) for name in snapshot_origins(metadata, snapshot)]
    sequence_numbers = [origin.sequence_number for origin in known if origin is not None]
    return min(sequence_numbers) if len(sequence_numbers) == len(known) else None


def copied_by(metadata: TableMetadata, snapshot: Snapshot) -> Publication:
    """The publication of a picked copy; empty for any other snapshot."""
    wap_id = snapshot.summary.get(PUBLISHED_WAP_ID)
    sources = snapshot_origins(metadata, snapshot) - {str(snapshot.snapshot_id)}
    return Publication(sources, frozenset() if wap_id is None else frozenset({wap_id}))


def snapshot_wap_ids(snapshot: Snapshot) -> frozenset[str]:
    """WAP ids under which the snapshot was staged or published."""
    return frozenset({snapshot.summary[key] for key in (WAP_ID, PUBLISHED_WAP_ID) if key in snapshot.summary})


@dataclass(frozen=True, slots=True)
class Publication:
    """The ledger's record of a publication: ids of the snapshots whose change was published, and WAP ids."""

    sources: frozenset[str]
    wap_ids: frozenset[str]

    @property
    def _asked(self) -> list[tuple[str, str]]:
        return [*(("source", i) for i in sorted(self.sources)), *(("wap", i) for i in sorted(self.wap_ids))]

    def names(self, branch: str) -> list[str]:
        """Its ledger names on the branch."""
        return [f"{LEDGER_PREFIX}{PUBLICATION}{what}@{_coded_branch(branch)}:{value}" for what, value in self._asked]

    def has(self, name: str) -> bool:
        """Whether the ledger name belongs to this publication, on any branch."""
        rest = name.removeprefix(f"{LEDGER_PREFIX}{PUBLICATION}")
        what, _, place = rest.partition("@")
        return rest != name and (what, place.partition(":")[2]) in self._asked


def entry_text(run: RunIdentity, snapshot_id: int | None, at_ms: int) -> str:
    """``<snapshot id or nothing>@<milliseconds since the epoch>[~][@<work>]``; ``~``: the key was made up."""
    made = f"{'' if snapshot_id is None else snapshot_id}@{at_ms}{MADE_UP_MARK if run.made_up else ''}"
    return made if run.work is None else f"{made}@{run.work}"


def _coded_action(action: str) -> str:
    """The part up to the first ``@`` of a ledger name, which cannot be confused with a publication."""
    coded = action.replace("%", "%25").replace("@", "%40")
    return f"%{ord(coded[0]):X}{coded[1:]}" if coded.startswith(PUBLICATION) else coded


def _coded_branch(branch: str) -> str:
    """The part from there to the first ``:``, which cannot be confused with a staged run."""
    coded = branch.replace("%", "%25").replace(":", "%3A")
    return f"{coded.removesuffix(_STAGED)}%2B{_STAGED[1:]}" if coded.endswith(_STAGED) else coded


def _is_coded(name: str) -> bool:
    """Whether it is the name of a run or a publication in the current encoding."""
    action, _, rest = name.removeprefix(LEDGER_PREFIX).partition("@")
    branch, _, key = rest.partition(":")
    staged = branch.endswith(_STAGED)
    run = RunIdentity(key=key, action=unquote(action), branch=unquote(branch.removesuffix(_STAGED)), staged=staged)
    return run.ledger_name == name or action.startswith(PUBLICATION)


def made_up_run_key() -> str:
    """A key for a run without a given one."""
    return f"run-{uuid.uuid4()}"


def _forbid_other_work(table: Table, run: RunIdentity, work: str | None, made: str) -> None:
    """Prevents taking other work for done, or done work for undone: the key would name two pieces of work."""
    if run.work is not None and work is not None and run.work != work:
        raise RunKeyReusedError(
            f"run key {run.key!r} of {run.action} on table {table.name}, branch {run.branch}, was used for other work: it made "
            f"{made}, from another source or with another change. Give this run its own key"
        )
