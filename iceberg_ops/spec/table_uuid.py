"""A table's uuid (spec: "table-uuid") as a value: metadata files of one table may spell it in upper case or in lower case.

It is written back as it was read, because other engines compare its text. This package compares it only by these two functions.
"""

from __future__ import annotations


def uuid_key(uuid: str) -> str:
    """The same text for every spelling of the uuid; empty for a v1 table that has none."""
    return uuid.lower()


def same_uuid(one: str, other: str) -> bool:
    """Whether two texts spell one uuid. Two empty texts do not show that the tables are the same (``table.same_table``)."""
    return uuid_key(one) == uuid_key(other)
