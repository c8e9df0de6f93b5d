"""Finds where the records of Avro blocks start, which the file does not record.

The starts are guessed and then proved. The guess: each record holds a text (a manifest's file paths) with a beginning that many
records share, so every place with that beginning may be such a text. The proof: records read from the guessed places must join,
each ending where the next one starts, from the first byte of a block to its last, as many as the block records. Reading is
deterministic, so a chain that joins is the only possible reading. Other bytes are left to the record decoder (NotDecodable).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iceberg_ops.serde.avro.avro_columns import Column, ColumnReader, NotDecodable, Positions, node_type_name, non_null_type

_MOST_BEGINNINGS = 8
_BEGINNING = 8
_SHORTEST_CUT = 3
_LONGEST_BEGINNING = 32
_ENOUGH_SAMPLES = 4
_GUESSES_PER_RECORD = 8


@dataclass(frozen=True, slots=True)
class Records:
    """All records of a file. Fields of a nested record are named ``outer.inner``."""

    walk: ColumnReader
    starts: Positions
    columns: dict[str, Column]


def read_records(blocks: Sequence[tuple[int, bytes]], fields: Sequence[Any], text: str) -> Records:
    """The records of these blocks, each of ``fields`` (an Avro record's). ``text`` names a string field. Raises NotDecodable."""
    names = [f["name"] for f in fields]
    if text not in names or fields[names.index(text)]["type"] != "string" or any(not count and raw for count, raw in blocks):
        raise NotDecodable
    finder = _Finder([b for b in blocks if b[0]], fields, names.index(text))
    return finder.find()


def read_fields(walk: ColumnReader, fields: Iterable[Any], at: Positions) -> tuple[dict[str, Column], Positions]:
    """These fields one after the other, and the positions after them. Raises NotDecodable for a record that may be null."""
    columns: dict[str, Column] = {}
    for f in fields:
        name, node = f["name"], f["type"]
        if not isinstance(node, list) and node_type_name(node) == "record":
            inner, at = read_fields(walk, node["fields"], at)
            columns |= {f"{name}.{key}": column for key, column in inner.items()}
        elif node_type_name(non_null_type(node)) == "record":
            raise NotDecodable
        else:
            columns[name], at = walk.read(node, at)
    return columns, at


class _Finder:
    def __init__(self, blocks: Sequence[tuple[int, bytes]], fields: Sequence[Any], index: int) -> None:
        self._walk = ColumnReader(raw for _, raw in blocks)
        self._fields, self._head, self._tail = fields, fields[:index], fields[index + 1 :]
        self._text = fields[index]["name"]
        self._counts = np.array([count for count, _ in blocks], np.int64)
        sizes = np.array([len(raw) for _, raw in blocks], np.int64)
        self._block_ends = np.cumsum(sizes)
        self._block_starts: Positions = self._block_ends - sizes
        self._total = int(self._counts.sum())

    def find(self) -> Records:
        beginnings = _beginnings(self._samples())
        mean = self._walk.end // max(self._total, 1)
        records = self._joined(self._guesses(beginnings, mean // 2))
        while records is None:
            starts = self._chained(self._guesses(beginnings, 1), beginnings)
            records = None if starts is None else Records(self._walk, starts, read_fields(self._walk, self._fields, starts)[0])
        return records

    def _samples(self) -> list[bytes]:
        """The texts of each block's first record; if there are few blocks, also of the second."""
        walk, at = self._walk, self._block_starts
        text, behind = walk.read("string", self._skip(self._head, at))
        texts = walk.slices(text)
        more = self._counts > 1
        if len(at) < _ENOUGH_SAMPLES and more.any():
            text, _ = walk.read("string", self._skip(self._head, self._skip(self._tail, behind[more])))
            texts += walk.slices(text)
        return texts

    def _skip(self, fields: Iterable[Any], at: Positions) -> Positions:
        for f in fields:
            at = self._walk.skip(f["type"], at)
        return at

    def _guesses(self, beginnings: Sequence[bytes], hop: int) -> Positions:
        """Where one of these beginnings is found, at least ``hop`` bytes apart."""
        parts: list[Positions] = []
        most = _GUESSES_PER_RECORD * (self._total + 8)
        for beginning in beginnings:
            parts.append(_spaced(self._walk.find_all(beginning), hop))
            if sum(map(len, parts)) > most:
                raise NotDecodable
        return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))

    def _joined(self, at: Positions) -> Records | None:
        """The records, if all guesses are right."""
        if len(at) != self._total:
            return None
        walk, lengths = self._walk, self._lengths(at)
        tail, ends = read_fields(walk, self._tail, at + lengths)
        lasts = np.cumsum(self._counts)
        starts = np.concatenate((at[:1], ends[:-1]))
        starts[lasts - self._counts] = self._block_starts
        head, before = read_fields(walk, self._head, starts)
        numbers, behind = walk.numbers(before)
        if not (
            np.array_equal(behind, at) and np.array_equal(numbers, lengths) and np.array_equal(ends[lasts - 1], self._block_ends)
        ):
            return None
        return Records(walk, starts, {**head, self._text: Column("string", None, starts=at, lengths=lengths), **tail})

    def _chained(self, at: Positions, beginnings: list[bytes]) -> Positions | None:
        """The starts of the records, if they are among the guesses; None if another beginning (now in ``beginnings``) must be
        searched. Raises NotDecodable."""
        lengths = self._lengths(at)
        starts = np.concatenate((self._block_starts, self._skip(self._tail, at + lengths)))
        texts, behind = self._walk.numbers(self._skip(self._head, starts))
        place = {position: n for n, position in enumerate(at.tolist())}
        guessed, start_of, text_at, text_length = lengths.tolist(), starts.tolist(), behind.tolist(), texts.tolist()
        chain: list[int] = []
        for block, (count, end) in enumerate(zip(self._counts.tolist(), self._block_ends.tolist(), strict=True)):
            row = block
            for _ in range(count):
                n = place.get(text_at[row])
                if n is None:
                    self._add_beginning(beginnings, text_at[row], text_length[row])
                    return None
                if guessed[n] != text_length[row]:
                    raise NotDecodable
                chain.append(start_of[row])
                row = n + len(self._counts)
            if start_of[row] != end:
                raise NotDecodable
        return np.array(chain, np.int64)

    def _add_beginning(self, beginnings: list[bytes], at: int, length: int) -> None:
        """Adds the beginning of the text there, or shortens the beginnings that have a common start with it. Raises
        NotDecodable."""
        new = self._walk.raw[at : at + min(length, _BEGINNING)]
        if not new or length < 0 or len(beginnings) >= _MOST_BEGINNINGS or any(new.startswith(b) for b in beginnings):
            raise NotDecodable
        alike = [b for b in beginnings if len(_common([b, new])) >= _SHORTEST_CUT]
        beginnings[:] = [*(b for b in beginnings if b not in alike), _common([*alike, new])]

    def _lengths(self, at: Positions) -> Positions:
        """The lengths of texts that start there, from the one or two bytes before them; longer ones are not supported."""
        low, high = self._walk.bytes_at(at - 1).astype(np.int64), self._walk.bytes_at(at - 2).astype(np.int64)
        lengths: Positions = np.where(high >= 0x80, (high & 0x7F) | (low << 7), low) >> 1
        return lengths


def _spaced(places: Positions, hop: int) -> Positions:
    """Those of ascending places that are at least ``hop`` behind the last one taken."""
    if hop <= 1 or len(places) < 2 or int(np.diff(places).min()) >= hop:
        return places
    taken: list[int] = []
    for place in places.tolist():
        if not taken or place >= taken[-1] + hop:
            taken.append(place)
    return np.array(taken, np.int64)


def _beginnings(texts: Sequence[bytes]) -> list[bytes]:
    """What all texts begin with; where that is nothing, a few beginnings of single ones."""
    common = _common(texts)[:_LONGEST_BEGINNING]
    beginnings = [common] if common else sorted({t[:_BEGINNING] for t in texts})
    if not all(beginnings) or len(beginnings) > _MOST_BEGINNINGS:
        raise NotDecodable
    return beginnings


def _common(texts: Sequence[bytes]) -> bytes:
    """The common beginning of all texts."""
    low, high = min(texts), max(texts)
    return low[: next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))]
