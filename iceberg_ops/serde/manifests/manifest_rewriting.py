"""Rewrites a manifest without some of its files, all entries at once.

Remaining entries become EXISTING, removed ones DELETED by the writing snapshot, and entries that were DELETED before are left out
(MANIFEST-50/51). Each entry gets a new head (status, snapshot id, sequence numbers and, in format version 3, its first row id); the
bytes of its data file are copied (``manifest_splicing``), and the counts for the manifest list come from the columns. No entry
becomes a Python object. The result equals that of ``ManifestEncoder.add`` for the same entries, which is also used in any doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iceberg_ops.serde.avro.avro_encoding import NULL, encode_optional_long
from iceberg_ops.serde.manifests.manifest_columnar import EntryColumns
from iceberg_ops.serde.manifests.manifest_encoding import ManifestEncoder
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry


@dataclass(frozen=True, slots=True)
class Rows:
    """The live rows of a manifest, and which of them are removed (a boolean each)."""

    columns: EntryColumns
    live: list[int]
    goes: list[bool]

    @classmethod
    def of(cls, columns: EntryColumns, gone: Sequence[int] = ()) -> Rows:
        """``gone`` are row numbers of live rows."""
        import numpy  # noqa: PLC0415 - NumPy is loaded for columns only

        goes = numpy.zeros(len(columns), dtype=bool)
        goes[list(gone)] = True
        live = numpy.flatnonzero(columns.live)
        return cls(columns, live.tolist(), goes[live].tolist())

    def entries(self, snapshot_id: int) -> list[ManifestEntry]:
        """The entries in the form for snapshot ``snapshot_id``."""
        return [
            replace(e, status=EntryStatus.DELETED, snapshot_id=snapshot_id) if gone else replace(e, status=EntryStatus.EXISTING)
            for e, gone in zip(self.columns.entries(self.live), self.goes, strict=True)
        ]


def add_rows(encoder: ManifestEncoder, rows: Rows) -> bool:
    """Append the rows to a manifest; False if their bytes are not available: then nothing was appended."""
    columns = rows.columns
    if bool((columns.content == int(FileContent.DATA)).all()) is not (encoder.content is ManifestContent.DATA):
        return False
    files = columns.cut_files(encoder.schema_text, encoder.partition_type)
    if files is None:
        return False
    heads = _heads(encoder, rows)
    bodies = map(files.bodies.__getitem__, rows.live)
    if files.tails is None:
        encoder.add_encoded([head + body for head, body in zip(heads, bodies, strict=True)])
    else:
        tails = map(files.tails.__getitem__, rows.live)
        parts = zip(heads, bodies, _row_ids(encoder, rows), tails, strict=True)
        encoder.add_encoded([b"".join(part) for part in parts])
    _count(encoder, rows)
    return True


def _heads(encoder: ManifestEncoder, rows: Rows) -> list[bytes]:
    """Few heads differ: entries mostly come in runs of one commit."""
    known: dict[tuple[bool, int | None, int | None, int | None], bytes] = {}
    heads = []
    lowest: set[int] = set()
    for gone, snapshot_id, number, file_number in zip(rows.goes, *rows.columns.numbers(rows.live), strict=True):
        key = (gone, snapshot_id, number, file_number)
        head = known.get(key)
        if head is None:
            status = EntryStatus.DELETED if gone else EntryStatus.EXISTING
            head = known[key] = encoder.head(status, encoder.snapshot_id if gone else snapshot_id, number, file_number)
            if not gone and number is not None:
                lowest.add(number)
        heads.append(head)
    if lowest:
        encoder.note_sequence_number(min(lowest))
    return heads


def _row_ids(encoder: ManifestEncoder, rows: Rows) -> list[bytes]:
    if encoder.content is ManifestContent.DELETES:
        return [NULL] * len(rows.live)
    return [encode_optional_long(n) for n in rows.columns.first_row_ids(rows.live)]


def _count(encoder: ManifestEncoder, rows: Rows) -> None:
    columns = rows.columns
    counts = columns.record_count[rows.live].tolist()
    removed = [count for count, gone in zip(counts, rows.goes, strict=True) if gone]
    encoder.count(EntryStatus.DELETED, len(removed), sum(removed))
    encoder.count(EntryStatus.EXISTING, len(counts) - len(removed), sum(counts) - sum(removed))
    for partition in columns.partitions(first_of_partitions(columns, rows.live)):
        encoder.note_partition(partition)


def first_of_partitions(columns: EntryColumns, rows: list[int]) -> list[int]:
    """Of these rows, in their order, the first one of each partition."""
    import numpy  # noqa: PLC0415 - NumPy is loaded for columns only

    _, firsts = numpy.unique(columns.partition_codes()[rows], return_index=True)
    return [rows[at] for at in sorted(firsts.tolist())]
