"""Rewriting one file group: what is shipped to whoever does it, and what comes back.

A ``GroupWork`` is a JSON-shippable value: it names the tasks to read (data files with the deletes that apply), how to read and
write, and where storage is. ``rewrite_group`` turns it into a ``GroupResult`` anywhere: in this process, in a worker process, in a
Spark executor. Nothing is committed here, and nothing is planned: which files make a group is decided by iceberg_ops.planning,
and the result is checked and committed by iceberg_ops.actions.

The rule upheld: the certificate. Live rows read (after deletes) and rows written are counted apart, and so are the nulls of every
leaf column; the caller commits only when both sides agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """One group to rewrite.

    ``tasks`` are ``scan.tasks.task_to_json`` texts; ``read`` and ``write`` are ``ReadContext.to_json()`` and
    ``WriteContext.to_json()``; ``io_properties`` are what ``io.load.load_file_io`` takes. ``sort_order`` is a sort order's JSON
    (``serde.sort_json``), ``zorder_columns`` full column names; at most one of the two is set, and with neither rows keep the
    order of the tasks. Files are named ``<partition path>/<task_id>-<operation_id>-<n>.<format>``.
    """

    group_id: str
    tasks: tuple[str, ...]
    read: Mapping[str, Any]
    write: Mapping[str, Any]
    io_properties: Mapping[str, str]
    target_file_size: int
    operation_id: str
    task_id: str = "00000"
    partition: tuple[Any, ...] | None = None
    """JSON form of the one partition tuple all output has; None: partition values are computed from the rows."""
    spec_id: int | None = None
    sort_order: Mapping[str, Any] | None = None
    zorder_columns: tuple[str, ...] = ()
    memory_limit_bytes: int = 1 << 30
    """Sorting spills sorted runs to local disk beyond this many Arrow bytes."""

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> GroupWork:
        found = json.loads(text)
        for name in ("tasks", "zorder_columns"):
            found[name] = tuple(found[name])
        if found["partition"] is not None:
            found["partition"] = tuple(found["partition"])
        return cls(**found)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """What a group became: the files written (``serde.content_file_json`` forms) and the certificate's figures.

    ``null_counts_in`` and ``null_counts_out`` go from field id to nulls among live rows read, and among rows written;
    ``deleted_rows_applied`` counts rows of the input files that deletes removed. ``bytes_in`` is what the tasks' files hold,
    ``bytes_out`` what was written.
    """

    group_id: str
    added: tuple[Mapping[str, Any], ...]
    rows_in: int
    rows_out: int
    deleted_rows_applied: int = 0
    null_counts_in: Mapping[int, int] = field(default_factory=dict)
    null_counts_out: Mapping[int, int] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    duration_ms: int = 0

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> GroupResult:
        found = json.loads(text)
        found["added"] = tuple(found["added"])
        for name in ("null_counts_in", "null_counts_out"):
            found[name] = {int(k): v for k, v in found[name].items()}
        return cls(**found)

    @property
    def is_balanced(self) -> bool:
        """The certificate holds: rows and nulls agree on both sides."""
        return self.rows_in == self.rows_out and all(self.null_counts_out.get(i, n) == n for i, n in self.null_counts_in.items())
