"""``iceberg-ops files``: the data files that a scan reads, each with its deletes and its residual filter."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from iceberg_ops.cli.output import partition_text, print_json, print_rows
from iceberg_ops.cli.target import json_option, open_table, parse_instant, parse_optional_where, snapshot_options, target_options
from iceberg_ops.config.plurals import counted

if TYPE_CHECKING:
    from iceberg_ops.scan.planning import ScanPlan
    from iceberg_ops.scan.tasks import DeleteFile, FileScanTask


@click.command()
@target_options
@click.option("--where", metavar="SQL", help="Only files that may hold matching rows (Spark SQL).")
@snapshot_options
@json_option
def files(
    target: str,
    locations: tuple[str, ...],
    where: str | None,
    snapshot_id: int | None,
    ref: str | None,
    as_of: str | None,
    as_json: bool,
) -> None:
    """List the data files that a scan reads, with their delete files."""
    from iceberg_ops.scan.planning import Scan, plan
    from iceberg_ops.table.inspection import partition_row

    table = open_table(target, locations)
    scan = Scan(snapshot_id=snapshot_id, ref=ref, as_of_ms=parse_instant(as_of), where=parse_optional_where(where))
    scan_plan = plan(table, scan)
    _say_what_rules_out_no_file(scan_plan)
    documents = [task_document(scan_plan, task) for task in scan_plan.tasks]
    if as_json:
        print_json(documents)
        return
    rows = [
        {
            "file": d["file_path"].removeprefix(table.metadata.location).lstrip("/"),
            "partition": partition_text(partition_row(scan_plan.table, task.spec_id, task.data_file.partition)) or None,
            "records": d["record_count"],
            "bytes": d["file_size_in_bytes"],
            "deletes": len(d["deletes"]),
        }
        for d, task in zip(documents, scan_plan.tasks, strict=True)
    ]
    print_rows(rows, title=f"{target}: {counted(len(rows), 'data file')}", empty=f"{target}: no data files")


def _say_what_rules_out_no_file(scan_plan: ScanPlan) -> None:
    from iceberg_ops.expressions.leaf_tests import rules_out_no_file
    from iceberg_ops.expressions.predicates import BoundComputed, MayMatch, leaves

    for leaf in dict.fromkeys(leaves(scan_plan.filter)):
        if isinstance(leaf, MayMatch | BoundComputed):
            print(f"note: {rules_out_no_file(leaf)}", file=sys.stderr)


def task_document(plan: ScanPlan, task: FileScanTask) -> dict[str, Any]:
    """One task as JSON. The residual filter is in Iceberg's expression JSON; true: every live row matches."""
    from iceberg_ops.expressions.json import expression_to_json
    from iceberg_ops.expressions.predicates import ALWAYS_TRUE

    file = task.data_file
    return {
        "file_path": file.file_path,
        "file_format": file.file_format.value,
        "spec_id": file.spec_id,
        "partition": partition_document(plan, file.spec_id, file.partition),
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size_in_bytes,
        "sequence_number": task.sequence_number,
        "deletes": [_delete_document(d) for d in task.deletes],
        "residual": True if task.residual == ALWAYS_TRUE else expression_to_json(task.residual),
    }


def partition_document(plan: ScanPlan, spec_id: int, partition: tuple[Any, ...]) -> dict[str, Any]:
    """Partition values by field name, in Iceberg's JSON single-value form."""
    from iceberg_ops.serde.json.single_value_json import to_json_value

    fields = plan.table.partition_type(spec_id).fields
    return {f.name: None if v is None else to_json_value(f.type, v) for f, v in zip(fields, partition, strict=True)}


def _delete_document(delete: DeleteFile) -> dict[str, Any]:
    file = delete.data_file
    kind = "deletion-vector" if delete.is_deletion_vector else "equality" if delete.is_equality else "position"
    out: dict[str, Any] = {
        "file_path": file.file_path,
        "content": kind,
        "file_format": file.file_format.value,
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size_in_bytes,
        "sequence_number": delete.sequence_number,
    }
    if delete.is_equality:
        out["equality_ids"] = list(file.equality_ids or ())
    if delete.is_deletion_vector:
        out["content_offset"], out["content_size_in_bytes"] = file.content_offset, file.content_size_in_bytes
    return out
