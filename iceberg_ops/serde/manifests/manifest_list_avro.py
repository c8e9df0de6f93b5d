"""Manifest lists <-> bytes (spec: "Manifest Lists"; requirements MLIST-*, LINEAGE-10/11).

Lists of every format version, and of writers that record no version or use other field names, are read in the same way (GEN-06,
GEN-10). Writing accepts manifests without sequence number and first row id; ``assign_inherited`` assigns both, as each commit
attempt must (MLIST-20).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.avro.avro_container import Container, read_container, write_container
from iceberg_ops.serde.avro.avro_encoding import PRIMITIVES, SOME, Encode, array, optional
from iceberg_ops.serde.avro.avro_records import check_end, decode, decode_one, decoder_schema
from iceberg_ops.serde.avro.avro_schema import SchemaReader, leaf_type
from iceberg_ops.serde.avro.manifest_fields import FIELD_SUMMARY, MANIFEST_FILE, OLD_NAMES, PARTITIONS, Column, avro_field
from iceberg_ops.serde.manifests.manifest_avro import refuse_encrypted
from iceberg_ops.spec.manifests import UNASSIGNED, FieldSummary, ManifestContent, ManifestFile

_CONTENTS = tuple(ManifestContent)


def read_manifest_list(data: bytes, name: str) -> list[ManifestFile]:
    """The rows in file order; error messages start with ``name`` (the list's location).

    Columns that a version lacks have these values: content data, sequence numbers 0 (MLIST-22), counts unknown (None). So has a
    number below 0, by which some writers mean that they do not know it (iceberg-go: counts that a v1 list lacks). Raises
    CorruptTableError, UnsupportedError (encrypted, unknown codec).
    """
    container, schema = _opened(data, name)
    return [_manifest(r, name) for r in decode(container, schema, name)]


class ManifestListReader:
    """Reads many lists of one table, each like ``read_manifest_list``. A row that is repeated byte for byte, as rows are from one
    snapshot's list to the next, is decoded once and is the same object each time. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, dict[bytes, tuple[bytes, ManifestFile]]] = {}

    def read(self, data: bytes, name: str) -> list[ManifestFile]:
        """The rows in file order. Raises CorruptTableError, UnsupportedError."""
        container, schema = _opened(data, name)
        known = self._known.setdefault(container.schema_text, {})
        manifests: list[ManifestFile] = []
        for count, raw in container.blocks:
            at = 0
            for _ in range(count):
                path = _first_text(raw, at)
                row, manifest = known.get(path, _NO_ROW)
                if manifest is None or not raw.startswith(row, at):
                    stream = io.BytesIO(raw)
                    stream.seek(at)
                    manifest = _manifest(decode_one(stream, schema, len(manifests), name), name)
                    row = raw[at : stream.tell()]
                    known[path] = row, manifest
                at += len(row)
                manifests.append(manifest)
            check_end(at, count, raw, name)
        return manifests


_NO_ROW: tuple[bytes, None] = b"", None


def _first_text(raw: bytes, at: int) -> bytes:
    """The text at the start of a row, with its length, if the path is the first column. It is only used to select the known row for
    comparison: bytes that start with a complete known row are that row."""
    size = raw[at] if at < len(raw) else 0
    if size < 0x80:
        return raw[at : at + 1 + (size >> 1)]
    return raw[at : at + 2 + ((size & 0x7F | raw[at + 1] << 7) >> 1)] if at + 1 < len(raw) else b""


def _opened(data: bytes, name: str) -> tuple[Container, Any]:
    """The container, and its schema in the decoder's form."""
    refuse_encrypted(data, name)
    container = read_container(data, name)
    schema = _SCHEMAS.get(container.schema_text)
    if schema is None:
        schema = _decoder_schema(container.schema_text, name)
        if len(_SCHEMAS) < _MOST_SCHEMAS:
            _SCHEMAS[container.schema_text] = schema
    return container, schema


_SCHEMAS: dict[str, Any] = {}
"""Schemas parsed before, by their text: expiry reads hundreds of lists from one writer."""
_MOST_SCHEMAS = 64


def _decoder_schema(schema_text: str, name: str) -> Any:
    reader = SchemaReader(name)
    root = reader.inline_text(schema_text)
    leaves = reader.rename(reader.record_schema(root, "manifest list row"), MANIFEST_FILE, OLD_NAMES)
    partitions = leaves.get(PARTITIONS)
    if partitions is not None and partitions.base == "array":
        reader.rename(leaf_type(partitions.node["items"], name).node, FIELD_SUMMARY, {})
    return decoder_schema(root, name)


def assign_inherited(
    manifests: Iterable[ManifestFile], *, sequence_number: int, first_row_id: int | None = None
) -> tuple[list[ManifestFile], int | None]:
    """Manifests in the form for a list: new ones get ``sequence_number``; if ``first_row_id`` is given (v3), data manifests
    without a first row id get one (LINEAGE-10).

    Returns them with the next free row id: ``next_row_id - first_row_id`` is the snapshot's ``added-rows`` (LINEAGE-14).
    """
    assigned = []
    for m in manifests:
        if m.sequence_number == UNASSIGNED:
            lowest = sequence_number if m.min_sequence_number == UNASSIGNED else m.min_sequence_number
            m = replace(m, sequence_number=sequence_number, min_sequence_number=lowest)
        if first_row_id is not None and m.content is ManifestContent.DATA and m.first_row_id is None:
            m = replace(m, first_row_id=first_row_id)
            first_row_id += _rows(m)
        assigned.append(m)
    return assigned, first_row_id


def write_manifest_list(
    manifests: Sequence[ManifestFile],
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    format_version: int,
    first_row_id: int | None = None,
    compression: str = "deflate",
) -> bytes:
    """A manifest list. Manifests without assigned numbers are treated as in ``assign_inherited``.

    ``first_row_id`` is the snapshot's (v3 only). ``compression`` is an Avro codec name. Raises CorruptTableError for a
    manifest without a value that the format version requires.
    """
    rows, _ = assign_inherited(
        manifests, sequence_number=sequence_number, first_row_id=first_row_id if format_version >= 3 else None
    )
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
    }
    if format_version >= 2:
        metadata["sequence-number"] = str(sequence_number)
    if format_version >= 3:
        metadata["first-row-id"] = "null" if first_row_id is None else str(first_row_id)
    columns = [c for c in MANIFEST_FILE if c.is_written(format_version)]
    encoders = [(c, attrgetter(c.name), _encoder(c, format_version)) for c in columns]
    raw = b"".join(_encode_row(m, encoders) for m in rows)
    blocks = [(len(rows), raw)] if rows else []
    return write_container(_avro_schema(columns, format_version), metadata, blocks, codec=compression)


def _rows(m: ManifestFile) -> int:
    if m.added_rows_count is None or m.existing_rows_count is None:
        raise CorruptTableError(f"{m.manifest_path}: its row counts are unknown, so row ids cannot be assigned")
    return m.added_rows_count + m.existing_rows_count


def _manifest(r: Mapping[str, Any], name: str) -> ManifestFile:
    try:
        return _unchecked(r, name)
    except (KeyError, TypeError, ValueError) as e:
        raise CorruptTableError(f"{name}: a manifest list row has a value of a wrong type: {type(e).__name__} {e}") from None


def _unchecked(r: Mapping[str, Any], name: str) -> ManifestFile:
    get = r.get
    path, length, content = r["f500"], r["f501"], get("f517") or 0
    if path is None or length is None or content not in (0, 1):
        raise CorruptTableError(f"{name}: manifest {path!r} has length {length} and content {content}")
    partitions = get("f507")
    return ManifestFile(
        manifest_path=path,
        manifest_length=length,
        partition_spec_id=get("f502") or 0,
        content=_CONTENTS[content],
        sequence_number=_known(get("f515")) or 0,
        min_sequence_number=_known(get("f516")) or 0,
        added_snapshot_id=get("f503"),
        added_files_count=_known(get("f504")),
        existing_files_count=_known(get("f505")),
        deleted_files_count=_known(get("f506")),
        added_rows_count=_known(get("f512")),
        existing_rows_count=_known(get("f513")),
        deleted_rows_count=_known(get("f514")),
        partitions=None if partitions is None else tuple(_summary(p, name) for p in partitions),
        key_metadata=get("f519"),
        first_row_id=_known(get("f520")),
    )


def _known(number: int | None) -> int | None:
    return None if number is None or number < 0 else number


def _summary(p: Mapping[str, Any], name: str) -> FieldSummary:
    if p["f509"] is None:
        raise CorruptTableError(f"{name}: a partition summary does not say whether it contains null")
    return FieldSummary(p["f509"], p.get("f518"), p.get("f510"), p.get("f511"))


def _encode_row(m: ManifestFile, encoders: list[tuple[Column, Any, Encode]]) -> bytes:
    parts = []
    for column, get, encode in encoders:
        try:
            parts.append(encode(get(m)))
        except (TypeError, ValueError, AttributeError, OverflowError):
            raise CorruptTableError(
                f"{m.manifest_path}: its {column.name} is {get(m)!r}, which a manifest list cannot hold"
            ) from None
    return b"".join(parts)


_SUMMARY_ENCODERS: tuple[Encode, ...] = (
    PRIMITIVES["boolean"], optional(PRIMITIVES["boolean"]), optional(PRIMITIVES["bytes"]), optional(PRIMITIVES["bytes"]),
)  # fmt: skip


def _encode_summaries(summaries: Sequence[FieldSummary] | None) -> bytes:
    if summaries is None:
        return b"\x00"
    get = attrgetter("contains_null", "contains_nan", "lower_bound", "upper_bound")
    return SOME + array([b"".join([e(v) for e, v in zip(_SUMMARY_ENCODERS, get(s), strict=True)]) for s in summaries])


def _encoder(column: Column, format_version: int) -> Encode:
    if column.field_id == PARTITIONS:
        return _encode_summaries
    encode = PRIMITIVES[column.kind]
    return encode if column.is_required(format_version) else optional(encode)


def _avro_schema(columns: Sequence[Column], format_version: int) -> dict[str, Any]:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [avro_field(c, c.kind, c.required_since is not None) for c in FIELD_SUMMARY],
    }
    partitions = {"type": "array", "items": summary, "element-id": 508}
    return {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            avro_field(c, partitions if c.field_id == PARTITIONS else c.kind, c.is_required(format_version)) for c in columns
        ],
    }
