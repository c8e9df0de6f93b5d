"""Options that name a source of rows, as a job spec's ``source`` does: ``--from``, ``--query``, ``--from-table``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from iceberg_ops.cli.target import parse_options
from iceberg_ops.errors import OptionError

if TYPE_CHECKING:
    from iceberg_ops.config.job_spec import Source

F = TypeVar("F", bound=Callable[..., Any])
_FORMATS = {"csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
_NAMED = re.compile(r"\.(csv|json|jsonl|ndjson)(\.(gz|bz2|zst|xz|lz4|snappy|deflate))?$", re.IGNORECASE)
"""The suffixes that determine a file's format, compressed or not. Any other file is Parquet."""


def source_options(command: F) -> F:
    """Add the options; the command gets them as the keyword arguments of ``parse_source``."""
    for option in reversed(
        (
            click.option("--from", "source_paths", multiple=True, metavar="PATH", help="Source: a file or folder (repeatable)."),
            click.option(
                "--format",
                "source_format",
                type=click.Choice(["parquet", "csv", "json"]),
                help="Format of the source files; csv files have a header line.",
            ),
            click.option(
                "--source-option",
                "source_settings",
                multiple=True,
                metavar="KEY=VALUE",
                help="Option of the reader, such as header=false (repeatable).",
            ),
            click.option("--query", metavar="SQL", help="Source: a Spark SQL query; the table is the view target."),
            click.option("--from-table", "source_table", metavar="TABLE", help="Source: another Iceberg table."),
        )
    ):
        command = option(command)
    return command


def parse_source(
    *,
    source_paths: tuple[str, ...],
    source_format: str | None,
    source_settings: tuple[str, ...],
    query: str | None,
    source_table: str | None,
) -> Source | None:
    """The source of the options; None for none. Raises OptionError for more than one source, or an option of another one."""
    from iceberg_ops.catalog.configuration import find_catalog
    from iceberg_ops.config.job_spec import Source

    if sum(map(bool, (source_paths, query, source_table))) > 1:
        raise OptionError("give one source: --from, --query or --from-table")
    if (source_format or source_settings) and not source_paths:
        raise OptionError("--format and --source-option belong to --from PATH")
    if query:
        return Source(format="sql", query=query)
    if source_table:
        return Source(format="table", table=source_table, catalog=find_catalog(source_table.partition(".")[0]))
    if not source_paths:
        return None
    settings = parse_options(source_settings, "--source-option")
    file_format: Any = source_format or _format_by_name(source_paths)
    return Source(format=file_format, paths=list(source_paths), options=settings)


def _format_by_name(paths: tuple[str, ...]) -> str:
    named = (_NAMED.search(path) for path in paths)
    formats = {"parquet" if name is None else _FORMATS[name[1].lower()] for name in named}
    return formats.pop() if len(formats) == 1 else "parquet"
