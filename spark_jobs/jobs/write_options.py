"""Options of the row operations, and what their writers are told.

=========================  =====================================================================================
target-file-size-bytes     size a data file should have (default: the table's ``write.target-file-size-bytes``)
distribution-mode          none, hash or range (default: the table's ``write.distribution-mode``)
write-tasks                how many tasks write, so at least how many files (default: Spark's choice)
isolation-level            serializable or snapshot (default: the table's property for the operation; overwrite has none and
                           then validates nothing, as Iceberg's Spark writer does)
delete-granularity         file or partition: scope of position delete files (default: ``write.delete.granularity``)
=========================  =====================================================================================

All five are accepted everywhere, but append has no isolation, only append and overwrite distribute rows (distribution-mode,
write-tasks), and only merge-on-read on v2 writes position delete files (delete-granularity).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from iceberg_ops.config.option_parsing import OptionReader, at_least, choice
from iceberg_ops.config.properties import DELETE_GRANULARITY, TARGET_FILE_SIZE_BYTES
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import OptionError
from iceberg_ops.table.table import Table

_KNOWN = ("target-file-size-bytes", "distribution-mode", "write-tasks", "isolation-level", "delete-granularity")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Typed options; None where the table or Spark decides."""

    target_file_size: int
    distribution_mode: str | None
    write_tasks: int | None
    isolation: str | None
    delete_granularity: str

    @classmethod
    def parse(cls, operation: str, options: Mapping[str, str], table: Table) -> WriteOptions:
        """Raises OptionError for an unknown key or a bad value."""
        for key in options:
            if key not in _KNOWN:
                raise OptionError(f"{operation}: unknown option {key!r}: must be one of {', '.join(_KNOWN)}")
        read = OptionReader(operation, options)
        return cls(
            read("target-file-size-bytes", at_least(1), TARGET_FILE_SIZE_BYTES.of(table.properties)),
            read("distribution-mode", choice("none", "hash", "range"), None),
            read("write-tasks", at_least(1), None),
            read("isolation-level", choice("serializable", "snapshot"), None),
            read("delete-granularity", choice("file", "partition"), DELETE_GRANULARITY.of(table.properties)),
        )


def write_context(table: Table, options: WriteOptions, *, in_table_order: bool = False) -> WriteContext:
    """How files of this job are written; ``in_table_order`` says that each file's rows are in the table's sort order."""
    order = table.metadata.sort_order
    context = WriteContext.for_table(
        table.metadata, sort_order_id=order.order_id if in_table_order and not order.is_unsorted else None
    )
    return replace(context, properties={**context.properties, TARGET_FILE_SIZE_BYTES.name: str(options.target_file_size)})
