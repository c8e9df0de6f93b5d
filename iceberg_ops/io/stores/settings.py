"""Settings of all object stores: time limits, retries, and refused properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from iceberg_ops.errors import OptionError, UnsupportedError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_RETRIES, _FIRST_WAIT_MS, _LONGEST_WAIT_MS = 8, 100, 5_000
"""About twenty seconds in all: a longer outage is an error, and the user decides."""
_TRIED_FOR = timedelta(seconds=60)


def client_options(endpoint: str | None) -> ClientConfig:
    """A request may take long, because a file may be large; an idle connection is closed."""
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=30),
        "timeout": timedelta(minutes=15),
        "user_agent": "iceberg-ops",
    }
    if endpoint is not None and endpoint.startswith("http://"):
        options["allow_http"] = True
    return options


def retries(properties: Mapping[str, str], prefix: str) -> RetryConfig:
    """Retries by Java's ``<prefix>.retry.num-retries``, ``.min-wait-ms`` and ``.max-wait-ms``. Raises OptionError."""
    first = number(properties, f"{prefix}.retry.min-wait-ms", _FIRST_WAIT_MS)
    longest = number(properties, f"{prefix}.retry.max-wait-ms", _LONGEST_WAIT_MS)
    return {
        "max_retries": number(properties, f"{prefix}.retry.num-retries", _RETRIES),
        "backoff": {"init_backoff": timedelta(milliseconds=first), "max_backoff": timedelta(milliseconds=max(first, longest))},
        "retry_timeout": max(_TRIED_FOR, timedelta(milliseconds=longest)),
    }


def number(properties: Mapping[str, str], name: str, default: int) -> int:
    """Raises OptionError."""
    text = properties.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit():
        raise OptionError(f"property {name} {text!r}: must be a whole number")
    return int(text)


def expiry(properties: Mapping[str, str], names: Iterable[str]) -> datetime | None:
    """When credentials expire by the first of the properties that shows it, in milliseconds since the epoch."""
    text = next((value for name in names if (value := properties.get(name))), "")
    return datetime.fromtimestamp(int(text) / 1000, UTC) if text.isascii() and text.isdigit() else None


def address(properties: Mapping[str, str], name: str) -> str | None:
    """The address of a store, without a slash at its end. Raises OptionError."""
    text = properties.get(name)
    if text is None:
        return None
    if not text.startswith(("http://", "https://")) or not urlsplit(text).hostname:
        raise OptionError(f"property {name}: must be an address that begins with http:// or https://")
    return text.rstrip("/")


def flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    """Raises OptionError."""
    text = properties.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"property {name} {text!r}: must be true or false")
    return text == "true"


def refuse(properties: Mapping[str, str], refused: Mapping[str, str]) -> None:
    """Refuses properties that change the acting identity or the written files and would be ignored here. ``refused``: name, or a
    prefix that ends with a full stop -> the reason. Raises UnsupportedError."""
    for name in properties:
        reason = next((why for key, why in refused.items() if name == key or (key.endswith(".") and name.startswith(key))), None)
        if reason is not None:
            raise UnsupportedError(f"not supported: property {name}, because {reason}")
