"""Data files carried from manifest to manifest as the bytes they are.

An entry that is written again (EXISTING, DELETED) differs from the one that was read in its first fields and, in format version 3,
in its first row id; the rest, statistics above all, is most of its bytes. Where the manifest that was read has the layout that is
written, those bytes are cut out of its blocks and never decoded.

Where a record starts is not recorded. Its first bytes are known, though: status, snapshot id, sequence numbers and content, in the
shortest form. They are looked for at every byte; only where they are found exactly as often as there are records, in the records'
order and each with the record's path behind it, is the block cut there. Any doubt gives None, and the entries are encoded value by
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.serde.avro_container import Container
from iceberg_ops.serde.avro_encoding import NULL, SOME, encode_long, encode_text

_MOST_HEADS = 16
"""More different first bytes in one block are not looked for."""

Layout = Any
"""What decides on the bytes of a manifest's records: compared for equality only."""

Head = tuple[int, int | None, int | None, int | None, int]
"""Status, snapshot id, both sequence numbers and content, as written."""


@dataclass(frozen=True, slots=True)
class EncodedFiles:
    """Per record the struct ``data_file`` up to its first row id, and what comes behind that; ``tails`` is None where the layout
    has no first row id."""

    bodies: Sequence[bytes]
    tails: Sequence[bytes] | None


def layout_of(node: Any) -> Layout:
    """Of a schema as a ``DecodingPlan`` has it: columns are named after their field ids there."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return tuple(layout_of(n) for n in node)
    kind = node["type"]
    if kind == "record":
        return kind, tuple((f["name"], layout_of(f["type"])) for f in node["fields"])
    if kind == "array":
        return kind, layout_of(node["items"])
    if kind == "map":
        return kind, layout_of(node["values"])
    return kind, node.get("size"), node.get("logicalType"), tuple(node.get("symbols", ()))


def cut_bodies(container: Container, heads: Sequence[Head], paths: Sequence[str], *, version: int) -> list[bytes] | None:
    """Per record its struct ``data_file``; None where it is not certain where the records start."""
    if len(heads) != container.record_count:
        return None
    known = {head: _encoded_head(head, version) for head in set(heads)}
    bodies: list[bytes] = []
    first = 0
    for count, raw in container.blocks:
        cut = _cut_block(raw, heads[first : first + count], paths[first : first + count], known)
        if cut is None:
            return None
        bodies += cut
        first += count
    return bodies


def split_tails(bodies: Sequence[bytes], first_row_ids: Sequence[int | None], tails: Sequence[bytes]) -> EncodedFiles | None:
    """``bodies`` without first row id and tail, which they have to end with; None where one does not."""
    short = []
    for body, number, tail in zip(bodies, first_row_ids, tails, strict=True):
        end = (NULL if number is None else SOME + encode_long(number)) + tail
        if not body.endswith(end):
            return None
        short.append(body[: -len(end)])
    return EncodedFiles(short, tails)


def encoded_tail(referenced_data_file: str | None, content_offset: int | None, content_size_in_bytes: int | None) -> bytes:
    """What comes behind the first row id."""
    path = NULL if referenced_data_file is None else SOME + encode_text(referenced_data_file)
    return path + b"".join(NULL if n is None else SOME + encode_long(n) for n in (content_offset, content_size_in_bytes))


def _encoded_head(head: Head, version: int) -> tuple[bytes, int]:
    """The first bytes of a record, and where in them the data file starts."""
    status, *numbers, content = head
    entry = encode_long(status)
    for number in numbers[: 1 if version == 1 else 3]:
        entry += NULL if number is None else SOME + encode_long(number)
    return entry if version == 1 else entry + encode_long(content), len(entry)


def _cut_block(raw: bytes, heads: Sequence[Head], paths: Sequence[str], known: dict[Head, tuple[bytes, int]]) -> list[bytes] | None:
    distinct = set(heads)
    if len(distinct) > _MOST_HEADS:
        return None
    starts: list[tuple[int, Head]] = []
    for head in distinct:
        starts += [(at, head) for at in _occurrences(raw, known[head][0], len(heads))]
    if len(distinct) > 1:
        starts.sort(key=_position)
    if len(starts) != len(heads) or any(found != head for (_, found), head in zip(starts, heads, strict=True)):
        return None
    if not starts or starts[0][0] != 0:
        return None if raw else []
    bodies = []
    ends = [at for at, _ in starts[1:]] + [len(raw)]
    for (start, head), end, path in zip(starts, ends, paths, strict=True):
        encoded, offset = known[head]
        text = encode_text(path)
        if start + len(encoded) + len(text) > end or not raw.startswith(text, start + len(encoded)):
            return None
        bodies.append(raw[start + offset : end])
    return bodies


def _position(start: tuple[int, Head]) -> int:
    return start[0]


def _occurrences(raw: bytes, wanted: bytes, most: int) -> list[int]:
    """Where ``wanted`` is found, overlapping ones too; at most one more than ``most``."""
    found: list[int] = []
    at = raw.find(wanted)
    while at >= 0 and len(found) <= most:
        found.append(at)
        at = raw.find(wanted, at + 1)
    return found
