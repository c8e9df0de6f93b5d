"""``iceberg-ops catalog test``."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli


def test_a_catalog_is_tried_and_what_fails_is_told(cli: Cli) -> None:
    assert cli("create", "lake.ns.t", "id bigint").code == 0
    ran = cli("catalog", "test", "lake", "--json")
    assert ran.code == 0
    assert (ran.json["catalog"], ran.json["type"], ran.json["works"]) == ("lake", "filesystem", True)
    assert {step["outcome"] for step in ran.json["steps"]} == {"ok"}
    assert "catalog lake (filesystem) works, as far as it was tried" in cli("catalog", "test", "lake").out
    assert cli("catalog", "test", "lake", "--table", "lake.ns.t").code == 0
    ran = cli("catalog", "test", "lake", "--table", "lake.ns.no", "--json")
    assert (ran.code, ran.json["works"], ran.json["steps"][2]["code"]) == (1, False, "NO_SUCH_TABLE")
    assert cli("catalog", "test", "lake", "--table", "other.ns.t").err == (
        "error: BAD_OPTION: --table 'other.ns.t' is not in catalog 'lake'\n"
    )
    assert cli("catalog", "test", "nope").err.startswith("error: BAD_OPTION: catalog 'nope' is not configured")


def test_a_catalog_that_is_not_there_fails_without_its_secrets(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "catalogs.yml").write_text(
        "catalogs:\n  - {name: lake, type: rest, properties: {uri: 'http://127.0.0.1:1', token: geheim-1}}\n"
        "  - {name: db, type: sql, properties: {uri: 'postgresql://me:geheim-1@127.0.0.1:1/x', warehouse: /w}}\n"
    )
    for name in ("lake", "db"):
        ran = cli("catalog", "test", name)
        assert ran.code == 1
        assert f"catalog {name} (" in ran.out
        assert "fails to reach and authenticate (" in ran.out
        assert "geheim-1" not in ran.out + ran.err
