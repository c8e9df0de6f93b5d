"""Which texts of a catalog's properties are secrets, and texts without them.

A secret is the password of a URI (of one that cannot be parsed as well), a secret parameter of its query, and the value of a
property whose name says so (``password``, ``token``, ``s3.secret-access-key``, ...). Errors name the property, never its value.
What is written all the same, because it comes from a driver or a library, goes through ``hide`` first. A secret is hidden in each
form that programs print: as written, percent-decoded, percent-encoded, and as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
SHORTEST = 4
"""Shorter texts are not hidden: replacing every ``a`` would destroy the message and tell the secret."""

_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|\bpwd\b|secret|token|credential|authorization|connection[-_.]?string"
    r"|(private|access|api|account|service|encryption)[-_.]?key",
    re.IGNORECASE,
)
_USER_AND_PASSWORD = re.compile(r"(?P<start>[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@'\"]*:)[^\s'\"]+@")


def is_secret(name: str) -> bool:
    """Whether the name of a property says that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


def secrets_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Every secret among a catalog's properties in every form, longest first; those shorter than ``SHORTEST`` are left out."""
    found = {form for name, value in properties.items() for secret in _secrets(name, value) for form in _forms(secret)}
    return tuple(sorted((s for s in found if len(s) >= SHORTEST), key=lambda s: (-len(s), s)))


def hide(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every secret, and every password in a URI, replaced by ``***``."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return hide_passwords(text)


def hide_passwords(text: str) -> str:
    """``text`` with the passwords of URIs in it replaced by ``***``: for where the secrets themselves are not known."""
    return _USER_AND_PASSWORD.sub(rf"\g<start>{HIDDEN}@", text)


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, secrets replaced by ``***``."""
    secrets = secrets_of(properties)
    return {name: HIDDEN if is_secret(name) else hide(value, secrets) for name, value in properties.items()}


def _secrets(name: str, value: str) -> Iterator[str]:
    if is_secret(name):
        yield value
        yield from value.split(":")[1:]  # a credential may be id:secret
    scheme, separator, rest = value.partition("://")
    if not separator or scheme.partition("+")[0] == "sqlite":
        return
    # The password ends at the last @, which a query may have as well. Characters in it that are not encoded count as its own.
    address = rest.partition("?")[0]
    user, _, _ = (address if "@" in address else rest).rpartition("@")
    yield from user.partition(":")[2:]
    for key, text in parse_qsl(rest.partition("?")[2]):
        if is_secret(key):
            yield text


def _forms(secret: str) -> Iterator[str]:
    for plain in {secret, unquote(secret), unquote_plus(secret)}:
        yield plain
        for encoded in (quote(plain, safe=""), quote(plain), quote_plus(plain), quote(plain, safe=" +")):
            yield encoded
            yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
        yield json.dumps(plain)[1:-1]
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
