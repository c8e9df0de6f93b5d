"""A catalog that swaps and then reports a failure: the commit is found by its run key, and its files stay."""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import CommitFailedError
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import Wrapped


class SaysItFailed(Wrapped):
    """Swaps, and reports the first success as a refusal."""

    told = False

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        done = self.inner.commit_table(table, requirements, updates)
        if not self.told:
            self.told = True
            raise CommitFailedError("refused, it says")
        return done


def test_a_swap_reported_as_refused_is_found_again_and_keeps_its_files() -> None:
    catalog = SaysItFailed(make_catalog())
    table = make_table(catalog)
    done = commit(catalog, table, AppendFiles(added=(data_file("a"),), run_key="r"), sleep=lambda s: None)
    assert done.snapshot is not None
    after = catalog.load_table(IDENTIFIER)
    assert [s.snapshot_id for s in after.metadata.snapshots] == [done.snapshot.snapshot_id]
    assert live_paths(after) == {data_file("a").file_path}
    reached = reachable_files(after, after.metadata.snapshots)
    assert all(after.io.exists(path) for path in (*reached.manifests, *reached.manifest_lists))
