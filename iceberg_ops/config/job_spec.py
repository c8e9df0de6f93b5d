"""The job spec: one piece of work on one table, as a document.

Airflow's operators write it, ``spark_jobs/main.py --job-spec FILE`` and ``iceberg-ops run`` read it; nothing else is passed between
host and engine. A job's name is the name of its maintenance action or row operation, the same in all packages.

Given text that is blank is an OptionError in every field: an empty template must not name a branch or a run key, and
not select every row. Only values of Spark's reader options may be blank.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from iceberg_ops.config.actions import ACTIONS
from iceberg_ops.config.document import Document
from iceberg_ops.config.given_text import check_given, check_place
from iceberg_ops.config.lanes import Lane
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.config.properties import WriteMode
from iceberg_ops.config.secrets import longest_first, secrets_in, secrets_in_properties, without_secrets
from iceberg_ops.config.table_name import TableName
from iceberg_ops.errors import OptionError

CATALOG_TYPES = ("sql", "filesystem", "glue", "hive", "nessie", "rest", "memory")


class CatalogConfig(Document, frozen=True, kw_only=True):
    """A catalog with a name: ``type`` (one of ``CATALOG_TYPES``) and its properties (``uri``, ``warehouse``, ...). Its ``repr``
    shows no secret, so no traceback does."""

    name: str
    type: str
    properties: dict[str, str] = {}

    def __post_init__(self) -> None:
        check_given(self)
        for name, value in self.properties.items():
            check_place(f"properties.{name}", value)

    def __repr__(self) -> str:
        return f"CatalogConfig(name={self.name!r}, type={self.type!r}, properties={without_secrets(self.properties)!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name), ("type", self.type), ("properties", without_secrets(self.properties))]


TEXT_FORMATS = ("csv", "json")
"""Text formats of sources; text is read with the types of the table's columns."""


class Source(Document, frozen=True, kw_only=True):
    """Rows to read for append, overwrite, merge and upsert.

    ``format`` parquet, csv or json reads ``paths`` with ``options`` (Spark reader options); ``sql`` runs ``query``, in which the
    target table is the view ``target`` and each entry of ``views`` (name -> path of a Parquet file or folder) is a view; ``table``
    reads another Iceberg ``table`` (catalog.namespace.name), at a ``snapshot_id`` or a ``ref`` if given, of ``catalog`` (None: the
    job's). Fields that the format does not read, and a source without content, are OptionErrors.
    """

    format: Literal["parquet", "csv", "json", "sql", "table"]
    paths: list[str] = []
    options: dict[str, str] = {}
    query: str | None = None
    views: dict[str, str] = {}
    table: str | None = None
    catalog: CatalogConfig | None = None
    ref: str | None = None
    snapshot_id: int | None = None

    def __post_init__(self) -> None:
        check_given(self, may_be_blank=frozenset({"options"}))
        for place in (*self.paths, *self.views.values()):
            check_place("a path of the source", place)
        read = _READS[self.format]
        given = {name: getattr(self, name) for name in chain.from_iterable(_READS.values())}
        if surplus := next((name for name, value in given.items() if value not in (None, [], {}) and name not in read), None):
            raise OptionError(f"source of format {self.format} reads no {_shown(surplus)}; it reads {', '.join(map(_shown, read))}")
        if not given[read[0]]:
            raise _names_nothing(self.format)
        if self.table is not None:
            _check_table("source table", self.table, self.catalog)


_READS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("parquet", "csv", "json"), ("paths", "options")),
    "sql": ("query", "views"),
    "table": ("table", "catalog", "ref", "snapshot_id"),
}
"""Fields of a source that its format reads; the first one is required."""


def require_paths(source: Source) -> list[str]:
    """The paths of a source of files. Raises OptionError for none, which must not count as a source without rows: an overwrite
    would delete rows without writing new ones."""
    if not source.paths:
        raise _names_nothing(source.format)
    return source.paths


def _names_nothing(form: str) -> OptionError:
    return OptionError(f"source of format {form} names no {_READS[form][0]}: name what is to be read, or do not run the job")


def _shown(field: str) -> str:
    return field.replace("_", "-")


class MergeClause(Document, frozen=True, kw_only=True):
    """``WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action``.

    ``assignments`` maps target columns to Spark SQL expressions over ``target.*`` and ``source.*``; None means all columns (``*``).
    """

    when: Literal["matched", "not-matched", "not-matched-by-source"]
    action: Literal["update", "delete", "insert"]
    condition: str | None = None
    assignments: dict[str, str] | None = None

    def __post_init__(self) -> None:
        _check_condition("condition", self.condition)
        check_given(self)


class RowChange(Document, frozen=True, kw_only=True):
    """The input of delete, update and merge besides ``where``: the write mode (None: the table's property), SET, ON and clauses."""

    mode: WriteMode | None = None
    set: dict[str, str] = {}
    on: str | None = None
    clauses: list[MergeClause] = []

    def __post_init__(self) -> None:
        _check_condition("on", self.on)
        check_given(self)


def check_fields(job: JobSpec) -> None:
    """Raise OptionError for a field that the row operation ``job`` does not read; for example, a WHERE must not be ignored."""
    change = job.change or RowChange()
    given = {
        "source": job.source,
        "where": job.where,
        "change.mode": change.mode,
        "change.set": change.set,
        "change.on": change.on,
        "change.clauses": change.clauses,
    }
    takes = ACTIONS[job.job].takes - {"branch"}
    if surplus := [name for name, value in given.items() if value and name not in takes]:
        raise OptionError(f"{job.job} takes no {surplus[0]}; it reads {', '.join(sorted(takes))}")


class JobSpec(Document, frozen=True, kw_only=True):
    """One job. ``options`` are the action's own options with Iceberg's names, values as text."""

    job: str
    table: str
    catalog: CatalogConfig
    version: Literal[1] = 1
    options: dict[str, str] = {}
    where: str | None = None
    branch: str = "main"
    dry_run: bool = False
    lane: Lane = "auto"
    lane_reason: str = ""
    """Why this lane was chosen, for the report."""
    run_key: str | None = None
    plan_id: str | None = None
    source: Source | None = None
    change: RowChange | None = None
    work: str | None = None
    """A short text that identifies the work, for example a digest: it is recorded with ``run_key``. A later job with this key and
    another ``work`` is an error, not a repetition."""
    job_id: str | None = None
    """The id of this attempt; the report carries it, so the caller can recognise the report."""
    report: str | None = None
    """The location for the ActionReport; None: only standard output."""

    @property
    def identifier(self) -> tuple[str, ...]:
        """The table's name in its catalog: the levels of its namespace, then its name."""
        return TableName.parse(self.table).identifier

    def secrets(self) -> tuple[str, ...]:
        """Every secret of the table's catalog, of the source (its catalog, paths, views and reader options), and of the locations
        in the options and ``report``, in every form in which it may be printed, longest first."""
        places = [*self.options.values(), self.report]
        of_source = secrets_in(msgspec.to_builtins(self.source))
        return longest_first((*secrets_in_properties(self.catalog.properties), *of_source, *secrets_in(places)))

    def __post_init__(self) -> None:
        _check_condition("where", self.where)
        check_given(self)
        check_place("report", self.report or "")
        if self.job not in ACTIONS:
            raise OptionError(f"unknown job {self.job!r}{did_you_mean(self.job, ACTIONS)}: must be one of {', '.join(ACTIONS)}")
        _check_table("table", self.table, self.catalog)


def _check_condition(name: str, condition: str | None) -> None:
    """A condition from an empty template must not select every row. Raises OptionError."""
    if condition is not None and not condition.strip():
        raise OptionError(f"{name} is empty: leave it out, or write the condition true for every row")


def _check_table(name: str, table: str, catalog: CatalogConfig | None) -> None:
    """Raise OptionError unless the table's name is complete and has the name of the configured catalog: otherwise the job would
    work on one catalog's table and report another name."""
    table_name = TableName.parse(table, name)
    if catalog is not None and table_name.catalog != catalog.name:
        raise OptionError(
            f"{name} {table!r} is in catalog {table_name.catalog!r}, but the catalog configured with it is {catalog.name!r}"
        )


def with_source_catalog(job: JobSpec) -> JobSpec:
    """The job with a catalog for its source table: the job's own, if the source configures none. Raises OptionError for a source
    table of a catalog without configuration: otherwise a table with that name in the job's own catalog would be read."""
    source = job.source
    if source is None or source.table is None or source.catalog is not None:
        return job
    name = TableName.parse(source.table, "source table").catalog
    if name != job.catalog.name:
        raise OptionError(f"source table {source.table!r} is in catalog {name!r}, which the source does not configure")
    return replace(job, source=replace(source, catalog=job.catalog))
