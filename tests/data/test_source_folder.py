"""Which files of a source are data, in every lister."""

from __future__ import annotations

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.properties import FORMER_LOCATION_PREFIX
from iceberg_ops.data.sources.source_folder import TableFolders, check_all_are_read, check_holds_data, data_files_among
from iceberg_ops.errors import DataError
from tests.builders import SCHEMA, make_catalog


@pytest.mark.parametrize(
    ("names", "data"),
    [
        (["a.parquet", "k=1/b.parquet"], ["a.parquet", "k=1/b.parquet"]),
        (["_SUCCESS", "_metadata", ".a.crc", "a.parquet"], ["a.parquet"]),
        (["_delta_log/0.json", ".hidden/a.parquet"], []),
        (["_k=1/a.parquet", ".k=1/a.parquet"], ["_k=1/a.parquet", ".k=1/a.parquet"]),
        ([], []),
    ],
)
def test_hidden_names_are_no_data_but_values_are(names: list[str], data: list[str]) -> None:
    found = data_files_among("/in", [tuple(name.split("/")) for name in names], require_success_file=False)
    assert ["/".join(name) for name in found] == data


@pytest.mark.parametrize("name", ["_temporary", "_temporary/0/a.parquet", "k=1/_temporary"])
def test_a_temporary_folder_at_any_depth_is_half_a_source(name: str) -> None:
    with pytest.raises(DataError, match=f"/in is half written: it holds {name}; its writer is at work, or died"):
        data_files_among("/in", [("a.parquet",), tuple(name.split("/"))], require_success_file=False)


def test_success_is_asked_for_at_the_top_only() -> None:
    assert data_files_among("/in", [("_SUCCESS",), ("a",)], require_success_file=True) == [("a",)]
    with pytest.raises(DataError, match="it has no _SUCCESS"):
        data_files_among("/in", [("k=1", "_SUCCESS"), ("a",)], require_success_file=True)


@pytest.mark.parametrize(
    ("names", "left_out"),
    [
        (["a", "b"], None),
        (["k=1/a", "k=2/b", "k=1/sub/c"], None),
        (["sub/k=1/a"], None),
        (["a", "sub/b"], "sub/b"),
        (["2026/07/01/a"], "2026/07/01/a"),
        (["a", "k=1/b"], "a"),
        (["k=1/a", "sub/b"], "sub/b"),
        (["k=1/a", ".k=2/b"], ".k=2/b"),
    ],
)
def test_data_that_spark_would_leave_out_is_an_error(names: list[str], left_out: str | None) -> None:
    data = [tuple(name.split("/")) for name in names]
    if left_out is None:
        check_all_are_read("/in", data)
        return
    with pytest.raises(DataError, match=f"source /in: Spark would leave out {left_out}: .* recursiveFileLookup = true"):
        check_all_are_read("/in", data)


def test_nothing_is_no_source() -> None:
    check_holds_data("/in", 1)
    with pytest.raises(DataError, match="/in is empty"):
        check_holds_data("/in", 0)


@pytest.fixture
def places() -> TableFolders:
    """Of a table at ``file:///wh/t``, which was at ``/old`` before."""
    catalog = make_catalog()
    table = catalog.create_table(("ns", "t"), SCHEMA, location="file:///wh/t")
    commit(catalog, table, UpdateProperties(updates={f"{FORMER_LOCATION_PREFIX}1": "/old/t"}))
    return TableFolders(catalog.load_table(("ns", "t")))


@pytest.mark.parametrize("path", ["/wh/t", "/wh/t/", "file:/wh/t/data", "file:///wh/t/data/a.parquet"])
def test_the_tables_own_files_are_no_source(places: TableFolders, path: str) -> None:
    with pytest.raises(DataError, match="inside the table's own folder file:///wh/t"):
        places.check_path(path)


def test_files_in_a_former_folder_of_the_table_are_no_source(places: TableFolders) -> None:
    with pytest.raises(DataError, match="inside the table's own folder /old/t"):
        places.check_path("/old/t/data")
    with pytest.raises(DataError, match="source /old holds the table's own folder /old/t"):
        places.check_path("/old")


def test_a_neighbour_whose_name_begins_alike_is_one(places: TableFolders) -> None:
    places.check_path("/wh/t2/data")
    places.check_file("/wh/t2", "/wh/t2/data/a.parquet")
