"""Copies of tables that tests build once."""

from __future__ import annotations

from tests.actions.lake import make_lake, numbered


def test_a_copy_has_the_same_rows_and_what_becomes_of_it_is_not_seen_by_the_first() -> None:
    first = make_lake()
    first.append(numbered(0, 5))
    copy = first.copy()
    assert (copy.rows(), copy.paths()) == (first.rows(), first.paths())
    copy.append(numbered(10, 5))
    first.append(numbered(20, 3))
    assert [row[0] for row in copy.rows()] == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert [row[0] for row in first.rows()] == [0, 1, 2, 3, 4, 20, 21, 22]
    copy.catalog.drop_table(copy.identifier, purge=True)
    assert len(first.rows()) == 8
