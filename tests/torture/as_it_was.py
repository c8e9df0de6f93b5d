"""The rules of this package from the time when they lost data: replacements that switch a fix off (``switching``).

Most faults had to pass two rules: the one that was fixed, and the gate that now proves every deletion. So most switches remove
both. Everything here is used only to show that the torture finds the fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from iceberg_ops.commit.protocol import ledger
from iceberg_ops.commit.protocol.run_keys import RUN_KEY, copied_by, entry_text, snapshot_run_identity
from iceberg_ops.config.properties import LEDGER_PREFIX
from iceberg_ops.deletion.expired import UnreachedFiles
from iceberg_ops.errors import CatalogUnavailableError, CommitFailedError, CorruptTableError
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestFile
from iceberg_ops.spec.updates import RemoveProperties, SetProperties
from iceberg_ops.table.manifests import ManifestLists, entries_of, live_paths
from iceberg_ops.table.table import Table

Switch = Mapping[str, Callable[..., Any]]


def nothing(_: Any, *args: Any, **more: Any) -> None:
    """A check that finds nothing wrong."""


def no_difference(_: Any, *args: Any, **more: Any) -> tuple[list[str], list[str]]:
    """A comparison that reports no removed and no changed file."""
    return [], []


# deletion


def unproven(_: Any, candidates: Sequence[str], found: Any, identity: Any) -> tuple[list[str], list[Any]]:
    """No proof: every candidate of a caller is deleted."""
    return list(candidates), []


def once_in_a_snapshot(_: Any, after: Table, gone: Sequence[Any], statistics: Iterable[str]) -> UnreachedFiles:
    """A path was assumed to be live at most once in a snapshot: only those retained manifests were read that were in no manifest
    list together with the expired one."""
    reader = ManifestLists(after.io)
    retained = {m.manifest_path: m for s in after.metadata.snapshots for m in reader.of(s)}
    listings = [{m.manifest_path: m for m in reader.still_there(s)} for s in gone]
    candidates = {path: m for listed in listings for path, m in listed.items() if path not in retained}
    content: dict[str, FileContent] = {}
    for manifest in candidates.values():
        try:
            content |= dict(live_paths(after, manifest))
        except CorruptTableError:
            continue
    for path, manifest in retained.items():
        apart = {key for key, m in candidates.items() if m.content is manifest.content}
        for listed in listings:
            apart -= listed.keys() if path in listed else set()
        for path_, _kind in live_paths(after, manifest) if apart else ():
            content.pop(path_, None)
    lists = {s.manifest_list for s in gone} - {s.manifest_list for s in after.metadata.snapshots}

    def of(kind: FileContent) -> tuple[str, ...]:
        return tuple(sorted(path for path, found in content.items() if found == kind))

    return UnreachedFiles(
        data=of(FileContent.DATA),
        position_deletes=of(FileContent.POSITION_DELETES),
        equality_deletes=of(FileContent.EQUALITY_DELETES),
        manifests=tuple(sorted(candidates)),
        manifest_lists=tuple(sorted(lists)),
    )


def whatever_has_the_name(original: Any, proof: Any, found: Sequence[str]) -> Any:
    """The table that now has the name was taken for the one that had it before."""
    proof.table = replace(proof.table, metadata=proof.reload().metadata)
    return original(proof, found)


def as_it_is_spelled(_: Any, io: Any, *folders: Any, deletes: bool = False) -> Callable[[str], str]:
    return lambda location: location


def no_folders(_: Any, lease: Any, location: str, io: Any) -> bool:
    """A lease covered only files with marked names."""
    return any(mark in location for mark in lease.marks)


def by_holder(original: Any, metadata: Any, lease: Any) -> str:
    """A zombie and its retry had one lease file."""
    return original(metadata, replace(lease, instance=""))  # type: ignore[no-any-return]


# commits


def the_error_itself(_: Any, loop: Any, error: BaseException) -> BaseException:
    """An interrupt right after a swap was reported as an interrupt before it."""
    return error


def by_key_only(original: Any, loop: Any, table: Table) -> Any:
    """A refusal was accepted: no attempt checked whether its own earlier swap had succeeded."""
    swapped, loop.swapped = loop.swapped, []
    try:
        return original(loop, table)
    finally:
        loop.swapped = swapped


def refused_where_unknown(original: Any, *args: Any) -> bool:
    """An unknown outcome was treated as a refusal."""
    return bool(original(*args))


def created_or_refused(_: Any, creation: Any, location: str, data: bytes) -> None:
    """An error of the store was a refusal, whether the version's file was there or not."""
    try:
        creation.io.write(location, data, overwrite=False)
    except FileExistsError:
        raise CommitFailedError(f"{location} already exists") from None
    except OSError as e:
        raise CatalogUnavailableError(f"{location}: {e}") from e


def as_far_as_it_is_logged(_: Any, placed: Any, above: Mapping[int, Sequence[str]]) -> bool:
    """A version that is no longer in the current metadata log was assumed never to have existed."""
    newest = placed.versions.io.read(f"{placed.versions.folder}/{above[max(above)][0]}")
    return placed.location.rpartition("/")[2] in newest.decode()


def the_highest_version(_: Any, versions: Any) -> str | None:
    """A lost version file was not noticed."""
    living = versions.living()
    return f"{versions.folder}/{living[max(living)][0]}" if living else None


def without_a_head(original: Any, table: Table, head: Any, keys: Any) -> Any:
    """A branch that did not exist yet was validated as if it had no rows."""
    return original(table, None, keys)


def under_its_own_id(original: Any, table: Table, snapshot: Any, of: Any, content: Any, status: Any, *args: Any) -> Iterable[Any]:
    """An entry of a removed file counted only if it named the snapshot that removed it, and files were not compared."""
    if status is EntryStatus.ADDED:
        return entered(original, table, snapshot, of, content, status, *args)
    written = (e for m in of.wrote if m.content is content for e in entries_of(table, m))
    return (e for e in written if e.status is status and e.snapshot_id == snapshot.snapshot_id)


def entered(original: Any, table: Table, snapshot: Any, of: Any, *args: Any) -> Iterable[Any]:
    """A removed file that had no entry was overlooked."""
    return original(table, snapshot, replace(of, agrees=frozenset(ManifestContent)), *args)  # type: ignore[no-any-return]


def fitting_by_chance(original: Any, table: Table, snapshot: Any, of: Any, content: Any, status: Any, *args: Any) -> Iterable[Any]:
    """Only the numbers of files were compared, also for a copy with an older manifest's id: removed and added files cancelled
    out."""
    if status is EntryStatus.DELETED and any(m.added_snapshot_id != snapshot.snapshot_id for m in of.wrote):
        of = replace(of, wrote=_under_its_own_id(snapshot, of.wrote), agrees=frozenset(ManifestContent))
    return original(table, snapshot, of, content, status, *args)  # type: ignore[no-any-return]


def added_under_its_own_id(
    original: Any, table: Table, snapshot: Any, of: Any, content: Any, status: Any, *args: Any
) -> Iterable[Any]:
    """A file that was added to a copy of an older manifest, under its id, was overlooked."""
    if status is EntryStatus.ADDED:
        of = replace(of, wrote=_under_its_own_id(snapshot, of.wrote), agrees=frozenset(ManifestContent))
    return original(table, snapshot, of, content, status, *args)  # type: ignore[no-any-return]


def _under_its_own_id(snapshot: Any, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
    return tuple(m for m in manifests if m.added_snapshot_id == snapshot.snapshot_id)


def by_its_name(_: Any, history: Any, snapshot: Any) -> bool:
    """A snapshot that is called an append counted as one; its manifests were not read."""
    return True


def no_data(_: Any, history: Any, snapshot: Any) -> bool:
    """A snapshot that is called a delete counted as one, even if it added files."""
    return False


# run keys


def whoever_had_the_key(_: Any, run: Any, snapshot: Any) -> bool:
    return snapshot.summary.get(RUN_KEY) == run.key  # type: ignore[no-any-return]


def in_the_ledger_by_key(_: Any, run: Any) -> str:
    return f"{LEDGER_PREFIX}{run.key}"


def staged_counts_for_ever(_: Any, metadata: Any, gone: Iterable[int]) -> dict[str, str]:
    """A staged snapshot that expired unpublished counted as done work."""
    found: dict[str, str] = {}
    for snapshot in (metadata.snapshots_by_id[i] for i in gone):
        run = snapshot_run_identity(snapshot)
        if run is not None and not run.made_up:
            found[run.ledger_name] = entry_text(run, snapshot.snapshot_id, snapshot.timestamp_ms)
        for name in copied_by(metadata, snapshot).names(snapshot.summary.get("iceberg-ops.branch", "")):
            found[name] = f"{snapshot.snapshot_id}@{snapshot.timestamp_ms}"
    return found


def the_latest_few(_: Any, self: Any, table: Table, entries: Mapping[str, str]) -> tuple[list[Any], str | None]:
    """The ledger was a list of fixed length: keys of old snapshots that were added now removed keys that had just been added."""
    known = {k: v for k, v in table.properties.items() if k.startswith(LEDGER_PREFIX)}
    if not entries:
        return [], None
    latest = [*(k for k in known if k not in entries), *entries][-ledger.LEDGER_SIZE :]
    gone = tuple(k for k in known if k not in latest)
    updates: list[Any] = [SetProperties({k: v for k, v in entries.items() if k in latest})]
    return [*updates, RemoveProperties(gone)] if gone else updates, None


# metadata


def only_what_snapshots_name(_: Any, table: Table, spec_ids: set[int], manifests: Iterable[ManifestFile]) -> set[int]:
    """The clean-up of schemas ignored equality deletes on dropped columns."""
    return set()


UNPROVEN: Switch = {"deletion.references:without_referenced": unproven}
BELIEVED: Switch = {**UNPROVEN, "commit.loop.committer:_Loop._earlier_success": by_key_only}


# names of versions


def deleted_by_name(_: Any, catalog: Any, versions: Any, location: str) -> None:
    """Every writer that found a version of a dropped table deleted it."""
    versions.io.delete_many(versions.dead())


def spelled_exactly(_: Any, versions: Any, name: str) -> str:
    """A version with the table's uuid in another case than in the mark counted as another table's."""
    return str(json.loads(versions.io.read(f"{versions.folder}/{name}"))["table-uuid"])


def believed_below_dropped_ones(original: Any, versions: Any) -> str | None:
    """A hint up to the highest version of a dropped table of the name was treated as a leftover."""
    hint, living = versions.hint(), versions.living()
    if living and hint is not None and max(living) < hint <= versions.last_of_dropped():
        return f"{versions.folder}/{living[max(living)][0]}"
    return original(versions)  # type: ignore[no-any-return]


# twins


def told_by_the_uuid(_: Any, known: Table, now: Table) -> str | None:
    """A copy of a table was taken for the table."""
    return None if known.metadata.table_uuid == now.metadata.table_uuid else "its uuid is another one"


def none_of_them(_: Any, *args: Any) -> list[str]:
    """Files with lower versions than those in the log counted as old, whatever their time."""
    return []


def only_later_files(_: Any, line: Any, state: Table) -> list[tuple[str, int]]:
    """The file that a file was built on was ignored if it is older than the log."""
    built_on = ((entry.metadata_file, entry.timestamp_ms) for entry in state.metadata.metadata_log)
    return [file for file in built_on if file[1] > line.since_ms and not line._knows(file)]
