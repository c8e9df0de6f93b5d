"""``data.read_ahead``: data that is read before it is requested, and the behaviour at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from iceberg_ops.data.arrow.read_ahead import prefetched


class Source:
    """Numbers; ``read`` is set when that many were handed out."""

    def __init__(self, count: int, mark: int) -> None:
        self.count, self.mark, self.given = count, mark, 0
        self.reached = threading.Event()

    def __iter__(self) -> Iterator[int]:
        for n in range(self.count):
            self.given += 1
            if self.given == self.mark:
                self.reached.set()
            yield n


@pytest.mark.parametrize(
    ("depth", "size", "given"),
    [(1, 1, 3), (2, 1, 4), (100, 10, 12), (100, 60, 4), (100, 1000, 3)],
    ids=["one item", "two items", "ten items of a tenth", "two items of more than half", "one item larger than all"],
)
def test_reading_goes_on_while_what_waits_is_smaller_than_the_limit(depth: int, size: int, given: int) -> None:
    # One item is taken, those that fit wait, and one more is in the reader's hand.
    source = Source(50, given)
    items = prefetched(iter(source), depth, lambda _: size)
    assert next(items) == 0
    assert source.reached.wait(10)
    items.close()
    assert source.given == given


def test_all_items_come_in_order_whatever_their_size() -> None:
    assert list(prefetched(iter(range(500)), 64, lambda n: n % 90)) == list(range(500))


def test_an_error_is_raised_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("gone")

    items = prefetched(failing(), 10)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(OSError, match="gone"):
        next(items)


def test_closing_stops_the_thread_that_reads() -> None:
    before = threading.active_count()
    items = prefetched(iter(range(1000)))
    next(items)
    items.close()
    assert threading.active_count() == before
