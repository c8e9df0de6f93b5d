"""Requests and answers between a run and its worker processes: each is a frame, which is its length in 8 bytes followed by its
bytes.

A frame is read completely before any part is interpreted, so an answer that is cut short, or for which there is no memory, is never
taken for another one. The pipes are unbuffered, so the number of bytes read is exact.
"""

from __future__ import annotations

import struct
from io import FileIO

_LENGTH = struct.Struct("!Q")
_SKIPPED_AT_ONCE = 64 * 2**10


class NoMemoryForFrameError(Exception):
    """There is no memory for a frame. It was skipped, and the next one can be received."""


def send(pipe: FileIO, frame: bytes) -> None:
    """Write a whole frame. Raises OSError (BrokenPipeError: the other side does not read)."""
    for part in (_LENGTH.pack(len(frame)), frame):
        left = memoryview(part)
        while left:
            left = left[pipe.write(left) :]


def receive(pipe: FileIO) -> bytearray:
    """The next frame. Raises EOFError if the pipe ends before the frame, NoMemoryForFrameError, and OSError."""
    head = bytearray(_LENGTH.size)
    _fill(pipe, memoryview(head))
    (length,) = _LENGTH.unpack(head)
    try:
        frame = bytearray(length)
    except MemoryError as e:
        _skip(pipe, length)
        raise NoMemoryForFrameError(f"there is no memory for {length} bytes") from e
    _fill(pipe, memoryview(frame))
    return frame


def _fill(pipe: FileIO, left: memoryview) -> None:
    while left:
        if not (count := pipe.readinto(left)):
            raise EOFError("the pipe ended within a frame, or before it")
        left = left[count:]


def _skip(pipe: FileIO, length: int) -> None:
    part = memoryview(bytearray(_SKIPPED_AT_ONCE))
    while length:
        now = part[: min(length, _SKIPPED_AT_ONCE)]
        _fill(pipe, now)
        length -= len(now)
