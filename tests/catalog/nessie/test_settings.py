"""The properties of the catalog in Nessie."""

from __future__ import annotations

import httpx
import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.catalog.nessie.nessie_catalog import NessieCatalog
from iceberg_ops.catalog.nessie.nessie_client import Nessie
from iceberg_ops.catalog.nessie.settings import files_only
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.errors import (
    OptionError,
    TerminalError,
)
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER

SECRET = "nessie-secret-of-the-test"
V2 = "http://n/api/v2"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "needs the property uri"),
        ({"uri": "http://n/iceberg"}, "ends with /api/v2.*type rest"),
        ({"uri": "http://n/api/v1"}, "ends with /api/v2"),
        ({"uri": V2, "ref.hash": "main"}, "ref.hash is 'main'"),
        ({"uri": V2, "authentication.type": "AWS"}, "must be NONE, BEARER, BASIC or OAUTH2"),
        ({"uri": V2, "authentication.type": "BEARER"}, "needs the property authentication.token"),
        ({"uri": V2, "authentication.token": SECRET}, "has no effect without authentication.type"),
        ({"uri": V2, "authentication.type": "OAUTH2"}, "oauth2.client-id"),
        ({"uri": V2, "authentication.type": "OAUTH2", "authentication.oauth2.grant-type": "password"}, "only client_credentials"),
        ({"uri": V2, "authentication.type": "OAUTH2", "authentication.oauth2.issuer-url": "http://i"}, "token-endpoint"),
        (
            {"uri": V2, "authentication.type": "OAUTH2", "nessie.authentication.oauth2.impersonation.enabled": "true"},
            "impersonation.enabled is not supported",
        ),
        (
            {"uri": V2, "authentication.type": "OAUTH2", "authentication.oauth2.client-id": f"me:{SECRET}"},
            "client-id .* must not have a colon: the secret is authentication.oauth2.client-secret",
        ),
        ({"uri": V2, "transport.read-timeout": "soon"}, "read-timeout is 'soon'"),
        ({"uri": V2, "ref": "main", "nessie.ref": "dev"}, "properties ref and nessie.ref have different values"),
    ],
)
def test_settings_that_are_wrong_are_refused_by_name(properties: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message) as error:
        load_catalog(CatalogConfig(name="n", type="nessie", properties=properties))
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("prefix", ["", "nessie."])
@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"authentication.type": "BEARER", "authentication.token": SECRET}, f"Bearer {SECRET}"),
        ({"authentication.type": "BASIC", "authentication.username": "u", "authentication.password": "p"}, "Basic dTpw"),
        (
            {
                "authentication.type": "OAUTH2",
                "authentication.oauth2.client-id": "me",
                "authentication.oauth2.client-secret": SECRET,
                "authentication.oauth2.token-endpoint": "http://tokens/get",
            },
            "Bearer fetched-token",
        ),
    ],
    ids=["none", "bearer", "basic", "oauth2"],
)
def test_authentication_is_sent_and_never_shown(prefix: str, properties: dict[str, str], expected: str | None) -> None:
    forms: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "tokens":
            forms.append(request.content.decode())
            return httpx.Response(200, json={"access_token": "fetched-token", "expires_in": 3600})
        assert request.headers.get("authorization") == expected
        text = f"nobody with {SECRET} or fetched-token may look"
        return httpx.Response(403, json={"status": 403, "errorCode": "FORBIDDEN", "message": text})

    given = {"uri": V2, "ref": "b", **{prefix + key: value for key, value in properties.items()}}
    catalog = NessieCatalog("n", Nessie("n", given, transport=httpx.MockTransport(answer)), LocalFileIO())
    with pytest.raises(TerminalError, match="may look") as error:
        catalog.load_table(IDENTIFIER)
    if SECRET in properties.values():
        assert SECRET not in str(error.value)
        assert "fetched-token" not in str(error.value) or not forms
    if forms:
        assert forms == [f"grant_type=client_credentials&client_id=me&client_secret={SECRET}"]
    files = files_only({**given, "s3.endpoint": "http://s3", "warehouse": "w"})
    assert files == {"s3.endpoint": "http://s3", "warehouse": "w"}
