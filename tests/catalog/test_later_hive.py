"""Hive 3 and 4: what differs there. ``make torture`` runs the suite of all catalogs on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import IcebergOpsError
from tests.builders import IDENTIFIER, data_file, live_paths, make_table
from tests.catalog.every_catalog import LATER_HIVE, hive
from tests.servers.hive_metastore import LaterHiveMetastore

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize(("version", "locks"), LATER_HIVE.values(), ids=LATER_HIVE)
def test_it_keeps_tables_and_refuses_a_stale_change(
    later_hive: Callable[[str], LaterHiveMetastore], tmp_path: Path, version: str, locks: bool
) -> None:
    catalog = hive(later_hive(version), tmp_path, locks=locks)
    stale = make_table(catalog)
    for path in ("a", "b"):
        commit(catalog, stale, AppendFiles(added=(data_file(path),)), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "b"}
    assert not catalog._swap_pointer(IDENTIFIER, "file:/another", stale.metadata_location)
    catalog.rename_table(IDENTIFIER, ("ns", "u"))
    assert catalog.list_tables(("ns",)) == [("ns", "u")]
    catalog.drop_table(("ns", "u"), purge=True)
    catalog.drop_namespace(("ns",))


def test_hive_3_is_refused_without_locks(later_hive: Callable[[str], LaterHiveMetastore], tmp_path: Path) -> None:
    """It accepts a change of a table that has moved in the meantime."""
    catalog = hive(later_hive("3.1.3"), tmp_path, locks=False)
    table = make_table(catalog)
    with pytest.raises(IcebergOpsError, match=r"does not compare expected parameters .*HIVE-26882.* set engine.hive.lock-enabled"):
        commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    assert catalog.load_table(IDENTIFIER).metadata.snapshots == ()
    assert catalog._metastore.call(lambda client: client.get_all_tables("ns")) == ["t"], "the view of the check is gone"


def test_hive_4_itself_refuses_what_does_not_expect_the_current_state(
    later_hive: Callable[[str], LaterHiveMetastore], tmp_path: Path
) -> None:
    """Two changes of one state: the second has read the record before the first was made."""
    catalog = hive(later_hive("4.0.1"), tmp_path, locks=False)
    table = make_table(catalog)
    record = catalog._hive_table(IDENTIFIER)
    commit(catalog, table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None)
    with pytest.raises(IcebergOpsError, match="The table has been modified"):
        catalog._altered(IDENTIFIER, record, table.metadata_location)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a"}
