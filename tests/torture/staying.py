"""Whether a file that the last clean-up left, although nothing refers to it, may stay for the reason that its report gives.

Each reason is known here, and its statement is checked: a job that skips files for no reason, or for a wrong one, is found. No
deletion fails in this world, so a failure is no reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from iceberg_ops.config.report import SkippedFile


@dataclass(frozen=True)
class Facts:
    """``recorded``: identities of all locations that the table records; ``others``: the same with the folders of each other table,
    by its name; ``identity``: of a location."""

    recorded: frozenset[str]
    others: Mapping[str, frozenset[str]]
    identity: Callable[[str], str]


def _same_name(location: str, said: str, facts: Facts) -> bool:
    is_recorded = facts.identity(said) in facts.recorded
    return is_recorded and said != location and said.rpartition("/")[2] == location.rpartition("/")[2]


def _same_if_decoded(location: str, said: str, facts: Facts) -> bool:
    is_recorded = facts.identity(said) in facts.recorded
    return is_recorded and facts.identity(said) != location and unquote(facts.identity(said)) == unquote(location)


def _of_other_table(location: str, said: str, facts: Facts) -> bool:
    return any(location == place or location.startswith(f"{place}/") for place in facts.others.get(said, ()))


def _is_hidden(location: str, _: str, facts: Facts) -> bool:
    return any(part.startswith(("_", ".")) for part in location.split("/"))


REASONS: dict[str, Callable[[str, str, Facts], bool]] = {
    r"it has the name of (.+), and may be that file": _same_name,
    r"it may be the file that is recorded as (.+)": _same_if_decoded,
    r"it is stored with the files of table (.+)": _of_other_table,
    r"(hidden): a name on its path begins with _ or \.": _is_hidden,
}
"""The whole text of a reason, with what it names -> whether it is true of a file."""


def may_stay(location: str, said: Iterable[SkippedFile], facts: Facts) -> bool:
    """Whether one of the reasons for this location (an identity) is known and true."""
    for kept in said:
        for pattern, is_true in REASONS.items():
            found = re.fullmatch(pattern, kept.reason)
            if found is not None and facts.identity(kept.file_path) == location and is_true(location, found[1], facts):
                return True
    return False
