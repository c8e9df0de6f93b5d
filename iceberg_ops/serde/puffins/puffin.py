"""Puffin files: blobs with a JSON footer (Puffin specification; PUFFIN-01..04).

Layout: magic ``PFA1``, blobs, then the footer: magic, payload, payload size (4 bytes, little endian), flags (4 bytes), magic. Blob
types are not interpreted here, so unknown ones pass through.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from iceberg_ops.errors import CorruptTableError, UnsupportedError

MAGIC = b"PFA1"
DELETION_VECTOR = "deletion-vector-v1"
THETA_SKETCH = "apache-datasketches-theta-v1"
_TAIL = 12
_CODECS = {"zstd": "zstd", "lz4": "lz4"}
_MOST_INFLATED = 1 << 31
"""A compressed blob or footer that decompresses to more bytes than this is refused."""
_INFLATED_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinBlob:
    """One blob in the footer's list. ``length`` is the stored size in bytes; ``compression_codec`` None, lz4 or zstd."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PuffinFooter:
    """``size`` is that of the complete footer, in bytes (statistics files record it as ``file-footer-size-in-bytes``)."""

    blobs: tuple[PuffinBlob, ...]
    properties: Mapping[str, str]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobToWrite:
    """A blob that is not yet placed in a file. ``data`` is plain; ``compression_codec`` says how it is compressed."""

    type: str
    data: bytes
    fields: tuple[int, ...] = ()
    snapshot_id: int = -1
    sequence_number: int = -1
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def read_footer(stream: BinaryIO, name: str) -> PuffinFooter:
    """The footer of a complete Puffin file; reads only the file's ends. Raises CorruptTableError, UnsupportedError (unknown
    flag)."""
    end = stream.seek(0, os.SEEK_END)
    if end < 2 * len(MAGIC) + _TAIL:
        raise CorruptTableError(f"{name}: a Puffin file of {end} bytes is too short")
    stream.seek(0)
    _expect_magic(stream.read(4), name, "the file")
    stream.seek(end - _TAIL)
    tail = stream.read(_TAIL)
    _expect_magic(tail[8:], name, "the end")
    size = int.from_bytes(tail[:4], "little")
    flags = int.from_bytes(tail[4:8], "little")
    if flags & ~1:
        raise UnsupportedError(f"not supported: {name}, because its Puffin footer has flags {flags:#x}, which no version defines")
    start = end - _TAIL - size - 4
    if start < 4:
        raise CorruptTableError(f"{name}: Puffin footer of {size} bytes does not fit a file of {end}")
    stream.seek(start)
    _expect_magic(stream.read(4), name, "the footer")
    payload = stream.read(size)
    if flags & 1:
        payload = _decompress("lz4", payload, f"{name}: footer")
    return _footer(payload, start, size + 16, name)


def read_blob(stream: BinaryIO, blob: PuffinBlob, name: str) -> bytes:
    """A blob's bytes, decompressed. Raises CorruptTableError, and UnsupportedError for an unknown codec or more than 2 GiB."""
    stream.seek(blob.offset)
    data = stream.read(blob.length)
    if len(data) != blob.length:
        raise CorruptTableError(f"{name}: blob at byte {blob.offset} has {len(data)} of {blob.length} bytes")
    return data if blob.compression_codec is None else _decompress(blob.compression_codec, data, name)


def write_puffin(
    blobs: Sequence[BlobToWrite], properties: Mapping[str, str] | None = None
) -> tuple[bytes, tuple[PuffinBlob, ...], int]:
    """A Puffin file: its bytes, its blobs with their offsets, and its footer's size. The footer is not compressed."""
    parts, placed, position = [MAGIC], [], len(MAGIC)
    for blob in blobs:
        data = blob.data if blob.compression_codec is None else _compress(blob.compression_codec, blob.data)
        parts.append(data)
        placed.append(
            PuffinBlob(
                type=blob.type,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                offset=position,
                length=len(data),
                compression_codec=blob.compression_codec,
                properties=dict(blob.properties),
            )
        )
        position += len(data)
    document: dict[str, Any] = {"blobs": [_blob_to_dict(b) for b in placed]}
    if properties:
        document["properties"] = dict(properties)
    payload = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    parts += [MAGIC, payload, len(payload).to_bytes(4, "little"), bytes(4), MAGIC]
    return b"".join(parts), tuple(placed), len(payload) + 16


def _blob_to_dict(blob: PuffinBlob) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec:
        document["compression-codec"] = blob.compression_codec
    if blob.properties:
        document["properties"] = dict(blob.properties)
    return document


def _footer(payload: bytes, blobs_end: int, size: int, name: str) -> PuffinFooter:
    try:
        document = json.loads(payload)
        blobs = tuple(_blob(b) for b in document["blobs"])
        properties = {str(k): str(v) for k, v in (document.get("properties") or {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise CorruptTableError(f"{name}: Puffin footer is malformed: {type(e).__name__} {e}") from None
    for blob in blobs:
        if blob.offset < 4 or blob.length < 0 or blob.offset + blob.length > blobs_end:
            raise CorruptTableError(f"{name}: blob of {blob.length} bytes at byte {blob.offset} does not lie before the footer")
    return PuffinFooter(blobs, properties, size)


def _blob(d: Mapping[str, Any]) -> PuffinBlob:
    return PuffinBlob(
        type=_typed(d["type"], str),
        fields=tuple(_typed(f, int) for f in d["fields"]),
        snapshot_id=_typed(d["snapshot-id"], int),
        sequence_number=_typed(d["sequence-number"], int),
        offset=_typed(d["offset"], int),
        length=_typed(d["length"], int),
        compression_codec=d.get("compression-codec"),
        properties={str(k): str(v) for k, v in (d.get("properties") or {}).items()},
    )


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} must be {kind.__name__}")
    return value


def _expect_magic(magic: bytes, name: str, where: str) -> None:
    if magic != MAGIC:
        raise CorruptTableError(f"{name}: not a Puffin file: {where} has {magic!r} in place of {MAGIC!r}")


def _compress(codec: str, data: bytes) -> bytes:
    import pyarrow  # noqa: PLC0415 - a codec chosen by name

    if codec not in _CODECS:
        raise UnsupportedError(f"not supported: Puffin blob with compression {codec!r}, because only lz4 and zstd are known")
    packed: bytes = pyarrow.compress(data, codec=_CODECS[codec], asbytes=True)
    return packed


def _decompress(codec: str, data: bytes, name: str) -> bytes:
    import pyarrow  # noqa: PLC0415 - a codec chosen by name

    if codec not in _CODECS:
        raise UnsupportedError(f"not supported: {name} with compression {codec!r}, because only lz4 and zstd are known")
    if not data:  # a codec's output is one frame, even for no bytes; Arrow returns nothing for empty input
        raise CorruptTableError(f"{name}: {codec} data of 0 bytes is not a {codec} frame")
    try:
        with pyarrow.input_stream(pyarrow.BufferReader(data), compression=_CODECS[codec]) as stream:
            parts, size = [], 0
            while part := stream.read(_INFLATED_AT_ONCE):
                parts.append(part)
                size += len(part)
                if size > _MOST_INFLATED:
                    raise UnsupportedError(f"not supported: {name}, because its {codec} data is more than {_MOST_INFLATED} bytes")
            return b"".join(parts)
    except (OSError, ValueError) as e:
        raise CorruptTableError(f"{name}: {codec} data cannot be decompressed: {e}") from None
