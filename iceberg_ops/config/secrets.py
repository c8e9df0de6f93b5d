"""Decides which texts of a catalog's properties are secrets, and hides them in other texts.

A secret is the password of a URI (even if the URI cannot be parsed), a secret parameter of its query, a secret setting of a
connection string (``UID=sa;PWD=...``, also inside a URI's query, as for ODBC), and the value of a property whose name says
so (``password``, ``token``, ``s3.secret-access-key``, ...). Errors name the property, never its value.
Texts from a driver or a library may still contain a secret; they go through ``hide`` before they are written. A secret is hidden in
each form that programs print: as written, percent-decoded, percent-encoded, and as JSON.

Paths and SQL text go through ``hide_in_path`` and ``hide_in_sql``, so that partition folders (``pwd=x``) and conditions stay
visible.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
SHORTEST = 4
"""Shorter texts are not hidden: replacing every ``a`` would destroy the message and reveal the secret."""

_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|signature|secret|token|credential|authorization|connection[-_.]?string"
    r"|(?<![a-z])(pwd|pass|sig|sas)(?![a-z])|(?-i:(?<=[a-z])(Pwd|Pass|Sig|Sas)(?![a-z]))"
    r"|(private|access|api|account|service|encryption|decryption|sse|shared)[-_.]?key",
    re.IGNORECASE,
)
_BOOLEANS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null"})
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_ABOUT = re.compile(r"enabled|interval|expir|timeout|lifetime|duration|length|refresh(?![-_.]?token)", re.IGNORECASE)
_MEASURES, _UNITS = frozenset({"max", "min", "size", "count"}), frozenset({"ms", "s"})
"""Names of numbers about secrets: ``token-expires-in-ms``, ``maxTokenSize``. Short ones count only as whole words, and units only
at the end: ``admin.password`` and ``account-key`` contain them. Other numbers may be passwords."""
_PLAIN_HEADER = re.compile(
    r"[.-](accept(-\w+)?|content-type|user-agent|(tenant|project|user|org|organi[sz]ation|account|realm|region)(-(id|name))?"
    r"|delegation|env|environment|stage|team|app|application|catalog|warehouse|version|host)\Z",
    re.IGNORECASE,
)
"""Headers whose value is a name, as ``header.x-goog-user-project``: tables and folders may have the same name."""
_WORD_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_COMMON_WORD = re.compile(r"[a-z]{1,7}")
"""Hiding a weak password that is a word would also hide folders and columns (``data``): paths and SQL keep it."""
_PORT = re.compile(r"[0-9]{1,5}(?![^,])")

_INNER_QUOTES = r"['\"]{1,3}(?=[^\s,:;&)\]}>'\"])"
"""Quotes that may belong to a password: quotes around a text are followed by its end, a comma, a bracket or similar."""
_WORD = re.compile(rf"(?:[^\s'\"]|{_INNER_QUOTES})+")
"""A possible URI. These patterns, and those below, take time proportional to the text, however long its words are."""
_UP_TO_PASSWORD = re.compile(r"://[^:/]*:")
"""A user name may contain an @, as in mail addresses."""
_PARAMETER = re.compile(r"(?:[?&;#]|%3B|%26)([\w.-]{1,64})(?:\[\w{0,20}\])?(?:=|%3D)", re.IGNORECASE)
"""The name of a parameter of a URI's query or fragment, or of a setting of a connection string in one."""
_VALUE = re.compile(rf"(?:[^\s&'\"]|{_INNER_QUOTES})*")
"""The value of a parameter ends with the word."""

_QUOTED = r"\{(?:[^}]|\}\}){0,500}\}|'(?:[^'\\]|\\.){0,500}'|\"[^\"]{0,500}\""
_SETTING_OF_ODBC = re.compile(rf"(?<![/\w.])([A-Za-z][\w .-]{{0,64}}?)\s*=\s*({_QUOTED}|[^;]*)")
_SETTING = re.compile(rf"(?<![/\w.])([A-Za-z][\w.-]{{0,128}})\s*=\s*({_QUOTED}|[^&\s]*)")
"""``name=value`` of a connection string: ODBC's with ``;`` between (``{}`` around a value), libpq's with spaces (``''`` around).
A name after a slash belongs to a partition folder."""
_PASSWORD_SETTING = re.compile(rf"(?<![/\w.-])((?:ssl)?passw(?:or)?d|pwd|passphrase)=({_QUOTED}|{_VALUE.pattern})", re.IGNORECASE)
"""A password in a connection string in a message. Other names may be columns in a condition."""
_BEFORE_CONDITION = re.compile(r"\b(?:where|and|or|not|set|on|when|having)[\s(]+$", re.IGNORECASE)
_AFTER_CONDITION = re.compile(r"\)*\s+(?:and|or)\s", re.IGNORECASE)
"""SQL around ``pwd='x'``, which does not occur in connection strings."""
_URI_BEGINS = re.compile(r"(?<![A-Za-z0-9+.-])(?=[A-Za-z][A-Za-z0-9+.-]{0,40}://)")
_AFTER_URI = ")]},;"
"""Characters that SQL may have directly after a URI, besides a back quote."""
_PART_OF_SQL = re.compile(r"`([^`]*)`|'(?:[^'\\]|\\.)*+'?|\"(?:[^\"\\]|\\.)*+\"?", re.DOTALL)
"""A name in back quotes, which may be a location with spaces, or a string literal."""
_HADOOP = ("hdfs", "viewfs")
"""File systems whose locations have a port but no password."""
_SQLITE_PASSWORD = re.compile(r"[^:/]*:([^@]*)@")
"""SQLAlchemy's rule: a path may contain a colon and an @, a user name no slash."""


def is_secret(name: str) -> bool:
    """Whether the name of a property shows that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


def is_secret_setting(name: str, value: str) -> bool:
    """Whether a property's name marks it as a secret. ``token-refresh-enabled=true`` is not a secret, nor are numbers about one. A
    header of a REST catalog is a secret unless its name shows otherwise."""
    if value.lower() in _BOOLEANS:
        return False
    if name.startswith("header."):
        return is_secret(name) or _PLAIN_HEADER.search(name) is None
    if not is_secret(name):
        return False
    return _NUMBER.fullmatch(value) is None or not _is_measure(name)


def _is_measure(name: str) -> bool:
    """Whether the name, which contains that of a secret, is for a number about it."""
    words = [word.lower() for word in _WORD_OF_NAME.findall(name)]
    return _ABOUT.search(name) is not None or not _MEASURES.isdisjoint(words) or not _UNITS.isdisjoint(words[-1:])


def holds_secret(name: str, value: str) -> bool:
    """Whether a property is a secret by its name, or contains one in its value (for example the password of a URI)."""
    return is_secret_setting(name, value) or without_secrets({name: value})[name] != value


def secrets_in_properties(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Every secret among a catalog's properties in every form, longest first; without those shorter than ``SHORTEST``, and
    without ``true`` and similar values."""
    forms = {form for name, value in properties.items() for secret in _secrets(name, value) for form in _forms(secret)}
    return longest_first(filter(_is_recognisable, forms))


def longest_first(secrets: Iterable[str]) -> tuple[str, ...]:
    """Each once. A secret that contains another comes before it, so that it is hidden completely."""
    return tuple(sorted(set(secrets), key=lambda s: (-len(s), s)))


def _is_recognisable(secret: str) -> bool:
    return len(secret) >= SHORTEST and secret.lower() not in _BOOLEANS


def secrets_in(value: Any) -> tuple[str, ...]:
    """Every secret in a document of mappings, lists and texts, such as a job's source: those of ``properties``, which are a
    catalog's, of ``options``, which may be settings of a store, and of URIs in texts. Other text is SQL: ``token = 'x'`` is a
    condition."""
    if isinstance(value, Mapping):
        named = [part for key in ("properties", "options") if isinstance(part := value.get(key), Mapping)]
        credentials = [
            s for part in named for s in secrets_in_properties({str(k): v for k, v in part.items() if isinstance(v, str)})
        ]
        return (*credentials, *(s for part in value.values() for s in secrets_in(part)))
    if isinstance(value, list | tuple):
        return tuple(s for part in value for s in secrets_in(part))
    if not isinstance(value, str) or "://" not in value:
        return ()
    places = [part for word in _WORD.findall(value) for part in _URI_BEGINS.split(word) if "://" in part]
    if _URI_BEGINS.match(value):
        places.append(value)  # a path may have spaces and quotes
    else:
        places += [name for name in _PART_OF_SQL.findall(value) if _URI_BEGINS.match(name)]
    credentials = [secret for place in places for secret in _secrets_in_path(place)]
    credentials += [secret.partition("`")[0].rstrip(_AFTER_URI) for secret in credentials]
    return longest_first(form for secret in credentials for form in _forms(secret) if _is_recognisable(form))


def hide(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every secret, and every secret in a URI, replaced by ``***``."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return hide_passwords(text)


def hide_in_path(path: str, secrets: Iterable[str]) -> str:
    """A location without secrets: the known ones, the password of its authority, and those of its query."""
    return _without_its_own(_without_known(path, secrets))


def _without_its_own(path: str) -> str:
    if (span := _password_in_path(path)) is not None:
        path = f"{path[: span[0]]}{HIDDEN}{path[span[1] :]}"
    query = re.search(r"[?#]", path)
    return path if query is None else path[: query.start()] + _without_parameters(path[query.start() :])


def hide_in_sql(text: str, secrets: Iterable[str]) -> str:
    """SQL without secrets: the known ones, and the passwords of URIs in it. ``pwd = 'x'`` is a condition."""
    return _WORD.sub(_without_uri_secrets, _PART_OF_SQL.sub(_without_name_secrets, _without_known(text, secrets)))


def _without_name_secrets(part: re.Match[str]) -> str:
    return f"`{_without_its_own(part[1])}`" if part[1] and _URI_BEGINS.match(part[1]) else part[0]


def _without_uri_secrets(word: re.Match[str]) -> str:
    return "".join(_without_its_own(part) if "://" in part else part for part in _URI_BEGINS.split(word[0]))


def hide_passwords(text: str) -> str:
    """``text`` with the passwords and secret parameters of URIs in it replaced by ``***``: for code that does not know the
    secrets."""
    return _PASSWORD_SETTING.sub(_without_value, _without_parameters(_WORD.sub(_without_password, text)))


Secrets = Callable[[], Iterable[str]]
"""Returns the known secrets; called when there is text to hide them in."""


class HidingFormatter(logging.Formatter):
    """Formats log lines, tracebacks included, without the passwords and secret parameters of URIs, and without the known
    secrets."""

    def __init__(self, form: str | None = None, *, secrets: Secrets = tuple) -> None:
        super().__init__(form)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return hide(super().format(record), self._secrets())


def hide_in_logs(secrets: Secrets = tuple) -> None:
    """Hide them in the log lines that a process without handlers writes to standard error."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(HidingFormatter(secrets=secrets))


def _without_password(word: re.Match[str]) -> str:
    """The password is between the first ``://user:`` and the last @."""
    text = word[0]
    end = text.rfind("@")
    for start in _UP_TO_PASSWORD.finditer(text, 0, max(end, 0)):
        is_port = text.endswith(_HADOOP, 0, start.start()) and _PORT.match(text[start.end() : start.end() + 7].partition("/")[0])
        if start.end() < end and not is_port:
            return f"{text[: start.end()]}{HIDDEN}{text[end:]}"
    return text


def _without_known(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if _COMMON_WORD.fullmatch(secret) is None:
            text = text.replace(secret, HIDDEN)
    return text


def _password_in_path(path: str) -> tuple[int, int] | None:
    """Where the password of a location's authority is: up to the first slash, or after it if the text before is not a port."""
    begun = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://[^:/?#]*:", path)
    if begun is None:
        return None
    authority = path[begun.end() :].partition("/")[0]
    if "@" in authority:
        return begun.end(), begun.end() + authority.rindex("@")
    end = path.find("@", begun.end())
    return None if end < 0 or _PORT.match(authority) is not None else (begun.end(), end)


def _secrets_in_path(path: str) -> Iterator[str]:
    if (span := _password_in_path(path)) is not None:
        yield path[slice(*span)]
    for key, text in parse_qsl(re.split(r"[?#]", path, maxsplit=1)[1] if re.search(r"[?#]", path) else ""):
        if is_secret_setting(key, text):
            yield text
        yield from _settings(text)


def _without_value(setting: re.Match[str]) -> str:
    text = setting.string
    if setting[2].startswith("'") and (
        _BEFORE_CONDITION.search(text, max(0, setting.start() - 20), setting.start()) or _AFTER_CONDITION.match(text, setting.end())
    ):
        return setting[0]
    return f"{setting[1]}={HIDDEN}" if setting[2] else setting[0]


def _without_parameters(text: str) -> str:
    pieces: list[str] = []
    done = 0
    for name in _PARAMETER.finditer(text):
        if name.start() < done or not is_secret(name[1]):
            continue
        value = _VALUE.match(text, name.end())
        if value is not None and value[0]:
            pieces += [text[done : name.end()], HIDDEN]
            done = value.end()
    return "".join([*pieces, text[done:]])


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, secrets replaced by ``***``."""
    secrets = secrets_in_properties(properties)
    return {name: HIDDEN if is_secret_setting(name, value) else hide(value, secrets) for name, value in properties.items()}


def _secrets(name: str, value: str) -> Iterator[str]:
    if is_secret_setting(name, value):
        yield value
        yield from value.split(":")[1:]  # a credential may be id:secret
    yield from _settings(value)
    scheme, separator, rest = value.partition("://")
    if not separator:
        return
    for key, text in parse_qsl(rest.partition("?")[2]):
        if is_secret(key):
            yield text
        yield from _settings(text)
    if scheme.partition("+")[0] == "sqlite":
        if (match := _SQLITE_PASSWORD.match(rest)) is not None:
            yield match[1]
        return
    # The password ends at the last @, which a query may also contain. Unencoded characters in it count as part of it.
    address = rest.partition("?")[0]
    user, _, _ = (address if "@" in address else rest).rpartition("@")
    yield from user.partition(":")[2:]


def _settings(text: str) -> Iterator[str]:
    """Values of secret settings in a connection string, as written and without the quotes around them."""
    for name, value in (_SETTING_OF_ODBC if ";" in text else _SETTING).findall(text):
        if value and is_secret(name):
            yield value
            if value[0] in "{'\"":
                plain = value[1:-1]
                yield plain.replace("}}", "}") if value[0] == "{" else re.sub(r"\\(.)", r"\1", plain)


def _forms(secret: str) -> Iterator[str]:
    for plain in {secret, unquote(secret), unquote_plus(secret)}:
        yield plain
        for encoded in (quote(plain, safe=""), quote(plain), quote_plus(plain), quote(plain, safe=" +")):
            yield encoded
            yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
        yield json.dumps(plain)[1:-1]
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
