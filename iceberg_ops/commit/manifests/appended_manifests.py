"""Appends existing manifests (Java: AppendFiles.appendManifest): many executors write them, one commit adds them all.

Such a manifest holds added data files only, without snapshot ids and sequence numbers: both are inherited from the manifest list of
the commit that adds it, so that nothing is rewritten (v2 and v3). A v1 table inherits nothing; there the entries are copied.
The files belong to their writer until they are committed: a commit that fails does not delete them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from iceberg_ops.commit.manifests.manifest_writing import ManifestFolder
from iceberg_ops.errors import BadInputError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import UNASSIGNED, EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.table.manifests import ManifestWriter, entries_of
from iceberg_ops.table.table import Table


def write_manifests_to_append(table: Table, files: Iterable[DataFile]) -> list[ManifestFile]:
    """Manifests of new data files, for ``AppendFiles.manifests``; one set per partition spec."""
    by_spec: dict[int, list[DataFile]] = {}
    for f in files:
        by_spec.setdefault(f.spec_id, []).append(f)
    made: list[ManifestFile] = []
    for spec_id, of_spec in by_spec.items():
        writer = ManifestWriter(table.metadata, table.io, spec_id=spec_id, content=ManifestContent.DATA, snapshot_id=None)
        for f in of_spec:
            writer.copy(ManifestEntry(EntryStatus.ADDED, None, None, None, f))
        made += writer.close()
    return [replace(m, added_snapshot_id=None, sequence_number=UNASSIGNED, min_sequence_number=UNASSIGNED) for m in made]


def forbid_unfit(manifests: Iterable[ManifestFile]) -> None:
    """Prevents appending a manifest that belongs to a snapshot. Raises BadInputError."""
    seen: set[str] = set()
    for m in manifests:
        if m.content is not ManifestContent.DATA:
            raise BadInputError(f"append takes data manifests only: {m.manifest_path} holds deletes")
        if m.existing_files_count:
            raise BadInputError(f"Cannot append manifest with existing files: {m.manifest_path}")
        if m.deleted_files_count:
            raise BadInputError(f"Cannot append manifest with deleted files: {m.manifest_path}")
        if m.added_snapshot_id not in (None, UNASSIGNED):
            raise BadInputError(f"Snapshot id must be assigned during commit: {m.manifest_path} has {m.added_snapshot_id}")
        if m.sequence_number not in (0, UNASSIGNED):
            raise BadInputError(f"Sequence must be assigned during commit: {m.manifest_path} has {m.sequence_number}")
        if m.manifest_path in seen:
            raise BadInputError(f"manifest {m.manifest_path} is appended twice by one commit")
        seen.add(m.manifest_path)


def take_over(table: Table, folder: ManifestFolder, manifests: Sequence[ManifestFile]) -> tuple[list[ManifestFile], list[DataFile]]:
    """The manifests as the new snapshot lists them, and the files in them. Raises BadInputError."""
    taken: list[ManifestFile] = []
    files: list[DataFile] = []
    for m in manifests:
        unread = replace(m, added_snapshot_id=None, sequence_number=UNASSIGNED, min_sequence_number=UNASSIGNED, first_row_id=None)
        entries = entries_of(table, unread)
        for entry in entries:
            if entry.status is not EntryStatus.ADDED or entry.snapshot_id is not None or (entry.sequence_number or UNASSIGNED) >= 0:
                raise BadInputError(
                    f"Cannot append manifest {m.manifest_path}: {entry.data_file.file_path} in it is not just added: "
                    f"{entry.status.name.lower()}, snapshot {entry.snapshot_id}, sequence number {entry.sequence_number}"
                )
        held = [
            ManifestEntry(EntryStatus.ADDED, folder.snapshot_id, None, None, replace(e.data_file, first_row_id=None))
            for e in entries
        ]
        files += [e.data_file for e in held]
        if table.metadata.format_version < 2:
            taken += folder.write_rolling(table, m.partition_spec_id, ManifestContent.DATA, held)
        else:
            taken.append(folder.adopt(replace(unread, added_snapshot_id=folder.snapshot_id), held))
    return taken, files
