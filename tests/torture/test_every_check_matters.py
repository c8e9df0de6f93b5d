"""Every refusal of the commit package is removed once, and a test fails.

``commit/test_conflicts`` does this for ``checks.py`` and ``schema_conflicts.py``, function by function. Here are the refusals
elsewhere, each with the test that fails without it: a child process removes the ``raise`` from the module as it is imported, and
runs that test. The suite does it for a few, ``make torture`` for all; a check that no refusal is missing always runs.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import iceberg_ops.commit
from iceberg_ops.errors import ValidationError

TESTS = Path(__file__).parents[1]
PACKAGE = Path(iceberg_ops.commit.__path__[0])
MUTATION = "ICEBERG_OPS_MUTATION"
"""Environment of the child: module, line of the raise."""
SAMPLED = 3


def kinds(error: type[Exception]) -> set[str]:
    """The names of an error and of every kind of it."""
    return {error.__name__}.union(*map(kinds, error.__subclasses__()))


REFUSALS = {"conflict", *kinds(ValidationError)}

OPERATIONS, JAVA_REFS, SCENARIOS = (
    "commit/test_operations.py", "commit/test_java_refs_and_expiry.py", "commit/test_conflicts.py::test_scenario"
)  # fmt: skip
HELD = {
    "carry_over:commit_carrying_over:0": "commit/test_checks.py::test_deletes_that_can_not_be_written_are_a_conflict",
    "cherry_pick:CherryPick._picked:0": "commit/test_checks.py::test_a_wap_id_is_published_once_though_two_snapshots_have_it",
    "cherry_pick:CherryPick.stage:0": f"{JAVA_REFS}::test_it_is_refused",
    "cherry_pick:_no_double_publish_before:0": (
        "commit/test_run_keys.py::test_a_staged_snapshot_is_not_published_twice_though_what_published_it_expired"
    ),
    "cherry_pick:_no_double_publish_before:1": (
        "commit/test_published_once.py::test_a_branch_that_is_made_of_one_where_it_was_published_does_not_take_it_again"
    ),
    "cherry_pick:_no_live_file_again:0": (
        "commit/test_published_once.py::test_a_snapshot_behind_a_hole_that_another_engine_made_is_not_picked_where_its_file_is"
    ),
    "cherry_pick:no_double_publish:0": "commit/test_checks.py::test_a_snapshot_without_a_wap_id_is_picked_once",
    "cherry_pick:no_double_publish:1": "commit/test_checks.py::test_a_wap_id_is_published_once_though_two_snapshots_have_it",
    "cherry_pick:no_former_columns:0": (
        "commit/test_promoted_dates.py::test_rows_that_were_staged_before_the_promotion_are_published_only_if_they_fit"
    ),
    "cherry_pick:no_former_columns:1": "commit/test_replaced_tables.py",
    "cherry_pick:no_replaced_rows:0": f"{OPERATIONS}::test_a_partition_overwrite_is_not_picked_over_rows_that_came_meanwhile",
    "committer:_Loop._check_same_table:0": OPERATIONS,
    "expire_snapshots:ExpireSnapshots.decided:0": "commit/test_expiry.py::test_gc_disabled_refuses_and_deletes_nothing",
    "history:History._readable_snapshots:0": "commit/test_replaced_tables.py",
    "history:History.snapshots:0": SCENARIOS,
    "imported_again:no_file_added_meanwhile:0": SCENARIOS,
    "manifest_filter:DataRemoval.removes:0": SCENARIOS,
    "manifest_filter:DataRemoval.forbid_unread_entries:0": "commit/test_java_files.py",
    "manifest_filter:forbid_missing:0": SCENARIOS,
    "manifest_writing:ManifestFolder.encoder:0": "commit/test_checks.py::test_a_file_of_an_unknown_spec_is_refused",
    "metadata_updates:UpdateStatistics.stage:0": "commit/test_checks.py::test_statistics_of_a_snapshot_that_is_gone_are_refused",
    "metadata_updates:_unchanged:0": "commit/test_checks.py::test_a_change_worked_out_on_another_state_is_refused",
    "metadata_updates:no_columns_named_like_partition_fields:0": "commit/test_partition_names_at_the_swap.py",
    "metadata_updates:no_moved_partition_values:0": "commit/test_promotions_meanwhile.py",
    "metadata_updates:no_partition_fields_named_like_columns:0": "commit/test_partition_names_at_the_swap.py",
    "refs:FastForward.stage:0": f"{JAVA_REFS}::test_it_is_refused",
    "refs:RollBack.stage:0": f"{OPERATIONS}::test_branches_and_tags_are_made_moved_and_removed",
    "refs:_forbid_former_columns:0": "commit/test_replaced_tables.py",
    "refs:_forbid_moved:0": "commit/test_retention_at_once.py",
    "refs:_forbid_removed:0": "commit/test_retention_at_once.py",
    "removals:RowFilter.forbid_partial:0": SCENARIOS,
    "rewrite_manifests:no_lost_files:0": "commit/test_checks.py::test_a_manifest_rewrite_that_loses_a_file_is_refused",
    "snapshot_draft:SnapshotDraft._forbid_second_vectors:0": SCENARIOS,
    "snapshot_draft:SnapshotDraft._specs:0": (
        "commit/test_expiry_meets_writers.py::test_files_are_not_taken_for_those_of_another_spec_that_got_the_id"
    ),
    "snapshot_draft:SnapshotDraft.forbid_removed_branch:0": "commit/test_lost_bases.py",
    "snapshot_draft:_forbid_new_rows:0": SCENARIOS,
    "vectors_and_positions:no_positions_left_out:0": (
        "commit/test_row_delta_vectors.py::test_a_vector_does_not_leave_out_positions_that_a_delete_file_deleted_meanwhile"
    ),
}
"""module:function:number of the raise -> the test that fails without it."""


def refusals(module: Path) -> dict[str, int]:
    """Each ``raise`` of a refusal -> its line."""
    found: dict[str, int] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                visit(child, f"{name}.{child.name}" if name else child.name)
            elif isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call) and _called(child.exc) in REFUSALS:
                number = sum(key.startswith(f"{module.stem}:{name}:") for key in found)
                found[f"{module.stem}:{name}:{number}"] = child.lineno
            else:
                visit(child, name)

    visit(ast.parse(module.read_text("utf-8")), "")
    return found


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


BY_FUNCTION = ("checks", "schema_conflicts")
MODULES = {path.stem: path for path in sorted(PACKAGE.rglob("*.py")) if path.stem not in ("__init__", *BY_FUNCTION)}
EVERY = {key: line for path in MODULES.values() for key, line in refusals(path).items()}


def test_every_refusal_has_a_test_that_misses_it() -> None:
    assert sorted(EVERY) == sorted(HELD)


@pytest.mark.parametrize("key", sorted(HELD)[: None if "ICEBERG_OPS_TORTURE" in os.environ else SAMPLED])
def test_taking_a_refusal_out_is_noticed(key: str) -> None:
    module = ".".join(MODULES[key.partition(":")[0]].relative_to(PACKAGE.parents[1]).with_suffix("").parts)
    environment = {**os.environ, MUTATION: f"{module}:{EVERY[key]}"}
    plugins = (part for name in ("tests.torture.mutation", "no:cacheprovider", "no:xdist") for part in ("-p", name))
    command = [sys.executable, "-m", "pytest", "-q", "-x", *plugins, f"tests/{HELD[key]}"]
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, f"nothing fails without {key}: {done.stdout[-500:]} {done.stderr[-500:]}"
