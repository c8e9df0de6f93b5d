"""Options of the row operations, and what their writers are told.

=========================  =====================================================================================
target-file-size-bytes     size a data file should have (default: the table's ``write.target-file-size-bytes``)
distribution-mode          none, hash or range (default: the table's ``write.distribution-mode``)
write-tasks                how many tasks write, so at least how many files (default: Spark's choice)
isolation-level            serializable or snapshot (default: the table's property for the operation; overwrite has none and
                           then validates nothing, as Iceberg's Spark writer does)
delete-granularity         file or partition: scope of position delete files (default: ``write.delete.granularity``)
wap-id                     the snapshot is staged under this id and no branch moves until it is published
merge-schema               append, overwrite: the table takes in new columns and wider types, in the same commit (default: false)
bad-records                append, overwrite: ``fail`` (default), or ``quarantine`` rows that do not fit
quarantine-path            the folder for them; needed with quarantine
require-success-file       append, overwrite, upsert, merge: a source folder without ``_SUCCESS`` is half written (default: false)
upsert-keys                upsert: the columns that tell rows apart (default: the table's identifier fields)
order-by                   upsert: of several source rows of one key, the one with the greatest value here counts
delete-when                upsert: a condition over source columns; rows that meet it only delete their key
source-only-columns        upsert: columns of the source that are not stored (an operation code, say)
=========================  =====================================================================================

The first six are accepted everywhere, but append has no isolation, only append and overwrite distribute rows (distribution-mode,
write-tasks), and only merge-on-read on v2 writes position delete files (delete-granularity).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from iceberg_ops.commit.operation import Isolation
from iceberg_ops.config.option_parsing import OptionReader, at_least, boolean, choice, names, text
from iceberg_ops.config.properties import DELETE_GRANULARITY, TARGET_FILE_SIZE_BYTES
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import OptionError
from iceberg_ops.table.table import Table

WAP_ID = "wap-id"
_KNOWN = ("target-file-size-bytes", "distribution-mode", "write-tasks", "isolation-level", "delete-granularity", WAP_ID)
_INGEST = ("merge-schema", "bad-records", "quarantine-path", "require-success-file")
_UPSERT = ("upsert-keys", "order-by", "delete-when", "source-only-columns", "require-success-file")
_ALSO_KNOWN = {"append": _INGEST, "overwrite": _INGEST, "upsert": _UPSERT, "merge": ("require-success-file",)}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Typed options; None where the table or Spark decides."""

    target_file_size: int
    distribution_mode: str | None
    write_tasks: int | None
    isolation: Isolation | None
    delete_granularity: str
    merge_schema: bool = False
    quarantine: str | None = None
    """Where rows that do not fit go; None: they fail the job."""
    require_success_file: bool = False
    upsert_keys: tuple[str, ...] = ()
    order_by: str | None = None
    delete_when: str | None = None
    source_only_columns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, operation: str, options: Mapping[str, str], table: Table) -> WriteOptions:
        """Raises OptionError for an unknown key or a bad value."""
        known = known_options(operation)
        for key in options:
            if key not in known:
                raise OptionError(f"{operation}: unknown option {key!r}: must be one of {', '.join(known)}")
        read = OptionReader(operation, options)
        if read(WAP_ID, text, None) is not None and read("merge-schema", boolean, False):
            raise OptionError(f"{operation}: new columns (merge-schema) can not wait for an audit (wap-id): evolve the table first")
        return cls(
            read("target-file-size-bytes", at_least(1), TARGET_FILE_SIZE_BYTES.of(table.properties)),
            read("distribution-mode", choice("none", "hash", "range"), None),
            read("write-tasks", at_least(1), None),
            cast("Isolation | None", read("isolation-level", choice("serializable", "snapshot"), None)),
            read("delete-granularity", choice("file", "partition"), DELETE_GRANULARITY.of(table.properties)),
            merge_schema=read("merge-schema", boolean, False),
            quarantine=_quarantine(read),
            require_success_file=read("require-success-file", boolean, False),
            upsert_keys=read("upsert-keys", names, ()),
            order_by=read("order-by", text, None),
            delete_when=read("delete-when", text, None),
            source_only_columns=read("source-only-columns", names, ()),
        )


def known_options(operation: str) -> tuple[str, ...]:
    """Names of the options that a row operation takes."""
    return (*_KNOWN, *_ALSO_KNOWN.get(operation, ()))


def _quarantine(read: OptionReader) -> str | None:
    diverts = read("bad-records", choice("fail", "quarantine"), "fail") == "quarantine"
    path = read("quarantine-path", text, None)
    if diverts and path is None:
        raise OptionError(f"{read.action}: bad-records = quarantine needs quarantine-path")
    if path is not None and not diverts:
        raise OptionError(f"{read.action}: quarantine-path {path!r} needs bad-records = quarantine")
    return path.rstrip("/") if path else None


def write_context(table: Table, options: WriteOptions, *, in_table_order: bool = False) -> WriteContext:
    """How files of this job are written; ``in_table_order``: in the table's sort order, if it has one whose columns are there."""
    metadata, order = table.metadata, table.metadata.sort_order
    known = all(i in metadata.schema.fields_by_id for f in order.fields for i in f.source_ids)
    sorts = in_table_order and not order.is_unsorted and known
    context = WriteContext.for_table(metadata, sort_order_id=order.order_id if sorts else None)
    return replace(context, properties={**context.properties, TARGET_FILE_SIZE_BYTES.name: str(options.target_file_size)})
