"""The input and output of the rewrite of a file group, as values that can be sent as JSON.

A ``GroupWork`` names the tasks to read (data files with the deletes that apply), the read and write settings, and the storage; a
``GroupResult`` holds the written files and the certificate. This module does not load Arrow: code that plans, commits or reports
groups reads no rows. ``data.rewrite`` does the work itself.
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
    ``WriteContext.to_json()``; ``io_properties`` are for ``io.load.load_file_io``. ``sort_order`` is a sort order's JSON
    (``serde.sort_json``), ``zorder_columns`` full column names; at most one of the two is set, and without both rows keep the
    order of the tasks. ``task_id`` and ``operation_id`` are in the names of files (``file_names``); another attempt writes files
    with other names.
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
    """JSON form of the one partition tuple of all output; None: partition values are computed from the rows."""
    spec_id: int | None = None
    sort_order: Mapping[str, Any] | None = None
    zorder_columns: tuple[str, ...] = ()
    curve: str = "zorder"
    """The curve for ``zorder_columns``: zorder or hilbert."""
    memory_limit_bytes: int = 1 << 28
    """Above this many Arrow bytes, sorting spills sorted runs; a task then holds about three times as many."""
    ranges: int = 1
    """The number of ranges of about the same size, and so of files, into which a staged sort cuts the rows."""
    range_file_size: int = 0
    """The maximum size of a range's one file, because ranges are never quite even; 0: ``target_file_size``."""

    @property
    def is_sorted(self) -> bool:
        """Rows do not keep the order of the tasks."""
        return self.sort_order is not None or bool(self.zorder_columns)

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> GroupWork:
        document = json.loads(text)
        for name in ("tasks", "zorder_columns"):
            document[name] = tuple(document[name])
        if document["partition"] is not None:
            document["partition"] = tuple(document["partition"])
        return cls(**document)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """The result of a group: the files written (``serde.content_file_json`` forms, in the order they were written, those of one
    partition together) and the certificate's figures.

    ``null_counts_in`` and ``null_counts_out`` map field ids to nulls among live rows read, and among rows written;
    ``deleted_rows_applied`` counts rows of the input files that deletes removed. ``rows_in_order`` counts the written rows whose
    order was verified against the row before; 0 without a requested order. ``bytes_in`` is the size of the tasks' files,
    ``bytes_out`` that of the written ones.
    """

    group_id: str
    added: tuple[Mapping[str, Any], ...]
    rows_in: int
    rows_out: int
    deleted_rows_applied: int = 0
    rows_in_order: int = 0
    null_counts_in: Mapping[int, int] = field(default_factory=dict)
    null_counts_out: Mapping[int, int] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    duration_ms: int = 0
    spilled_runs: tuple[int, ...] = ()
    """Rows of each run that a sort spilled or staged."""

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> GroupResult:
        document = json.loads(text)
        for name in ("added", "spilled_runs"):
            document[name] = tuple(document[name])
        for name in ("null_counts_in", "null_counts_out"):
            document[name] = {int(k): v for k, v in document[name].items()}
        return cls(**document)

    @property
    def is_balanced(self) -> bool:
        """The certificate holds: rows and nulls are equal on both sides."""
        return self.rows_in == self.rows_out and all(self.null_counts_out.get(i, n) == n for i, n in self.null_counts_in.items())
