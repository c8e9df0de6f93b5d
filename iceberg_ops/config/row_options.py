"""Options of the row operations, as documented and as typed values.

The first six are accepted everywhere, but append has no isolation, only append and overwrite distribute rows (distribution-mode,
write-tasks), and only merge-on-read on v2 writes position delete files (delete-granularity).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from iceberg_ops.config.option_parsing import Option, OptionReader, at_least, boolean, choice, names, size, text
from iceberg_ops.config.properties import DELETE_GRANULARITY, TARGET_FILE_SIZE_BYTES
from iceberg_ops.errors import OptionError

Isolation = Literal["serializable", "snapshot"]
"""``serializable``: no row that the operation should have seen may have been added; ``snapshot``: only rows that it removes or
replaces must be unchanged. None, if an operation allows it: only conflicts that would corrupt the table are checked."""

WAP_ID = "wap-id"

_WRITING = (
    Option("target-file-size-bytes", "bytes", "the table's", "target size of data files"),
    Option(
        "distribution-mode",
        "a word",
        "the table's write.distribution-mode",
        "how rows are distributed over write tasks: none, hash or range",
    ),
    Option("write-tasks", "tasks", "Spark's choice", "number of write tasks; each writes at least one file"),
    Option("isolation-level", "a word", "the table's for the operation; overwrite, upsert: none", "serializable or snapshot"),
    Option(
        "delete-granularity", "a word", "the table's write.delete.granularity", "file or partition: scope of position delete files"
    ),
    Option(WAP_ID, "a name", "none", "stage the snapshot with this id; no branch changes until it is published"),
)
_SUCCESS_FILE = Option("require-success-file", "true or false", "false", "fail if a source folder has no _SUCCESS file")
_INGEST = (
    *_WRITING,
    Option("merge-schema", "true or false", "false", "add new columns and widen types of the table, in the same commit"),
    Option("bad-records", "a word", "fail", "what to do with rows that do not fit the table: fail or quarantine"),
    Option("quarantine-path", "a location", "none", "folder for these rows; required with quarantine"),
    _SUCCESS_FILE,
)
ROW_OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "append": _INGEST,
    "overwrite": _INGEST,
    "delete": _WRITING,
    "update": _WRITING,
    "merge": (*_WRITING, _SUCCESS_FILE),
    "upsert": (
        *_WRITING,
        Option("upsert-keys", "names", "the table's identifier fields", "the key columns"),
        Option(
            "order-by", "a name", "none", "if source rows have the same key, the row with the greatest value in this column is used"
        ),
        Option("delete-when", "SQL", "none", "condition on source columns; a row that matches deletes its key and is not written"),
        Option("source-only-columns", "names", "none", "source columns that are not written (an operation code, for example)"),
        _SUCCESS_FILE,
    ),
}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Typed options; None if the table or Spark decides."""

    target_file_size: int
    distribution_mode: str | None
    write_tasks: int | None
    isolation: Isolation | None
    delete_granularity: str
    merge_schema: bool = False
    quarantine: str | None = None
    """The folder for rows that do not fit; None: they fail the job."""
    require_success_file: bool = False
    upsert_keys: tuple[str, ...] = ()
    order_by: str | None = None
    delete_when: str | None = None
    source_only_columns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, operation: str, options: Mapping[str, str], properties: Mapping[str, str]) -> WriteOptions:
        """``properties``: the table's. Raises OptionError for an unknown key or a bad value."""
        read = OptionReader.of(operation, ROW_OPTIONS[operation], options)
        if read(WAP_ID, text, None) is not None and read("merge-schema", boolean, False):
            raise OptionError(f"{operation}: new columns (merge-schema) cannot wait for an audit (wap-id): evolve the table first")
        return cls(
            read("target-file-size-bytes", size(1), TARGET_FILE_SIZE_BYTES.of(properties)),
            read("distribution-mode", choice("none", "hash", "range"), None),
            read("write-tasks", at_least(1), None),
            cast("Isolation | None", read("isolation-level", choice("serializable", "snapshot"), None)),
            read("delete-granularity", choice("file", "partition"), DELETE_GRANULARITY.of(properties)),
            merge_schema=read("merge-schema", boolean, False),
            quarantine=_quarantine(read),
            require_success_file=read("require-success-file", boolean, False),
            upsert_keys=read("upsert-keys", names, ()),
            order_by=read("order-by", text, None),
            delete_when=read("delete-when", text, None),
            source_only_columns=read("source-only-columns", names, ()),
        )


def _quarantine(read: OptionReader) -> str | None:
    diverts = read("bad-records", choice("fail", "quarantine"), "fail") == "quarantine"
    path = read("quarantine-path", text, None)
    if diverts and path is None:
        raise OptionError(f"{read.action}: bad-records = quarantine needs quarantine-path")
    if path is not None and not diverts:
        raise OptionError(f"{read.action}: quarantine-path {path!r} needs bad-records = quarantine")
    return path.rstrip("/") if path else None
