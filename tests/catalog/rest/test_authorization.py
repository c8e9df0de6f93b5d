"""How a client proves who asks, and that no message shows it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.catalog.rest.sigv4 import SigV4
from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError, OptionError, TerminalError
from iceberg_ops.io.aws.keys import AwsKeys
from tests.builders import IDENTIFIER, make_table
from tests.catalog.rest.fake_server import FakeServer, Serve, answers, error, lost_answer, no_connection

CREDENTIAL = {"credential": "me:geheim-1"}


class TokenServer:
    """Gives tokens ``token-1``, ``token-2`` and so on, and takes only the last one; put in front of a ``FakeServer``."""

    def __init__(self, server: FakeServer, *, seconds: Any = 3600, path: str = "/api/v1/oauth/tokens") -> None:
        self.server, self.seconds, self.path, self.given = server, seconds, path, 0
        self.forms: list[dict[str, str]] = []
        self.inner, server.handle = server.handle, self.handle  # type: ignore[method-assign]

    def handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == self.path:
            self.forms.append(dict(parse_qsl(request.content.decode())))
            assert "Authorization" not in request.headers
            self.given += 1
            document = {"access_token": f"token-{self.given}", "token_type": "bearer", "expires_in": self.seconds}
            return httpx.Response(200, json={k: v for k, v in document.items() if v is not None})
        if request.headers.get("Authorization") != f"Bearer token-{self.given}":
            return error(401, "NotAuthorizedException", "expired")
        return self.inner(request)


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"token": "abcd"}, "Bearer abcd"),
        ({"token": "abcd", "rest.auth.type": "oauth2"}, "Bearer abcd"),
        ({"token": "abcd", "rest.auth.type": "none"}, None),
        (
            {"rest.auth.type": "basic", "rest.auth.basic.username": "me", "rest.auth.basic.password": "x:y"},
            "Basic bWU6eDp5",
        ),
    ],
)
def test_every_request_says_who_asks(server: FakeServer, properties: Mapping[str, str], expected: str | None) -> None:
    server.catalog(properties).list_namespaces()
    assert [r.headers.get("Authorization") for r in server.requests] == [expected] * 2


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"rest.auth.type": "oauth2"}, "needs the property token or credential"),
        ({"rest.auth.type": "basic"}, "needs the property rest.auth.basic.username"),
        ({"rest.auth.type": "kerberos"}, "must be one of none, basic, oauth2, sigv4"),
        ({"rest.sigv4-enabled": "true", "token": "abcd"}, "choose one"),
        ({"rest.sigv4-enabled": "true", "rest.signing-region": "eu", "rest.access-key-id": "a"}, "set both, or none"),
        ({"rest.sigv4-enabled": "true", "rest.access-key-id": "a", "rest.secret-access-key": "b"}, "needs a region"),
        ({"credential": "a:b", "oauth2-server-uri": "auth:8080"}, "oauth2-server-uri must be an address"),
    ],
)
def test_what_does_not_say_who_asks_is_an_error(server: FakeServer, properties: Mapping[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        server.catalog(properties)


@pytest.mark.parametrize(
    ("properties", "form"),
    [
        (CREDENTIAL, {"client_id": "me", "client_secret": "geheim-1", "scope": "catalog"}),
        ({"credential": "geheim-1", "scope": "a b"}, {"client_secret": "geheim-1", "scope": "a b"}),
        ({**CREDENTIAL, "scope": "", "audience": "x", "resource": "y"},
         {"client_id": "me", "client_secret": "geheim-1", "audience": "x", "resource": "y"}),
    ],
)  # fmt: skip
def test_a_credential_is_exchanged_for_a_token_once(
    server: FakeServer, properties: Mapping[str, str], form: Mapping[str, str]
) -> None:
    tokens = TokenServer(server)
    catalog = server.catalog(properties)
    catalog.list_namespaces()
    assert tokens.forms == [{"grant_type": "client_credentials", **form}]


def test_a_token_server_elsewhere_is_asked(server: FakeServer) -> None:
    tokens = TokenServer(server, path="/api/elsewhere/token")
    for address in ("https://auth.test/api/elsewhere/token", "/elsewhere/token", "elsewhere/token"):
        server.catalog({**CREDENTIAL, "oauth2-server-uri": address})
    assert tokens.given == 3


@pytest.mark.parametrize(("seconds", "until"), [(3600, 3539), (100, 89), ("100", 89), (None, 10**9)])
def test_a_token_is_renewed_before_it_ends(server: FakeServer, seconds: Any, until: int) -> None:
    now = [0.0]
    tokens = TokenServer(server, seconds=seconds)
    catalog = server.catalog(CREDENTIAL, seconds=lambda: now[0])
    now[0] = until
    catalog.list_namespaces()
    assert tokens.given == 1
    now[0] = until + 1.5
    catalog.list_namespaces()
    assert tokens.given == (1 if seconds is None else 2)


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_is_refused_is_renewed_once_also_for_a_commit(server: FakeServer, status: int) -> None:
    tokens = TokenServer(server)
    catalog = server.catalog(CREDENTIAL)
    tokens.given += 1  # The server has restarted and knows no earlier token.
    make_table(catalog)
    assert tokens.given == 3
    server.spoil(answers(lambda: error(status)), times=2)
    with pytest.raises(TerminalError, match="rejects the client's credentials"):
        catalog.load_table(IDENTIFIER)
    assert tokens.given == 4


def test_threads_that_are_refused_together_renew_a_token_once(server: FakeServer) -> None:
    tokens = TokenServer(server)
    catalog = server.catalog(CREDENTIAL)
    both = threading.Barrier(4)

    def expired(request: httpx.Request, serve: Serve) -> httpx.Response:
        both.wait(10)
        return error(401)

    server.spoil(expired, "GET", "/namespaces", times=4)
    threads = [threading.Thread(target=catalog.list_namespaces) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert tokens.given == 2


@pytest.mark.parametrize(
    ("answer", "expected", "text"),
    [
        (
            lambda: httpx.Response(401, json={"error": "invalid_client", "error_description": "no geheim-1"}),
            TerminalError,
            r"refuses a token \(401: invalid_client: no \*\*\*\): check the properties credential, scope",
        ),
        (lambda: httpx.Response(503), CatalogUnavailableError, "refuses a token"),
        (lambda: httpx.Response(200, text="<html>login</html>"), TerminalError, "gives no token"),
        (lambda: httpx.Response(200, json={"token": "x"}), TerminalError, "gives no token"),
    ],
)
def test_a_token_server_that_gives_none_is_told(
    server: FakeServer, answer: Any, expected: type[IcebergOpsError], text: str
) -> None:
    server.spoil(answers(answer), "POST", "/oauth/tokens")
    with pytest.raises(expected, match=text):
        server.catalog(CREDENTIAL)


@pytest.mark.parametrize("fault", [lost_answer, no_connection])
def test_a_commit_whose_token_cannot_be_had_was_not_sent(server: FakeServer, fault: Any) -> None:
    """If the token server does not answer, that does not mean that the catalog does not answer."""
    now = [0.0]
    TokenServer(server)
    catalog = server.catalog(CREDENTIAL, seconds=lambda: now[0])
    now[0] = 10_000
    inner = server.handle

    def broken(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/oauth/tokens"):
            return fault(request, lambda r: httpx.Response(200))  # type: ignore[no-any-return]
        return inner(request)

    server.handle = broken  # type: ignore[method-assign]
    with pytest.raises(CatalogUnavailableError):
        make_table(catalog)
    assert not server.asked("POST")


KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SIGNATURES = [
    # The first is AWS's own (get-vanilla); all of them are what botocore 1.44 makes.
    (KEYS, "GET", "https://example.amazonaws.com/", None, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    (
        AwsKeys(KEYS.key_id, KEYS.secret, "tok/en+="),
        "GET",
        "https://glue.eu-west-1.amazonaws.com/iceberg/v1/catalogs/123/namespaces/a%1Fb%20c/tables/t%252",
        None,
        "849c6697c96b4588f349cb50ee990c602f9c801bd7407bda9a5abdd135938d82",
    ),
    (
        KEYS,
        "GET",
        "https://x.test:8443/v1/config?warehouse=arn%3Aaws%3As3tables%3Aeu%3A1%3Abucket%2Fb&b=&a=x%20y%2Bz~",
        None,
        "23b12a11d7a5caf1a74acaf67fac8347577095e23f686c58ec929c51559ddd79",
    ),
    (
        KEYS,
        "POST",
        "https://x.test/v1/n",
        '{"a": "ä"}'.encode(),
        "5fa5e4b414e0fbe57fdc5d05fcf1840a8f387f034fd4307ebc6bd2924ef6f4c3",
    ),
]


@pytest.mark.parametrize(("keys", "method", "address", "body", "expected"), SIGNATURES)
def test_a_request_is_signed_as_aws_signs_it(keys: AwsKeys, method: str, address: str, body: bytes | None, expected: str) -> None:
    at, secrets = datetime(2015, 8, 30, 12, 36, tzinfo=UTC), KnownSecrets()
    signer = SigV4(lambda: keys, service="service", region="us-east-1", secrets=secrets, clock=lambda: at)
    headers = {"X-Tenant": "not signed", **({"Content-Type": "application/json"} if body else {})}
    request = httpx.Request(method, address, content=body, headers=headers)
    signer.sign(request)
    names = ["content-type"] * bool(body) + ["host", "x-amz-date"] + ["x-amz-security-token"] * bool(keys.session_token)
    assert request.headers["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders={';'.join(names)}, "
        f"Signature={expected}"
    )
    assert secrets.hide(f"{keys.secret} {keys.session_token or ''}").strip("* ") == ""


@pytest.mark.parametrize(
    ("properties", "environment", "scope"),
    [
        ({"rest.access-key-id": "K1", "rest.secret-access-key": "s", "rest.signing-region": "eu"}, {}, "K1/{}/eu/execute-api"),
        ({"client.region": "ap", "rest.signing-name": "glue"}, {"AWS_ACCESS_KEY_ID": "K2", "AWS_SECRET_ACCESS_KEY": "s"},
         "K2/{}/ap/glue"),
        ({}, {"AWS_ACCESS_KEY_ID": "K2", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t", "AWS_REGION": "us"},
         "K2/{}/us/execute-api"),
    ],
)  # fmt: skip
def test_keys_and_region_are_those_of_the_properties_or_of_the_environment(
    server: FakeServer, properties: Mapping[str, str], environment: Mapping[str, str], scope: str
) -> None:
    server.catalog({"rest.sigv4-enabled": "true", **properties}, environment=environment).list_namespaces()
    for request in server.requests:
        credential = request.headers["Authorization"].partition("Credential=")[2].partition("/aws4_request")[0]
        assert credential == scope.format(request.headers["X-Amz-Date"][:8])
        assert request.headers.get("X-Amz-Security-Token") == environment.get("AWS_SESSION_TOKEN")


SECRETS = {
    "token": {"token": "geheim-1"},
    "credential": CREDENTIAL,
    "header": {"header.X-Api-Thing": "geheim-1"},
    "password": {"rest.auth.type": "basic", "rest.auth.basic.username": "u", "rest.auth.basic.password": "geheim-1"},
    "keys": {
        "rest.sigv4-enabled": "true",
        "rest.signing-region": "eu",
        "rest.access-key-id": "K1",
        "rest.secret-access-key": "geheim-1",
    },
    "session": {
        "rest.sigv4-enabled": "true",
        "rest.signing-region": "eu",
        "rest.access-key-id": "K1",
        "rest.secret-access-key": "s",
        "rest.session-token": "geheim-1",
    },
}


@pytest.mark.parametrize("kind", SECRETS)
def test_no_message_and_no_log_shows_a_secret(server: FakeServer, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    if kind == "credential":
        TokenServer(server)
    catalog = server.catalog(SECRETS[kind])
    sent = str(dict(server.requests[0].headers))
    said: list[str] = [repr(catalog._settings), repr(catalog._connection)]
    for response in (error(400, message=f"you sent geheim-1 and {sent}"), httpx.Response(500, text=f"geheim-1 {sent}")):
        server.spoil(answers(lambda response=response: response), "GET", "/namespaces", times=4)  # type: ignore[misc]
        with pytest.raises(IcebergOpsError) as raised:
            catalog.list_namespaces()
        said.append(str(raised.value))
        server.faults.clear()
    for text in (*said, caplog.text):
        assert "geheim-1" not in text
        assert "token-1" not in text
        assert "dTpnZWhlaW0tMQ" not in text, "the password as it is sent"


@pytest.mark.parametrize("before", range(250, 310, 6))
def test_a_secret_of_the_environment_is_not_shown_by_an_answer_that_repeats_it_or_a_part_of_it(
    server: FakeServer, before: int
) -> None:
    """AWS's message about a wrong signature has the headers that were signed, and long messages are cut."""
    token = "IQoJb3JpZ2luX2VjEGEaCWV1LXdlc3QtMSJHMEUCIQ"
    keys = {"AWS_ACCESS_KEY_ID": "K2", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": token, "AWS_REGION": "us"}
    catalog = server.catalog({"rest.sigv4-enabled": "true"}, environment=keys)
    text = f"x-amz-security-token:{token}"
    server.spoil(
        answers(lambda: error(403, message=f"{'x' * (before - len('x-amz-security-token:'))}{text}")), "GET", "/namespaces"
    )
    with pytest.raises(IcebergOpsError, match="x-amz-security") as refused:
        catalog.list_namespaces()
    assert token[:8] not in str(refused.value)
