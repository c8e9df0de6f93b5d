"""``iceberg-ops branch``, ``tag``, ``rollback`` and ``publish``: names for snapshots, and the heads of branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from iceberg_ops.cli.ages import parse_age
from iceberg_ops.cli.completion import table_argument
from iceberg_ops.cli.output import print_json, visible
from iceberg_ops.cli.standard_output import output_of_done_work
from iceberg_ops.cli.target import json_option, open_in_catalog, parse_instant
from iceberg_ops.errors import NoSuchSnapshotError, OptionError

if TYPE_CHECKING:
    from iceberg_ops.catalog.catalog import Catalog
    from iceberg_ops.commit.protocol.operation import Operation
    from iceberg_ops.table.table import Table

_MOST_SNAPSHOTS = 2**31 - 1
"""The limit of the format: with more, the metadata could not be read."""


@click.command()
@table_argument
@click.argument("name")
@click.option("--snapshot-id", type=int, metavar="N", help="The branch's snapshot; default: the head of main.")
@click.option("--ref", metavar="NAME", help="Instead of --snapshot-id: the snapshot of this branch or tag.")
@click.option("--replace", is_flag=True, help="Move an existing branch.")
@click.option("--fast-forward", metavar="NAME", help="Fast-forward the branch to the head of this branch.")
@click.option("--rename", metavar="NEW", help="Rename the branch.")
@click.option("--drop", is_flag=True, help="Drop the branch; its snapshots stay until they expire.")
@click.option("--retain", metavar="AGE", help="How long the branch itself is kept: 30d, 12h, ...")
@click.option(
    "--min-snapshots", type=click.IntRange(1, _MOST_SNAPSHOTS), metavar="N", help="Minimum number of snapshots to keep on it."
)
@click.option("--max-snapshot-age", metavar="AGE", help="How long its snapshots are kept.")
@json_option
def branch(
    target: str,
    name: str,
    snapshot_id: int | None,
    ref: str | None,
    replace: bool,
    fast_forward: str | None,
    rename: str | None,
    drop: bool,
    retain: str | None,
    min_snapshots: int | None,
    max_snapshot_age: str | None,
    as_json: bool,
) -> None:
    """Create, move or drop a branch."""
    from iceberg_ops.commit.operations import refs

    act = _only_one({"--drop": drop, "--rename": rename, "--fast-forward": fast_forward, "--replace": replace})
    if act not in (None, "--replace"):
        _forbid_options(
            act,
            {
                "--snapshot-id": snapshot_id,
                "--ref": ref,
                "--retain": retain,
                "--min-snapshots": min_snapshots,
                "--max-snapshot-age": max_snapshot_age,
            },
        )
    operation: Operation
    opened = open_in_catalog(target)
    if drop:
        operation = refs.RemoveRef(ref=name, type="branch")
    elif rename is not None:
        operation = refs.RenameBranch(old=name, new=rename)
    elif fast_forward is not None:
        operation = refs.FastForward(branch=name, to=fast_forward)
    else:
        operation = refs.SetRef(
            ref=name,
            snapshot_id=_place(opened[1], name, snapshot_id, ref),
            replace_existing=replace,
            min_snapshots_to_keep=min_snapshots,
            max_snapshot_age_ms=parse_age(max_snapshot_age),
            max_ref_age_ms=parse_age(retain),
        )
    _commit(target, operation, as_json, opened)


@click.command()
@table_argument
@click.argument("name")
@click.option("--snapshot-id", type=int, metavar="N", help="The tag's snapshot; default: the head of main.")
@click.option("--ref", metavar="NAME", help="Instead of --snapshot-id: the snapshot of this branch or tag.")
@click.option("--replace", is_flag=True, help="Move an existing tag.")
@click.option("--drop", is_flag=True, help="Drop the tag.")
@click.option("--retain", metavar="AGE", help="How long the tag is kept: 30d, 12h, ...")
@json_option
def tag(
    target: str, name: str, snapshot_id: int | None, ref: str | None, replace: bool, drop: bool, retain: str | None, as_json: bool
) -> None:
    """Create, move or drop a tag."""
    from iceberg_ops.commit.operations import refs

    _only_one({"--drop": drop, "--replace": replace})
    if drop:
        _forbid_options("--drop", {"--snapshot-id": snapshot_id, "--ref": ref, "--retain": retain})
    opened = open_in_catalog(target)
    operation: Operation = refs.RemoveRef(ref=name, type="tag")
    if not drop:
        at = _place(opened[1], name, snapshot_id, ref)
        operation = refs.SetRef(ref=name, snapshot_id=at, type="tag", replace_existing=replace, max_ref_age_ms=parse_age(retain))
    _commit(target, operation, as_json, opened)


@click.command()
@table_argument
@click.option("--snapshot-id", type=int, metavar="N", help="An ancestor of the branch's head.")
@click.option("--to-time", metavar="ISO", help="The latest ancestor before that time.")
@click.option("--branch", "branch_name", default="main", show_default=True, metavar="NAME", help="The branch to roll back.")
@click.option("--any-snapshot", is_flag=True, help="Allow a snapshot that is not an ancestor (set the branch to it).")
@json_option
def rollback(
    target: str, snapshot_id: int | None, to_time: str | None, branch_name: str, any_snapshot: bool, as_json: bool
) -> None:
    """Roll a branch back to an earlier snapshot."""
    from iceberg_ops.commit.operations import refs

    if (snapshot_id is None) == (to_time is None):
        raise OptionError("give either --snapshot-id or --to-time")
    if any_snapshot and snapshot_id is None:
        raise OptionError("--any-snapshot needs --snapshot-id")
    operation: Operation
    if any_snapshot:
        operation = refs.SetCurrentSnapshot(branch=branch_name, snapshot_id=snapshot_id)
    else:
        operation = refs.RollBack(branch=branch_name, snapshot_id=snapshot_id, timestamp_ms=parse_instant(to_time, "--to-time"))
    _commit(target, operation, as_json)


@click.command()
@table_argument
@click.option("--wap-id", metavar="ID", help="The staged snapshot with this id.")
@click.option("--snapshot-id", type=int, metavar="N", help="Any snapshot: its changes are applied to the branch (cherry-pick).")
@click.option("--branch", "branch_name", default="main", show_default=True, metavar="NAME", help="The branch to publish to.")
@click.option("--run-key", metavar="KEY", help="Key of this run: another run with the same key changes nothing.")
@json_option
def publish(target: str, wap_id: str | None, snapshot_id: int | None, branch_name: str, run_key: str | None, as_json: bool) -> None:
    """Publish a staged snapshot to a branch (write-audit-publish), or cherry-pick another snapshot.

    Nothing is published twice. An append is applied to the branch's current head; a snapshot that replaced or deleted rows only
    if the branch has not changed since.
    """
    from iceberg_ops.commit.operations.cherry_pick import CherryPick

    if (snapshot_id is None) == (wap_id is None):
        raise OptionError("give either --wap-id or --snapshot-id")
    _commit(target, CherryPick(wap_id=wap_id, snapshot_id=snapshot_id, branch=branch_name, run_key=run_key), as_json)


def _only_one(given: dict[str, object]) -> str | None:
    """The given action, or None. Raises OptionError for two."""
    named = [name for name, value in given.items() if value]
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)} were given: choose one")
    return named[0] if named else None


def _forbid_options(act: str, options: dict[str, object]) -> None:
    """Raise OptionError for an option that ``act`` does not use."""
    if surplus := next((name for name, value in options.items() if value is not None), None):
        raise OptionError(f"{surplus}: {act} does not read it; nothing was changed: leave it out")


def _place(table: Table, name: str, snapshot_id: int | None, ref: str | None) -> int | None:
    """The requested snapshot. None: the branch or tag ``name`` keeps its snapshot, and only its retention is set, whoever
    commits to it at the same time."""
    from iceberg_ops.scan.snapshot_choice import choose_snapshot
    from iceberg_ops.spec.snapshots import MAIN_BRANCH

    if snapshot_id is not None and ref is None:
        return snapshot_id
    if snapshot_id is None and name == (ref or MAIN_BRANCH) and table.metadata.ref(name) is not None:
        return None
    snapshot, _ = choose_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref)
    if snapshot is None:
        raise NoSuchSnapshotError(f"table {table.name} has no snapshot yet")
    return snapshot.snapshot_id


def _commit(target: str, operation: Operation, as_json: bool, opened: tuple[Catalog, Table] | None = None) -> None:
    """``opened``: the table from which the operation was made."""
    from iceberg_ops.cli.ref_changes import ref_changes
    from iceberg_ops.commit.loop.committer import commit

    catalog, table = opened or open_in_catalog(target)
    metadata = commit(catalog, table, operation).table.metadata
    changes = ref_changes(table.metadata.refs, metadata.refs)
    # If others committed meanwhile, the difference includes their changes, and no single command undoes it.
    alone = bool(metadata.metadata_log) and metadata.metadata_log[-1].metadata_file == table.metadata_location
    undo = [line for change in changes if (line := change.undo(target)) is not None] if alone else []
    with output_of_done_work():
        if as_json:
            refs = {name: {"type": ref.type, "snapshot-id": ref.snapshot_id} for name, ref in sorted(metadata.refs.items())}
            print_json({"table": target, "current-snapshot-id": metadata.current_snapshot_id, "refs": refs, "undo": undo})
            return
        for change in changes:
            click.echo(visible(f"{target}: {change.text}"))
        for line in undo:
            click.echo(f"To undo: {line}")
        if not changes:
            click.echo(f"{target}: nothing changed")
