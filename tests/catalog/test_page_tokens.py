"""A server that returns a page token for ever ends a listing with an error; pages may be empty (see ``rest/test_protocol`` for
REST)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from iceberg_ops.catalog.glue.glue_client import Glue
from iceberg_ops.catalog.nessie.nessie_client import Nessie
from iceberg_ops.catalog.nessie.references import Reference
from iceberg_ops.errors import CatalogUnavailableError

Listed = Callable[[list[str]], Iterator[Any]]
"""Lists pages of one element each; the argument: the tokens that follow them, of which the last is returned for ever."""


def _of_glue(tokens: list[str]) -> Iterator[Any]:
    client = Glue("g", {"glue.region": "r", "glue.access-key-id": "a", "glue.secret-access-key": "b"}, environment={})
    left = list(tokens)

    def read(_call: str, **_arguments: Any) -> dict[str, Any]:
        return {"TableList": [{"Name": "t"}], "NextToken": left.pop(0) if len(left) > 1 else left[0]}

    client.read = read  # type: ignore[method-assign]
    return client.pages("GetTables", "TableList")


def _of_nessie(tokens: list[str]) -> Iterator[Any]:
    left = list(tokens)

    def answer(_request: httpx.Request) -> httpx.Response:
        token = left.pop(0) if len(left) > 1 else left[0]
        entry = {"type": "ICEBERG_TABLE", "name": {"elements": ["ns", "t"]}}
        effective = {"type": "BRANCH", "name": "b", "hash": "ab" * 32}
        page = {"entries": [entry], "hasMore": bool(token), "token": token, "effectiveReference": effective}
        return httpx.Response(200, json=page)

    client = Nessie("n", {"uri": "http://n/api/v2", "ref": "b"}, transport=httpx.MockTransport(answer))
    return client.entries(Reference("b", None), "true")


LISTS = {"glue": _of_glue, "nessie": _of_nessie}


@pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS)
def test_a_token_that_returns_for_ever_is_an_error(listed: Listed) -> None:
    assert len(list(listed(["1", "2", ""]))) == 3
    for tokens in (["1", "2"], ["1", "2", "1"]):
        with pytest.raises(CatalogUnavailableError, match="the same page token twice"):
            list(listed(tokens))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": "please log in"},
        {"entries": [], "hasMore": True, "effectiveReference": {"type": "BRANCH", "hash": "a" * 64}},
    ],
    ids=["empty", "a gateway's", "more, and no token"],
)
def test_an_answer_that_is_not_of_nessie_is_no_list(body: dict[str, Any]) -> None:
    client = Nessie(
        "n", {"uri": "http://n/api/v2", "ref": "b"}, transport=httpx.MockTransport(lambda _: httpx.Response(200, json=body))
    )
    with pytest.raises(CatalogUnavailableError, match="the answer is not Nessie's"):
        list(client.entries(Reference("b", None), "true"))
    with pytest.raises(CatalogUnavailableError, match="the answer is not Nessie's"):
        client.contents(Reference("b", None), [("ns", "t")])
