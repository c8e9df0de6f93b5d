"""The registry of actions: the purpose, the options and their parser, the other job spec fields, and the lanes of each.

The command line, policy lint, Airflow's form, the documentation's tests and the dispatcher read it. To add an action, add a module
with its name in ``iceberg_ops.actions``, its options, and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from iceberg_ops.config.option_parsing import Option, check_option_names
from iceberg_ops.config.options import (
    CONVERT_EQUALITY_DELETES,
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHAN_FILES,
    REWRITE_DATA_FILES,
    REWRITE_MANIFESTS,
    REWRITE_POSITION_DELETE_FILES,
    convert_equality_deletes_options,
    expire_snapshots_options,
    properties_that_fit,
    remove_orphan_files_options,
    rewrite_data_files_options,
    rewrite_manifests_options,
    rewrite_position_delete_files_options,
)
from iceberg_ops.config.row_options import ROW_OPTIONS, WriteOptions
from iceberg_ops.config.table_options import (
    ADD_FILES,
    COMPUTE_PARTITION_STATS,
    COMPUTE_TABLE_STATS,
    add_files_options,
    compute_partition_stats_options,
    compute_table_stats_options,
)
from iceberg_ops.errors import OptionError

Kind = Literal["maintenance", "table", "rows"]
Parse = Callable[[Mapping[str, str], Mapping[str, str], int], object]
"""Converts options, the table's properties, and the time in milliseconds since the epoch to typed options. Raises OptionError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action. ``kind``: a policy may schedule ``maintenance``, ``table`` runs only on request, ``rows`` changes rows.

    ``takes``: the fields of a job spec that it reads besides its options. ``shared_by_tasks``: Spark's tasks share the reading, so
    lane ``auto`` may choose Spark for it; others read manifests, deletes or listings on the driver in any lane.
    """

    name: str
    kind: Kind
    purpose: str
    options: tuple[Option, ...]
    parse: Parse
    takes: frozenset[str] = frozenset()
    shared_by_tasks: bool = False

    def check_option_names(self, options: Iterable[str]) -> None:
        """Raises OptionError for an option that the action does not have."""
        check_option_names(self.name, self.options, options)

    @property
    def option_names(self) -> tuple[str, ...]:
        return tuple(option.name for option in self.options)


_LIMITED = frozenset({"where", "branch"})
_BRANCH = frozenset({"branch"})


def _rows(name: str, purpose: str, *takes: str) -> Action:
    parse = partial(_parse_rows, name)
    return Action(name=name, kind="rows", purpose=purpose, options=ROW_OPTIONS[name], parse=parse, takes=_BRANCH | {*takes})


def _parse_rows(name: str, options: Mapping[str, str], properties: Mapping[str, str], _: int) -> WriteOptions:
    return WriteOptions.parse(name, options, properties)


_ALL = (
    Action(
        name="rewrite_data_files",
        kind="maintenance",
        purpose="rewrite files that are small, large, unsorted or have many deletes",
        options=REWRITE_DATA_FILES,
        parse=lambda options, properties, _: rewrite_data_files_options(options, properties),
        takes=_LIMITED,
        shared_by_tasks=True,
    ),
    Action(
        name="rewrite_position_delete_files",
        kind="maintenance",
        purpose="merge small position delete files; in v3, replace them by deletion vectors",
        options=REWRITE_POSITION_DELETE_FILES,
        parse=lambda options, properties, _: rewrite_position_delete_files_options(options, properties),
        takes=_LIMITED,
    ),
    Action(
        name="convert_equality_deletes",
        kind="maintenance",
        purpose="replace equality deletes by position deletes or deletion vectors",
        options=CONVERT_EQUALITY_DELETES,
        parse=lambda options, properties, _: convert_equality_deletes_options(options, properties),
        takes=_LIMITED,
    ),
    Action(
        name="rewrite_manifests",
        kind="maintenance",
        purpose="rewrite manifests that are small, large or overlap",
        options=REWRITE_MANIFESTS,
        parse=lambda options, properties, _: rewrite_manifests_options(options, properties),
        takes=_BRANCH,
    ),
    Action(
        name="expire_snapshots",
        kind="maintenance",
        purpose="remove old snapshots and the files that only they use",
        options=EXPIRE_SNAPSHOTS,
        parse=lambda options, properties, now_ms: expire_snapshots_options(options, properties, now_ms=now_ms),
    ),
    Action(
        name="remove_orphan_files",
        kind="maintenance",
        purpose="delete files that no snapshot uses",
        options=REMOVE_ORPHAN_FILES,
        parse=lambda options, _, now_ms: remove_orphan_files_options(options, now_ms=now_ms),
    ),
    Action(
        name="add_files",
        kind="table",
        purpose="add existing Parquet files without copying them",
        options=ADD_FILES,
        parse=lambda options, _, __: add_files_options(options),
        takes=_BRANCH,
    ),
    Action(
        name="compute_table_stats",
        kind="table",
        purpose="count distinct values of columns, for query planners",
        options=COMPUTE_TABLE_STATS,
        parse=lambda options, _, __: compute_table_stats_options(options),
        takes=_BRANCH,
        shared_by_tasks=True,
    ),
    Action(
        name="compute_partition_stats",
        kind="table",
        purpose="count rows, files and deletes of each partition, for query planners",
        options=COMPUTE_PARTITION_STATS,
        parse=lambda options, _, __: compute_partition_stats_options(options),
        takes=_BRANCH,
    ),
    _rows("append", "append the rows of a source", "source"),
    _rows("overwrite", "replace rows by those of a source", "source", "where"),
    _rows("delete", "delete rows", "where", "change.mode"),
    _rows("update", "change rows", "where", "change.mode", "change.set"),
    _rows("merge", "update, delete and insert rows from a source", "source", "change.mode", "change.on", "change.clauses"),
    _rows("upsert", "replace rows by key, without reading the table", "source"),
)
ACTIONS: Mapping[str, Action] = {action.name: action for action in _ALL}


def _names(*kinds: Kind) -> tuple[str, ...]:
    return tuple(action.name for action in _ALL if action.kind in kinds)


MAINTENANCE_ACTIONS = _names("maintenance")
TABLE_ACTIONS = _names("maintenance", "table")
"""Every action that needs no engine."""
ROW_OPERATIONS = _names("rows")


def action_named(name: str) -> Action:
    """The action with that name. Raises OptionError, which lists the actions, for an unknown name."""
    action = ACTIONS.get(name)
    if action is None:
        raise OptionError(f"unknown action {name!r}: the maintenance actions are {', '.join(MAINTENANCE_ACTIONS)}")
    return action


def check_options(action: str, options: Mapping[str, str], *, now_ms: int) -> None:
    """Parse an action's options only to check that they are valid for some table (policy lint, DAG files). Rules that depend on a
    table's properties are checked when the job runs. ``now_ms``: milliseconds since the epoch. Raises OptionError."""
    parse = action_named(action).parse
    try:
        parse(options, {}, now_ms)
    except OptionError:
        if not _fits_some_table(parse, options, now_ms):
            raise


def _fits_some_table(parse: Parse, options: Mapping[str, str], now_ms: int) -> bool:
    try:
        parse(options, properties_that_fit(options), now_ms)
    except (OptionError, ValueError):
        return False
    return True
