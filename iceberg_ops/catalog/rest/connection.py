"""Sends one request and returns its answer; repeats the request if that cannot make a change twice.

Reads are repeated after any temporary failure. A change is repeated only if the first request was certainly not carried out: it did
not reach the server, or the server answers 429, or 503 with a ``Retry-After``, for which Iceberg's specification says so
(``repeats_answered``: whether that specification holds). The errors distinguish both cases: ``NotSentError`` and ``NoAnswerError``.
After a 401 or 419 the authentication is renewed, once.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from iceberg_ops import __version__
from iceberg_ops.catalog.rest.answers import Answer, NoAnswerError, NotSentError, error_fields, shortened
from iceberg_ops.catalog.rest.authorization import Anonymous, Authorization
from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.config.secrets import hide, longest_first, secrets_in_properties
from iceberg_ops.errors import BadInputError, CatalogUnavailableError, TerminalError

ATTEMPTS = 4
LONGEST_WAIT_S = 60.0
"""A server that asks to wait longer is treated as not available."""
_EXPIRED = (401, 419)
_PROOFS = ("Authorization", "X-Amz-Security-Token")
_READS = ("GET", "HEAD")
_MAY_PASS = frozenset({408, 429, 500, 502, 503, 504})
_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
)


class Connection:
    """Safe to use from several threads. ``catalog`` is the name for messages."""

    def __init__(
        self,
        catalog: str,
        client: ClientOfProcess,
        secrets: KnownSecrets,
        *,
        authorization: Authorization | None = None,
        sleep: Callable[[float], None] = time.sleep,
        repeats_answered: bool = True,
    ) -> None:
        self._catalog, self._client, self._secrets, self._sleep = catalog, client, secrets, sleep
        self._repeats_answered = repeats_answered
        self._authorization = authorization or Anonymous()

    def authorized(self, authorization: Authorization) -> Connection:
        """The same, for authentication requests."""
        return Connection(
            self._catalog,
            self._client,
            self._secrets,
            authorization=authorization,
            sleep=self._sleep,
            repeats_answered=self._repeats_answered,
        )

    def ask(
        self,
        method: str,
        address: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """``body`` is sent as JSON, ``form`` as a form. Raises NotSentError, NoAnswerError, and TerminalError and BadInputError for
        requests that cannot be sent; every answer is returned, also a refusal."""
        content, kind = _content(body, form)
        renewed = False
        attempt = 0
        while True:
            attempt += 1
            request = self._client.here.build_request(
                method, _with(address, params), content=content, headers={**kind, **(headers or {})}
            )
            try:
                answer = self._once(request)
            except (NotSentError, NoAnswerError) as e:
                if attempt >= ATTEMPTS or (isinstance(e, NoAnswerError) and method not in _READS):
                    raise
                self._sleep(_pause_s(attempt))
                continue
            if answer.status in _EXPIRED and not renewed and self._authorization.renew(request):
                renewed, attempt = True, attempt - 1
                continue
            wait = _wait_s(method, answer, attempt) if self._repeats_answered else None
            if wait is None:
                return answer
            self._sleep(wait)

    def _once(self, request: httpx.Request) -> Answer:
        self._sign(request)
        with self._named_failures(request):
            response = self._client.here.send(request)
            text, kind = ("", "") if response.is_success else error_fields(response.content)
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, headers, response.content, shortened(self._hidden(text, request)), kind)

    def _hidden(self, text: str, request: httpx.Request) -> str:
        """Without secrets, including the credentials of the request: AWS's answers repeat a session token."""
        proofs = (value for name in _PROOFS if (value := request.headers.get(name)) is not None)
        return hide(
            self._secrets.hide(text), longest_first(form for value in proofs for form in secrets_in_properties({"token": value}))
        )

    def _sign(self, request: httpx.Request) -> None:
        """Without authentication nothing is sent: the outcome of the token server's own request does not matter here."""
        try:
            self._authorization.sign(request)
        except (NotSentError, NoAnswerError) as e:
            raise CatalogUnavailableError(str(e)) from None

    @contextmanager
    def _named_failures(self, request: httpx.Request) -> Iterator[None]:
        where = f"catalog {self._catalog} at {request.url.scheme}://{request.url.netloc.decode()}"
        try:
            yield
        except _NOT_SENT as e:
            raise NotSentError(f"{where} was not reached: {self._reason(e)}") from None
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol) as e:
            raise TerminalError(f"{where}: the request cannot be sent: {self._reason(e)}") from None
        except httpx.HTTPError as e:
            raise NoAnswerError(f"{where} gave no answer to {request.method}: {self._reason(e)}") from None

    def _reason(self, error: Exception) -> str:
        return self._secrets.hide(f"{type(error).__name__} {error}".strip())


def _certificates() -> ssl.SSLContext:
    """The certificates that are trusted. To read them takes longer than everything else that a new client needs, so a process reads
    them once, and again if the environment names others or their file has changed. (A folder is looked into at each connection.)"""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file:
        return _read_once(folder)
    try:
        status = os.stat(file)
    except OSError:
        return httpx.create_ssl_context()  # It raises the error.
    return _read_once(folder, file, status.st_mtime_ns, status.st_ino, status.st_size)


@lru_cache(maxsize=1)
def _read_once(*_place: object) -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _with(address: str, params: Mapping[str, str] | None) -> str:
    """A space is ``%20``: signatures and servers treat ``+`` differently."""
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in (params or {}).items())
    return f"{address}?{query}" if query else address


def _content(body: Any, form: Mapping[str, str] | None) -> tuple[bytes | None, dict[str, str]]:
    if form is not None:
        return str(httpx.QueryParams(dict(form))).encode(), {"Content-Type": "application/x-www-form-urlencoded"}
    if body is None:
        return None, {}
    try:
        return msgspec.json.encode(body), {"Content-Type": "application/json"}
    except UnicodeEncodeError:
        raise BadInputError("a name or text is not Unicode (half of a surrogate pair): nothing was sent") from None


def _pause_s(attempt: int) -> float:
    return float(0.1 * 2**attempt)


def _wait_s(method: str, answer: Answer, attempt: int) -> float | None:
    """Seconds until the request is sent again; None: this answer is final."""
    may_repeat = answer.status in _MAY_PASS if method in _READS else answer.status in (429, 503) and answer.is_refusal
    wait = _pause_s(attempt) if answer.retry_after_s is None else answer.retry_after_s
    return wait if may_repeat and attempt < ATTEMPTS and wait <= LONGEST_WAIT_S else None


class ClientOfProcess:
    """An HTTP client that is created again in a forked process: on a connection shared with the parent, each process would read
    answers to the other's requests."""

    def __init__(self, make: Callable[[], httpx.Client]) -> None:
        self._make = make
        self._here = os.getpid(), make()

    @property
    def here(self) -> httpx.Client:
        process, client = self._here
        if process != os.getpid():
            self._here = os.getpid(), (client := self._make())
        return client


def new_client(
    headers: Mapping[str, str],
    timeouts_s: tuple[float, float],
    transport: httpx.BaseTransport | None = None,
) -> ClientOfProcess:
    """A client that keeps connections for five seconds: servers close idle ones later, so no change is lost on a connection that is
    just being closed. Proxies and certificates come from the environment (``HTTPS_PROXY``, ``SSL_CERT_FILE``)."""
    connect, answer = timeouts_s
    return ClientOfProcess(
        lambda: httpx.Client(
            headers={"User-Agent": f"iceberg-ops/{__version__}", "Accept": "application/json", **headers},
            timeout=httpx.Timeout(answer, connect=connect),
            limits=httpx.Limits(max_connections=32, keepalive_expiry=5.0),
            verify=_certificates(),
            transport=transport,
            follow_redirects=False,
        )
    )
