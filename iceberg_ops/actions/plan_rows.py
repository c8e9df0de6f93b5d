"""The dry run of a row operation: which files it would read, and whether its parts are valid. No row is read, nothing is written.

It is the same in every lane, and needs no engine. Conditions select files as in the job itself (a part that only Spark understands
selects all files), so the counts are upper bounds. Only the run can check rows and expression types (a value that does not fit, two
source rows for one target row).
"""

from __future__ import annotations

from iceberg_ops.actions.local.delete_rows import whole_files_match
from iceberg_ops.actions.local.local_source import LocalSource
from iceberg_ops.actions.local.source_files import source_scan, source_table
from iceberg_ops.actions.rows.merge_checks import check_clauses
from iceberg_ops.actions.rows.upsert_plan import check_order, key_columns, key_plan
from iceberg_ops.actions.rows.write_options import options_of, write_context
from iceberg_ops.actions.run.context import LISTED, Run
from iceberg_ops.actions.run.results import Findings, NothingToDo, Planned
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.config.job_spec import JobSpec, RowChange, require_paths
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.sources.source_folder import PATTERN
from iceberg_ops.data.sources.text.text_options import text_options
from iceberg_ops.data.writing.delete_files import delete_format
from iceberg_ops.errors import OptionError, WhereError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, BoundComputed, Expression, is_exact, leaves
from iceberg_ops.expressions.renaming import unqualified
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.expressions.where_pieces import parse_value
from iceberg_ops.io.locations import is_absolute
from iceberg_ops.scan.planning import Scan, ScanPlan, plan
from iceberg_ops.spec.schema import Schema, not_of_table

_TAKE_ROWS = frozenset({"append", "overwrite", "upsert", "merge"})


def plan_rows(run: Run) -> NothingToDo | Planned:
    """Counts of source and data files, and the data files' names.

    Raises OptionError, WhereError, SchemaError, UnsupportedError for a format that is not written, DataError for a source path that
    is missing, empty or half written.
    """
    job, table = run.job, run.table
    options = options_of(job, table)
    context = write_context(table, options)
    if job.job != "delete":
        context.check_format()
    _check(run, options)
    has_source = job.job in _TAKE_ROWS
    with run.step("plan") as detail:
        metrics, files = _source(run, options) if has_source else {}, list[str]()
        scan_plan = _plan_scan(run)
        if scan_plan is not None:
            metrics |= _counts(run, scan_plan)
            files = [task.data_file.file_path for task in scan_plan.tasks]
            detail.append(f"{len(files)} data files")
    findings = Findings(plan_id=job.plan_id, metrics=metrics, files=tuple(files[:LISTED]))
    return Planned(findings=findings) if has_source or files else NothingToDo(findings=findings)


def _check(run: Run, options: WriteOptions) -> None:
    """Checks the operation as far as the table's schema allows."""
    job, schema = run.job, run.table.schema
    if job.job in _TAKE_ROWS and job.source is None:
        raise OptionError(f"{job.job} needs a source")
    if job.job == "merge":
        for clause in check_clauses(job.change).clauses:
            _check_columns(schema, list(clause.assignments or ()))
    if job.job == "update":
        change = job.change or RowChange()
        if not change.set:
            raise OptionError("update needs at least one SET column")
        _check_columns(schema, list(change.set))
    if job.job == "upsert":
        delete_format(write_context(run.table, options))
        key_plan(run.table, base_snapshot(run.table.metadata, job.branch), key_columns(schema, options.upsert_keys))
        check_order(job.source, options.order_by, schema)


def _check_columns(schema: Schema, names: list[str]) -> None:
    for name in names:
        if schema.find(name, case_sensitive=False) is None:
            raise OptionError(f"SET {not_of_table(name, schema.fields)}")


def _plan_scan(run: Run) -> ScanPlan | None:
    """The data files that may change; None if the current table does not decide that."""
    job = run.job
    if job.job in ("append", "upsert") or (job.job == "overwrite" and job.where is None):
        return None
    where: Expression = ALWAYS_TRUE
    if job.where is not None:
        where = unqualified(parse_where(job.where, subqueries=job.job != "overwrite"), "target", run.table.schema)
    makes_branch = job.job == "overwrite" and run.table.metadata.ref(job.branch) is None  # on main's head, as in the run
    return plan(run.table, Scan(where=where) if makes_branch else Scan.of_branch(job.branch, where))


def _counts(run: Run, scan_plan: ScanPlan) -> dict[str, int]:
    files = [task.data_file for task in scan_plan.tasks]
    metrics = {
        "planned-data-files-count": len(files),
        "planned-bytes-count": sum(f.file_size_in_bytes for f in files),
        "planned-records-count": sum(f.record_count for f in files),
        "planned-delete-files-count": len({d.data_file.file_path for task in scan_plan.tasks for d in task.deletes}),
    }
    if metrics["planned-records-count"] and _computes(run.job, scan_plan.filter):
        metrics["planned-computed-records-count"] = metrics["planned-records-count"]
    if run.job.job == "delete" and files and is_exact(scan_plan.filter) and whole_files_match(scan_plan):
        metrics["metadata-only"] = 1
    return metrics


def _computes(job: JobSpec, bound: Expression) -> bool:
    """Whether the condition, or a SET of an update, is computed from each row."""
    if any(isinstance(leaf, BoundComputed) for leaf in leaves(bound)):
        return True
    given = job.change.set if job.job == "update" and job.change is not None else {}
    try:
        return any(text.strip().upper() != "DEFAULT" and parse_value(text) is None for text in given.values())
    except WhereError:
        return False  # the run refuses it, or Spark reads it


def _source(run: Run, options: WriteOptions) -> dict[str, int]:
    """Counts of the source's files, as far as they are known without reading. There are none for a query, or for paths that are
    patterns or lie in another store: only Spark knows them."""
    source = run.job.source
    assert source is not None
    if source.format == "table":
        scan = source_scan(source)
        files = [task.data_file for task in plan(source_table(run, source), scan).tasks]
        return {
            "planned-source-files-count": len(files),
            "planned-source-bytes-count": sum(f.file_size_in_bytes for f in files),
            "planned-source-records-count": sum(f.record_count for f in files),
        }
    if source.format == "sql":
        return {}
    if source.format != "parquet":
        text_options(source.format, source.options)
    counts = {"planned-source-files-count": 0, "planned-source-bytes-count": 0}
    local = LocalSource(run.table, require_success_file=options.require_success_file)
    for path in require_paths(source):
        if _is_elsewhere(path) or not PATTERN.isdisjoint(path):
            return {}
        count, size = local.size(path)
        counts["planned-source-files-count"] += count
        counts["planned-source-bytes-count"] += size
    return counts


def _is_elsewhere(path: str) -> bool:
    """Whether a path has a scheme other than this machine's."""
    return is_absolute(path) and not path.startswith("/") and path.partition(":")[0].lower() != "file"
