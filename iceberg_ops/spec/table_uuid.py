"""A table's uuid (spec: "table-uuid") is a value: one table's metadata files may spell it in upper case and in lower case.

It is written back as it was read, because other engines compare its text. Here it is compared by these two functions only.
"""

from __future__ import annotations


def uuid_key(uuid: str) -> str:
    """The same text for every spelling of the uuid; empty for a v1 table that has none."""
    return uuid.lower()


def same_uuid(one: str, other: str) -> bool:
    """Whether two texts spell one uuid. That both are empty does not show that two tables are one (``table.same_table``)."""
    return uuid_key(one) == uuid_key(other)
