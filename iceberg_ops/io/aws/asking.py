"""Requests to the services that issue credentials: few, small, and without redirects, which could send a secret to another server.

Errors show the service's code and message; addresses are shown without their query, and bodies never.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from iceberg_ops.errors import CatalogUnavailableError, OptionError

_MOST_BYTES = 1 << 20
_TRIES = 3
_PASSING = frozenset({408, 425, 429})
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """An answer of a service."""

    status: int
    body: bytes = field(repr=False)

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


Ask = Callable[..., ServiceResponse]
"""``ask`` below, or a test's."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def ask(
    method: str,
    address: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float = 10.0,
    by_proxy: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> ServiceResponse:
    """The answer, with any status. The request is sent up to three times: after no answer, and after a temporary error. Raises
    CatalogUnavailableError without an answer, OptionError. ``by_proxy``: whether the environment's proxies are used."""
    if not address.startswith(("http://", "https://")):
        raise OptionError("an address that AWS credentials are asked at must begin with http:// or https://")
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if not by_proxy:
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    parts = urlsplit(address)
    where = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
    for attempt in range(1, _TRIES + 1):
        request = urllib.request.Request(address, data=body, headers=dict(headers or {}), method=method)
        try:
            with opener.open(request, timeout=timeout_s) as response:
                return ServiceResponse(response.status, response.read(_MOST_BYTES))
        except urllib.error.HTTPError as e:
            with e:
                answered = ServiceResponse(e.code, e.read(_MOST_BYTES))
            if attempt == _TRIES or not (e.code in _PASSING or e.code >= _SERVER_ERROR):
                return answered
        except (OSError, http.client.HTTPException) as e:
            if attempt == _TRIES:
                reason = e.reason if isinstance(e, urllib.error.URLError) else e
                raise CatalogUnavailableError(f"{where} gives no answer ({type(reason).__name__})") from None
        except ValueError:  # its text shows the header, which is a token
            raise OptionError(
                f"{where} cannot be asked: the address or the token for it (not shown) has a character that no request can have, "
                "such as a line break: correct it"
            ) from None
        sleep(0.2 * 2**attempt)
    raise AssertionError("the last attempt returns or raises")
