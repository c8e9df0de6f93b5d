"""Copies data files from manifest to manifest as unchanged bytes.

A rewritten entry (EXISTING, DELETED) differs from the original in its first fields and, in format version 3, in its first row id;
the rest, mostly statistics, is most of its bytes. If the source manifest has the layout that is written, those bytes are copied
from its blocks and never decoded.

The start of a record is not recorded. But its first bytes are known: status, snapshot id, sequence numbers and content, in the
shortest form. They are searched at every byte. The block is cut only if they are found exactly as often as there are records, in
the records' order and each with the record's path after it. Any doubt gives None, and the entries are encoded value by
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.serde.avro.avro_container import Container
from iceberg_ops.serde.avro.avro_encoding import NULL, SOME, encode_long, encode_text

_PREFIX = 8
"""The number of first bytes of a record that are searched at all places at once."""

Layout = Any
"""The schema details that determine the bytes of a manifest's records: only compared for equality."""

Head = tuple[int, int | None, int | None, int | None, int]
"""Status, snapshot id, both sequence numbers and content, as written."""


@dataclass(frozen=True, slots=True)
class EncodedFiles:
    """For each record the struct ``data_file`` up to its first row id, and the bytes after that; ``tails`` is None if the layout
    has no first row id."""

    bodies: Sequence[bytes]
    tails: Sequence[bytes] | None


def schema_layout(node: Any) -> Layout:
    """The layout of a schema in the form of a ``DecodingPlan``, in which columns are named after their field ids."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return tuple(schema_layout(n) for n in node)
    kind = node["type"]
    if kind == "record":
        return kind, tuple((f["name"], schema_layout(f["type"])) for f in node["fields"])
    if kind == "array":
        return kind, schema_layout(node["items"])
    if kind == "map":
        return kind, schema_layout(node["values"])
    return kind, node.get("size"), node.get("logicalType"), tuple(node.get("symbols", ()))


def cut_bodies(container: Container, heads: Sequence[Head], paths: Sequence[str], *, version: int) -> list[bytes] | None:
    """For each record its struct ``data_file``; None if it is not certain where the records start."""
    if len(heads) != container.record_count:
        return None
    known = {head: _encoded_head(head, version) for head in set(heads)}
    raw = b"".join(block for _, block in container.blocks)
    starts = _occurrences(raw, tuple({encoded for encoded, _ in known.values()}), len(heads))
    if len(starts) != len(heads) or not _is_cut_by_blocks(starts, container):
        return None
    bodies = []
    for start, end, head, path in zip(starts, [*starts[1:], len(raw)], heads, paths, strict=True):
        encoded, offset = known[head]
        text = encoded + encode_text(path)
        if start + len(text) > end or not raw.startswith(text, start):
            return None
        bodies.append(raw[start + offset : end])
    return bodies


def split_tails(bodies: Sequence[bytes], first_row_ids: Sequence[int | None], tails: Sequence[bytes]) -> EncodedFiles | None:
    """``bodies`` without first row id and tail, with which they must end; None if one does not."""
    short = []
    for body, number, tail in zip(bodies, first_row_ids, tails, strict=True):
        end = (NULL if number is None else SOME + encode_long(number)) + tail
        if not body.endswith(end):
            return None
        short.append(body[: -len(end)])
    return EncodedFiles(short, tails)


def encoded_tail(referenced_data_file: str | None, content_offset: int | None, content_size_in_bytes: int | None) -> bytes:
    """The bytes after the first row id."""
    path = NULL if referenced_data_file is None else SOME + encode_text(referenced_data_file)
    return path + b"".join(NULL if n is None else SOME + encode_long(n) for n in (content_offset, content_size_in_bytes))


def _encoded_head(head: Head, version: int) -> tuple[bytes, int]:
    """The first bytes of a record, and the offset of the data file in them."""
    status, *numbers, content = head
    entry = encode_long(status)
    for number in numbers[: 1 if version == 1 else 3]:
        entry += NULL if number is None else SOME + encode_long(number)
    return entry if version == 1 else entry + encode_long(content), len(entry)


def _is_cut_by_blocks(starts: Sequence[int], container: Container) -> bool:
    """Whether each block starts at the start of a record, and has as many records as it says."""
    at = first = 0
    for count, block in container.blocks:
        if starts[first : first + 1] != [at] if count else block:
            return False
        at, first = at + len(block), first + count
    return True


def _occurrences(raw: bytes, patterns: tuple[bytes, ...], expected: int) -> list[int]:
    """Where any of ``wanted`` is found, overlapping matches included. If there are exactly as many places as expected, only their
    first bytes are compared: the caller compares them completely."""
    import numpy as np  # noqa: PLC0415 - NumPy is loaded for columns only

    if not patterns or len(raw) < 2:
        return []
    width = min(_PREFIX, *(len(text) for text in patterns), len(raw))
    octets = np.frombuffer(raw, np.uint8)
    last = len(raw) - width + 1
    may_be = np.zeros(last, bool)
    for first, second in {(text[0], text[1]) for text in patterns}:
        may_be |= (octets[:last] == first) & (octets[1 : last + 1] == second)
    places = np.flatnonzero(may_be)
    prefixes = np.zeros(len(places), np.uint64)
    for at in range(width):
        prefixes |= octets[places + at].astype(np.uint64) << np.uint64(8 * at)
    places = places[np.isin(prefixes, np.array([int.from_bytes(text[:width], "little") for text in patterns], np.uint64))]
    positions: list[int] = places.tolist()
    return positions if len(positions) == expected else [at for at in positions if raw.startswith(patterns, at)]
