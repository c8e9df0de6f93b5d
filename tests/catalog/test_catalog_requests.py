"""What work costs in requests to each catalog, also by method, and in files read and written. ``docs/catalogs.md`` has the same
figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.errors import GcDisabledError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.table.manifests import CACHE
from tests.actions.lake import Lake
from tests.builders import data_file, make_table
from tests.catalog.watched import Watched, opened
from tests.docs.markdown import ROOT

KINDS = {
    "sqlite": "SQL",
    "postgresql": "SQL",
    "hive with locks": "Hive, with locks",
    "hive without locks": "Hive, without locks",
    "glue": "Glue",
    "nessie": "Nessie",
    "rest": "REST",
    "filesystem on S3": "filesystem in an object store",
}
"""Each catalog, and its row in the page."""
APPENDS = 3


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.oracle) if kind in ("rest", "nessie") else kind for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def there(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    with opened(kind, request, tmp_path) as found:
        yield found


def _rows(name: str) -> list[list[str]]:
    """Of both tables."""
    page = (ROOT / "docs" / "catalogs.md").read_text().partition("## Requests")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.split("|")[2:-1]] for line in page.splitlines() if line.startswith(f"| {name} |")]


def _by_method(asked: list[str]) -> str:
    """How often each method was asked for: of HTTP, of Hive's thrift, of Glue, of SQL."""
    found = Counter(one.removeprefix("AWSGlue.").split()[0] for one in asked)
    return ", ".join(f"{count} {method}" for method, count in found.items()) or "none"


def test_each_catalog_is_asked_as_often_as_the_page_says(there: Watched, kind: str) -> None:
    catalog, identifier = there.catalog, (there.namespace, "t")
    catalog.create_namespace((there.namespace,))
    lake = Lake(catalog, identifier)
    make_table(catalog, identifier=identifier)
    for n in range(APPENDS):
        commit(catalog, lake.table, AppendFiles(added=(data_file(f"{n}"),)))

    methods: list[str] = []

    def cost(act: Callable[[], Any]) -> str:
        """Requests to the catalog; files read, files written."""
        CACHE.clear()
        there.forget()
        there.files.clear()
        act()
        methods.append(_by_method(there.asked()))
        files = "" if kind == "filesystem on S3" else f"; {there.files['read']}, {there.files['written']}"
        return f"{len(there.asked())}{files}"

    table = lake.table
    found = [
        cost(lambda: catalog.load_table(identifier)),
        cost(lambda: plan(table, Scan())),
        cost(lambda: commit(catalog, table, AppendFiles(added=(data_file("more"),)))),
    ]
    if kind == "nessie":
        with pytest.raises(GcDisabledError):
            lake.run("expire_snapshots", older_than="0s", retain_last=1)
        found.append("refused")
        methods.append("refused")
    else:
        found.append(cost(lambda: lake.run("expire_snapshots", older_than="0s", retain_last=1)))
        assert len(lake.table.metadata.snapshots) == 1
    assert [" | ".join(found), " | ".join(methods)] == [" | ".join(row) for row in _rows(KINDS[kind])]
