"""Each known fault of this package, and the part of the torture that fails because of it.

An example is a seed of ``test_interleaved_steps`` or a scene. It passes with the present package; with the old rules
(``as_it_was``) it must fail. The seeds (``found_at``) depend on the drawing and on the I/O steps of the package: if these change,
``python -m tests.torture.test_faults_are_found`` searches for others."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.torture import as_it_was as was
from tests.torture.as_it_was import BELIEVED, UNPROVEN, Switch
from tests.torture.drawing import IS_PLACE, Shape, draw
from tests.torture.foreign_scenes import SCENES as FOREIGN_SCENES
from tests.torture.found_at import SEEDS
from tests.torture.playing import play
from tests.torture.scenes import SCENES
from tests.torture.switching import replaced

MOST_SEEDS = 2_000


@dataclass(frozen=True)
class Fault:
    """``switch`` restores it. ``scene``: the schedule that shows it; ``world``: the worlds in which it can occur; ``says``: the
    message of the failure (a regular expression)."""

    switch: Switch
    scene: str
    world: Callable[[Shape], bool] = lambda _: True
    says: str = ""

    @property
    def others(self) -> Switch:
        """The other rules of the switch, which would have prevented this fault: restored alone they must not cause a failure."""
        return {name: rule for name, rule in self.switch.items() if name in BELIEVED and len(self.switch) > 1}


REWRITES = {**UNPROVEN, "deletion.expired:unreached_files": was.once_in_a_snapshot}
SWAPPED = {"deletion.gate:_Proof.of": was.whatever_has_the_name, "deletion.gate:check_same_table": was.nothing}
INTERRUPTED = {**UNPROVEN, "commit.loop.committer:_Loop._interrupted": was.the_error_itself}
SPELLED = {**UNPROVEN, "io.locations:identity_under": was.as_it_is_spelled, "actions.orphan_listing:check_listing": was.nothing}
BY_KEY = {
    "commit.protocol.run_keys:RunIdentity.made": was.whoever_had_the_key,
    "commit.protocol.run_keys:RunIdentity.ledger_name": was.in_the_ledger_by_key,
}
FAULTS: dict[str, Fault] = {
    "1a a Puffin file of two specs": Fault(
        REWRITES, "vectors_of_two_specs_in_one_file", lambda s: s.version == 3 and s.evolves, says="puffin"
    ),
    "1b a Puffin file in rolled manifests": Fault(
        REWRITES, "vectors_in_rolled_manifests", lambda s: s.version == 3 and s.rolled, says="puffin"
    ),
    "1c a folder imported twice": Fault(
        REWRITES, "a_folder_that_was_imported_twice", lambda s: s.imports and s.tables == 1 and s.version < 3
    ),
    "2 interrupted after a swap": Fault(
        INTERRUPTED, "an_interrupt_right_after_a_swap_deletes_nothing", lambda s: s.raises, says="compact|sort|/data/"
    ),
    "3 names swapped during an expiry": Fault(
        SWAPPED, "names_swapped_during_an_expiry_cost_no_table_its_files", lambda s: s.tables > 1, says="expire"
    ),
    "4a an error after the version's file": Fault(
        {**BELIEVED, "catalog.file_creation:FileCreation.create": was.created_or_refused},
        "an_error_after_the_versions_file_is_no_refusal",
        lambda s: s.raises and s.catalog == "filesystem",
    ),
    "4b a lost answer under another commit": Fault(
        {**BELIEVED, "catalog.pointer:PointerCatalog._was_swapped": was.refused_where_unknown},
        "a_lost_answer_under_another_commit_is_looked_up_or_in_doubt",
        lambda s: s.raises and s.catalog == "pointer",
    ),
    "4c a pick that did happen": Fault(
        {**BELIEVED, "catalog.pointer:PointerCatalog._was_swapped": was.refused_where_unknown},
        "a_cherry_pick_without_a_key_that_did_happen_stays",
        lambda s: s.raises and s.catalog == "pointer",
        says="pick|publish",
    ),
    "4d a short metadata log": Fault(
        {**BELIEVED, "catalog.placed_version:PlacedVersion._is_known_to": was.as_far_as_it_is_logged},
        "a_commit_is_found_again_under_two_others",
        lambda s: s.short_log and s.catalog == "filesystem",
    ),
    "5a an equality delete on the old spec": Fault(
        {"commit.validation.checks:no_deletes_left_behind": was.nothing},
        "a_delete_on_the_old_spec_reaches_rows_that_are_compacted_meanwhile",
        lambda s: s.evolves and s.foreign and s.version > 1,
    ),
    "5b an upsert whose rows moved": Fault(
        {"commit.validation.checks:no_rows_out_of_reach": was.nothing},
        "an_upsert_finds_rows_that_were_moved_meanwhile",
        lambda s: s.evolves and s.version > 1,
    ),
    "5c an upsert to a branch that it makes": Fault(
        {"commit.validation.checks:no_rows_out_of_reach": was.nothing, "actions.rows.upsert_plan:key_plan": was.without_a_head},
        "an_upsert_to_a_branch_that_it_makes_finds_mains_rows",
        lambda s: s.evolves and s.version > 1,
    ),
    "6a a data path of another spelling": Fault(
        SPELLED, "files_under_another_spelling_are_no_orphans", lambda s: s.spelled not in (*IS_PLACE, "link")
    ),
    "6b a warehouse of another spelling": Fault(
        {**SPELLED, "catalog.filesystem:FileSystemCatalog._is_copy": was.nothing},
        "a_warehouse_of_another_spelling_is_the_same",
        lambda s: bool(s.aliases),
    ),
    "7 the schema of a dropped key": Fault(
        {"commit.operations.expire_snapshots:_needed_fields": was.only_what_snapshots_name},
        "a_dropped_key_column_keeps_its_schema",
        lambda s: s.columns_come_back and s.version > 1,
    ),
    "5d an equality delete by a dropped column": Fault(
        {"commit.validation.schema_conflicts:no_deletes_by_columns_not_copied": was.nothing},
        "a_delete_by_a_dropped_column_reaches_rows_that_are_compacted_meanwhile",
        lambda s: s.columns_come_back and s.foreign and s.version > 1,
        says="compact|sort",
    ),
    "5e a column that came back": Fault(
        {"commit.validation.schema_conflicts:no_columns_that_came_back": was.nothing},
        "values_of_a_column_that_comes_back_are_in_rows_that_are_compacted_meanwhile",
        lambda s: s.columns_come_back,
    ),
    "8 a lost version": Fault(
        {"catalog.versions:TableVersions.newest": was.the_highest_version},
        "a_lost_version_is_an_error",
        lambda _: False,
    ),
    "9a a delete under an append's key": Fault(
        BY_KEY, "a_delete_under_an_appends_key_is_done", lambda s: s.shared_keys, says="delete"
    ),
    "9b publishing under the staging key": Fault(
        BY_KEY, "publishing_under_the_staging_jobs_key_publishes", lambda s: s.shared_keys, says="cherrypick"
    ),
    "9c an append to another branch": Fault(
        BY_KEY, "an_append_to_another_branch_is_done", lambda s: s.shared_keys, says="append on (?!main)"
    ),
    "9d staged, and expired unpublished": Fault(
        {"commit.operations.expire_snapshots:entries_of_expiring": was.staged_counts_for_ever},
        "what_was_staged_and_expired_unpublished_is_not_done",
        says="staged",
    ),
    "9e a key that left the ledger": Fault(
        {"commit.protocol.ledger:Ledger.updates": was.the_latest_few},
        "a_rollback_is_not_done_again_after_its_key_left_the_ledger",
        lambda s: s.short_ledger,
    ),
    "10a two imports at once": Fault(
        {"commit.validation.imported_again:no_file_added_meanwhile": was.nothing},
        "a_folder_is_imported_once_by_two_at_once",
        lambda s: s.imports and s.tables == 1,
        says="imported again",
    ),
    "10b orphans that an import commits": Fault(
        {
            "deletion.leases:Lease.covers": was.no_folders,
            "deletion.notes:forbid_running_deletion": was.nothing,
            "deletion.notes:forbid_running_purge": was.nothing,
            "actions.add_files:_differing": was.no_difference,
        },
        "an_import_keeps_its_files_from_an_orphan_job",
        lambda s: s.imports,
        says="/import|imported",
    ),
    "10c a zombie and its retry": Fault(
        {"deletion.leases:lease_location": was.by_holder, "deletion.held_lease:HeldLease.check_files": was.nothing},
        "a_zombies_lease_outlives_its_retry",
        lambda s: s.zombies,
    ),
    "12a a removal under the adder's id": Fault(
        {"commit.protocol.changed_entries:changed_entries": was.under_its_own_id},
        "an_update_meets_a_removal_under_the_adders_id",
        lambda s: s.foreign,
    ),
    "12b a removal that is not entered": Fault(
        {"commit.protocol.changed_entries:changed_entries": was.entered},
        "an_update_meets_a_removal_that_is_not_entered",
        lambda s: s.foreign,
    ),
    "12c a delete that adds a file": Fault(
        {"commit.protocol.history:History._adds_data": was.no_data},
        "a_delete_meets_a_delete_that_adds_a_file",
        lambda s: s.foreign and s.version == 2,
    ),
    "12d a removal in a copy of an older manifest": Fault(
        {"commit.protocol.changed_entries:changed_entries": was.fitting_by_chance},
        "an_update_meets_a_removal_in_a_copy_of_an_older_manifest",
        lambda s: s.foreign,
    ),
    "12e deletes in a copy of an older manifest": Fault(
        {"commit.protocol.changed_entries:changed_entries": was.added_under_its_own_id},
        "an_update_meets_deletes_in_a_copy_of_an_older_manifest",
        lambda s: s.foreign and s.version > 1,
    ),
    "12f deletes in an append": Fault(
        {"commit.protocol.history:History._only_adds_data": was.by_its_name},
        "an_update_meets_deletes_in_an_append",
        lambda s: s.foreign and s.version > 1,
    ),
    "12g a pick of files in a copy of an older manifest": Fault(
        {"commit.protocol.changed_entries:changed_entries": was.added_under_its_own_id},
        "a_pick_of_files_in_a_copy_of_an_older_manifest",
        lambda s: s.more_foreign,
        says="pick|publish",
    ),
    "12h a pick of what is published": Fault(
        {"commit.operations.cherry_pick:no_double_publish": was.nothing},
        "another_engines_snapshot_is_published_once",
        lambda s: s.more_foreign,
        says="again",
    ),
}
"""The known faults by number. The eleventh, secrets in errors and reports, is tested elsewhere."""


def check(example: int | str) -> None:
    """Raises AssertionError if a fault is present."""
    if isinstance(example, int):
        play(example)
    else:
        {**SCENES, **FOREIGN_SCENES}[example]()


EXAMPLES: list[tuple[str, int | str]] = [
    *((name, fault.scene) for name, fault in FAULTS.items()),
    *(SEEDS.items() if "ICEBERG_OPS_TORTURE" in os.environ else ()),
]
"""The suite takes the scenes; ``make torture`` takes the seeds too, which every change of the package's I/O steps moves."""


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[f"{name}: {example}" for name, example in EXAMPLES])
def test_with_its_rule_as_it_was_the_fault_is_found(name: str, example: int | str) -> None:
    fault = FAULTS[name]
    check(example)
    with replaced(fault.switch), pytest.raises(AssertionError, match=fault.says or None):
        check(example)


def test_an_old_rule_that_does_not_fit_the_package_finds_nothing() -> None:
    without_deletes: Switch = {"io.locations:identity_under": lambda _, io: str}
    with pytest.raises(RuntimeError, match="identity_under does not fit the package"):
        failure_of("files_under_another_spelling_are_no_orphans", without_deletes)


def find(name: str) -> int | None:
    """The first seed that passes, and fails with the fault."""
    fault = FAULTS[name]
    for seed in range(MOST_SEEDS):
        if not fault.world(draw(random.Random(seed))):
            continue
        gc.collect()  # A world has many reference cycles.
        said = failure_of(seed, fault.switch)
        if said is not None and re.search(fault.says, said) and failure_of(seed, fault.others) is None:
            return seed
    return None


def failure_of(example: int | str, switch: Switch) -> str | None:
    """The failure message of an example with these rules."""
    try:
        with replaced(switch):
            check(example)
    except AssertionError as e:
        return str(e)
    return None


def main(names: list[str]) -> None:
    """Search for the seeds of these faults (default: all), and write them to ``found_at``."""
    found = {**SEEDS, **{name: find(name) for name in names or FAULTS}}
    lines = "".join(f"    {json.dumps(name)}: {found[name]},\n" for name in FAULTS if found.get(name) is not None)
    place = Path(__file__).with_name("found_at.py")
    place.write_text(place.read_text().partition("= {")[0] + "= {\n" + lines + "}\n")
    print("not drawn:", *(name for name in FAULTS if found.get(name) is None), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
