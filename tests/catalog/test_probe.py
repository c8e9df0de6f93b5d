"""``catalog test`` says which step fails and why, for each kind of catalog, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.catalog.probe import Step, probe
from iceberg_ops.errors import CatalogUnavailableError, TerminalError
from tests.builders import IDENTIFIER, make_catalog, make_table, sql_catalog
from tests.catalog.rest.fake_server import FakeServer, answers, error

NAMES = [
    "reach and authenticate",
    "list namespaces",
    "load a table",
    "read a file",
    "write a file",
    "create a file only once",
    "delete a file",
]


def _sql(folder: Any) -> Any:
    catalog = sql_catalog(folder)
    catalog.create_namespace(("ns",))
    return catalog


CATALOGS: dict[str, Callable[[Any], Any]] = {
    "memory": lambda folder: make_catalog(),
    "sql": _sql,
    "rest": lambda folder: FakeServer().catalog(),
}


def _outcomes(steps: list[Step]) -> dict[str, str]:
    return {step.name: step.outcome for step in steps}


def _left(catalog: Any) -> list[str]:
    table = catalog.load_table(IDENTIFIER)
    return [i.location for i in table.io.list_prefix(table.location) if "iceberg-ops-test" in i.location]


@pytest.mark.parametrize("kind", CATALOGS)
def test_a_catalog_that_works_passes_every_step_and_nothing_is_left(kind: str, tmp_path: Any) -> None:
    catalog = CATALOGS[kind](tmp_path)
    table = make_table(catalog)
    steps = probe(lambda: catalog)
    assert [step.name for step in steps] == NAMES
    assert {step.outcome for step in steps} == {"ok"}, steps
    assert steps[2].detail == f"{table.name} at {table.metadata_location}"
    assert _left(catalog) == []


@pytest.mark.parametrize("kind", CATALOGS)
def test_without_a_table_its_files_are_not_tried(kind: str, tmp_path: Any) -> None:
    catalog = CATALOGS[kind](tmp_path)
    assert _outcomes(probe(lambda: catalog)) == dict.fromkeys(NAMES, "skipped") | dict.fromkeys(NAMES[:2], "ok")
    place = str(tmp_path / "scratch") if kind == "sql" else "memory://scratch"
    steps = probe(lambda: catalog, location=place)
    assert _outcomes(steps) == dict.fromkeys(NAMES, "ok") | dict.fromkeys(NAMES[2:4], "skipped")
    assert list(catalog.io.list_prefix(place)) == []


class Broken:
    """A store of which one call fails, or does not do what it should."""

    def __init__(self, inner: Any, **calls: Any) -> None:
        self.inner, self.calls = inner, calls

    def __getattr__(self, name: str) -> Any:
        return self.calls.get(name, getattr(self.inner, name))


def _raises(error: Exception) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize(
    ("calls", "failed", "code", "text"),
    [
        ({"read": _raises(PermissionError(13, "denied"))}, "read a file", "IO", "denied"),
        ({"write": _raises(CatalogUnavailableError("slow down"))}, "write a file", "CATALOG_UNAVAILABLE", "slow down"),
        ({"write": lambda *_: None}, "create a file only once", "UNSUPPORTED", "lets a file be created twice"),
        ({"exists": lambda _: True}, "delete a file", "UNSUPPORTED", "is still there"),
    ],
)
def test_a_store_that_fails_is_told_with_the_step(calls: dict[str, Any], failed: str, code: str, text: str) -> None:
    server = FakeServer()
    make_table(server.inner)
    catalog = server.catalog(io=Broken(server.inner.io, **calls))
    steps = probe(lambda: catalog)
    found = next(step for step in steps if step.outcome == "failed")
    assert (found.name, found.code) == (failed, code)
    assert text in found.detail
    assert {s.detail for s in steps[steps.index(found) + 1 :]} <= {f"not tried, because this failed: {failed}"}
    assert _left(server.inner) == []


def test_a_server_that_refuses_is_told_with_the_step() -> None:
    server = FakeServer()
    server.spoil(answers(lambda: error(401, "NotAuthorizedException")))
    steps = probe(server.catalog)
    assert (steps[0].outcome, steps[0].code) == ("failed", TerminalError.code)
    assert "rejects the client's credentials" in steps[0].detail
    make_table(server.inner)
    server.spoil(answers(lambda: error(403, "ForbiddenException")), "GET", "/tables/t")
    steps = probe(server.catalog)
    assert [s.outcome for s in steps] == ["ok", "ok", "failed", *["skipped"] * 4]


def test_an_error_that_nobody_expects_leaves_no_file() -> None:
    catalog = make_catalog()
    make_table(catalog)
    catalog._io = Broken(catalog.io, exists=_raises(ZeroDivisionError()))  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        probe(lambda: catalog)
    catalog._io = catalog._io.inner  # type: ignore[attr-defined]
    assert _left(catalog) == []
