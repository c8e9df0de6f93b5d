"""Manifests rewritten as whole columns equal those written entry by entry."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.serde.avro.avro_container import read_container
from iceberg_ops.serde.manifests.manifest_columnar import EntryColumns, read_columns
from iceberg_ops.serde.manifests.manifest_encoding import ManifestEncoder
from iceberg_ops.serde.manifests.manifest_rewriting import Rows, add_rows
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from tests.serde.manifest_cases import decoded, encoded, large_manifests
from tests.serde.test_manifest_splicing import Layout, by_p, files

MINE = 77


def encoder_of(layout: Layout, version: int, content: ManifestContent = ManifestContent.DATA) -> ManifestEncoder:
    schema, spec, partition_type = layout
    return ManifestEncoder(
        spec=spec, schema=schema, partition_type=partition_type, format_version=version, content=content, snapshot_id=MINE
    )


def opened(raw: bytes, manifest: ManifestFile, layout: Layout) -> EntryColumns:
    columns = read_columns(raw, manifest, layout[2])
    assert columns is not None
    return columns


def one_by_one(found: list[ManifestEntry], gone: set[int], encoder: ManifestEncoder) -> tuple[bytes, ManifestFile]:
    for row, entry in enumerate(found):
        if row in gone:
            encoder.add(replace(entry, status=EntryStatus.DELETED, snapshot_id=MINE))
        elif entry.is_live:
            encoder.add(replace(entry, status=EntryStatus.EXISTING))
    return encoder.finish("m.avro")


def records(raw: bytes) -> list[tuple[int, bytes]]:
    return list(read_container(raw, "m").blocks)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_written_at_once_or_one_by_one_a_manifest_is_the_same(data: st.DataObject) -> None:
    version, layout, raw, manifest = data.draw(large_manifests())
    content, reference = manifest.content, decoded(raw, manifest, layout)
    live = [row for row, entry in enumerate(reference) if entry.is_live]
    gone = data.draw(st.sets(st.sampled_from(live))) if live else set()
    expected, listed = one_by_one(reference, gone, encoder_of(layout, version, content))
    columns = read_columns(raw, manifest, layout[2])
    if columns is None:
        return  # left to the record decoder: there are no columns to write again
    encoder = encoder_of(layout, version, content)
    rows = Rows.of(columns, sorted(gone))
    if not add_rows(encoder, rows):
        assert columns.cut_files(encoder.schema_text, layout[2]) is None
        return
    written, row = encoder.finish("m.avro")
    assert records(written) == records(expected)
    assert replace(row, manifest_length=0) == replace(listed, manifest_length=0)
    assert rows.entries(MINE) == [
        replace(e, status=EntryStatus.DELETED, snapshot_id=MINE) if n in gone else replace(e, status=EntryStatus.EXISTING)
        for n, e in enumerate(reference)
        if e.is_live
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_of_many_commits_are_carried_over_as_bytes(version: int) -> None:
    layout = by_p()
    of_many = [
        replace(e, status=EntryStatus.EXISTING, snapshot_id=10_000_000_000 + n // 2, sequence_number=n // 2, file_sequence_number=n)
        for n, e in enumerate(files(5000))
    ]
    raw, manifest = encoded(of_many, layout, version=version)
    manifest = replace(manifest, sequence_number=9000 if version > 1 else 0)
    gone = set(range(0, 5000, 7))
    expected, listed = one_by_one(decoded(raw, manifest, layout), gone, encoder_of(layout, version))
    encoder = encoder_of(layout, version)
    assert add_rows(encoder, Rows.of(opened(raw, manifest, layout), sorted(gone)))
    written, row = encoder.finish("m.avro")
    assert records(written) == records(expected)
    assert replace(row, manifest_length=0) == replace(listed, manifest_length=0)


def test_files_of_another_format_version_are_not_written_at_once() -> None:
    layout = by_p()
    raw, manifest = encoded(files(), layout, version=1)
    encoder = encoder_of(layout, 2)
    assert not add_rows(encoder, Rows.of(opened(raw, manifest, layout)))
    assert encoder.entry_count == 0
