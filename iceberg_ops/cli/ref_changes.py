"""The changes of a command to branches and tags, and the command that undoes each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_ops.cli.ages import age_text

if TYPE_CHECKING:
    from iceberg_ops.spec.snapshots import SnapshotRef


@dataclass(frozen=True, slots=True)
class RefChange:
    """One changed branch or tag. ``before`` None: it did not exist; ``after`` None: it no longer exists. ``old_name``: it was
    renamed."""

    name: str
    before: SnapshotRef | None
    after: SnapshotRef | None
    old_name: str | None = None

    @property
    def type(self) -> str:
        """``branch`` or ``tag``."""
        ref = self.after or self.before
        assert ref is not None
        return ref.type

    @property
    def text(self) -> str:
        """The change as text for people."""
        if self.old_name is not None:
            return f"{self.type} {self.old_name}: renamed to {self.name}"
        if self.before is None:
            return f"{self.type} {self.name}: created at {_id(self.after)}"
        if self.after is None:
            return f"{self.type} {self.name}: dropped, it was at {_id(self.before)}"
        if self.before.snapshot_id == self.after.snapshot_id:
            return f"{self.type} {self.name}: retention changed, at {_id(self.after)}"
        also = "" if _retention(self.before) == _retention(self.after) else ", retention changed"
        return f"{self.type} {self.name}: {_id(self.before)} -> {_id(self.after)}{also}"

    def undo(self, table: str) -> str | None:
        """The command line that undoes it. None if there is none: another retention was set, or the new branch is ``main``. A moved
        ref also gets its former retention back."""
        if self.old_name is not None:
            return self._line(table, f"--rename {shlex.quote(self.old_name)}")
        if self.before is None:
            return None if self.name == "main" else self._line(table, "--drop")
        if self.after is None:
            return self._line(table, f"--snapshot-id {_id(self.before)}{_retention(self.before)}")
        if self.before.snapshot_id == self.after.snapshot_id:
            return None
        if _retention(self.before) != _retention(self.after):
            had, has = _ages(self.before), _ages(self.after)
            if any(had[option] is None and has[option] is not None for option in has):
                return None  # no option removes a retention setting
            return self._line(table, f"--snapshot-id {_id(self.before)} --replace{_retention(self.before)}")
        if self.type == "tag":
            return self._line(table, f"--snapshot-id {_id(self.before)} --replace")
        branch = f"--branch {shlex.quote(self.name)} --snapshot-id {_id(self.before)} --any-snapshot"
        return f"iceberg-ops rollback {shlex.quote(table)} {branch}"

    def _line(self, table: str, options: str) -> str:
        """The command for the ref. A name that begins with ``-`` is put after ``--``, otherwise it would be an option."""
        target, name = shlex.quote(table), shlex.quote(self.name)
        if self.name.startswith("-"):
            return f"iceberg-ops {self.type} {options} -- {target} {name}"
        return f"iceberg-ops {self.type} {target} {name} {options}"


def ref_changes(before: Mapping[str, SnapshotRef], after: Mapping[str, SnapshotRef]) -> list[RefChange]:
    """The refs that differ, by name. A missing ref and a new one with the same value are a rename."""
    gone = [name for name in before if name not in after]
    new = [name for name in after if name not in before]
    if len(gone) == len(new) == 1 and before[gone[0]] == after[new[0]]:
        return [RefChange(new[0], before[gone[0]], after[new[0]], gone[0])]
    names = sorted({*before, *after})
    return [RefChange(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]


def _id(ref: SnapshotRef | None) -> int | None:
    return None if ref is None else ref.snapshot_id


def _retention(ref: SnapshotRef) -> str:
    return "".join(f" {option} {value}" for option, value in _ages(ref).items() if value is not None)


def _ages(ref: SnapshotRef) -> dict[str, str | int | None]:
    """The retention as options of ``branch`` and ``tag``; None for settings that are not set."""
    return {
        "--retain": None if ref.max_ref_age_ms is None else age_text(ref.max_ref_age_ms),
        "--min-snapshots": ref.min_snapshots_to_keep,
        "--max-snapshot-age": None if ref.max_snapshot_age_ms is None else age_text(ref.max_snapshot_age_ms),
    }
