"""The settings of row operations' writers: the options of ``iceberg_ops.config.row_options`` combined with the table's
properties."""

from __future__ import annotations

from dataclasses import replace

from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.properties import TARGET_FILE_SIZE_BYTES
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.io.locations import forbid_relative
from iceberg_ops.table.own_folders import check_outside
from iceberg_ops.table.table import Table


def options_of(job: JobSpec, table: Table) -> WriteOptions:
    """The job's options. Raises OptionError, also for a quarantine in a folder of the table, because orphan removal and purge would
    delete the rows in it; BadInputError for a relative one, which is in another place on each machine of Spark."""
    options = WriteOptions.parse(job.job, job.options, table.properties)
    if options.quarantine is not None:
        what = f"{job.job}: option quarantine-path"
        forbid_relative(table.io, options.quarantine, what)
        check_outside(table, options.quarantine, f"{what} = {options.quarantine!r}")
    return options


def write_context(table: Table, options: WriteOptions, *, in_table_order: bool = False) -> WriteContext:
    """How files of this job are written; ``in_table_order``: in the table's sort order, if it has one whose columns exist."""
    metadata, order = table.metadata, table.metadata.sort_order
    known = all(i in metadata.schema.fields_by_id for f in order.fields for i in f.source_ids)
    sorts = in_table_order and not order.is_unsorted and known
    context = WriteContext.for_table(metadata, sort_order_id=order.order_id if sorts else None)
    return replace(context, properties={**context.properties, TARGET_FILE_SIZE_BYTES.name: str(options.target_file_size)})
