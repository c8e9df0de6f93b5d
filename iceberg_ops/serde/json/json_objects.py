"""Typed access to parsed JSON objects, and to their unknown keys.

Every reader of the format's JSON uses ``JsonObject``: a missing key or a value of another kind raises CorruptTableError
that names the object, the key and the rule, and ``extra()`` returns the keys that were not read, so that they survive a rewrite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from iceberg_ops.errors import CorruptTableError

T = TypeVar("T")

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def parse_json(data: bytes | str, what: str) -> Any:
    """The parsed document. Raises CorruptTableError that names ``what``."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise CorruptTableError(f"{what} is not JSON: {e}") from None


def as_long(value: Any, what: str) -> int:
    """A 64-bit integer. Raises CorruptTableError."""
    if isinstance(value, bool) or not isinstance(value, int) or not _LONG_MIN <= value <= _LONG_MAX:
        raise CorruptTableError(f"{what} is {_show(value)}: must be a 64-bit whole number")
    return value


def as_int(value: Any, what: str) -> int:
    """A 32-bit integer. Raises CorruptTableError."""
    if isinstance(value, bool) or not isinstance(value, int) or not _INT_MIN <= value <= _INT_MAX:
        raise CorruptTableError(f"{what} is {_show(value)}: must be a 32-bit whole number")
    return value


def as_text(value: Any, what: str) -> str:
    """A string. Raises CorruptTableError."""
    if not isinstance(value, str):
        raise CorruptTableError(f"{what} is {_show(value)}: must be a string")
    return value


def as_flag(value: Any, what: str) -> bool:
    """A boolean. Raises CorruptTableError."""
    if not isinstance(value, bool):
        raise CorruptTableError(f"{what} is {_show(value)}: must be true or false")
    return value


def as_list(value: Any, what: str) -> list[Any]:
    """An array. Raises CorruptTableError."""
    if not isinstance(value, list):
        raise CorruptTableError(f"{what} is {_show(value)}: must be an array")
    return value


def as_text_map(value: Any, what: str) -> dict[str, str]:
    """An object of strings; numbers and booleans in it become their text. Raises CorruptTableError."""
    if not isinstance(value, dict):
        raise CorruptTableError(f"{what} is {_show(value)}: must be an object")
    if all(type(v) is str for v in value.values()):
        return value
    return {key: _map_text(v, f"{what}.{key}") for key, v in value.items() if v is not None}


def _map_text(value: Any, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else as_text(value, what)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class JsonObject:
    """One JSON object, read key by key. ``what`` names it in messages ("snapshot", "field of schema 3")."""

    def __init__(self, value: Any, what: str) -> None:
        if not isinstance(value, dict):
            raise CorruptTableError(f"{what} is {_show(value)}: must be an object")
        self._value = value
        self._read: set[str] = set()
        self.what = what

    def has(self, key: str) -> bool:
        """Whether the key has a value other than null."""
        return self._value.get(key) is not None

    def drop(self, *keys: str) -> None:
        """Leave these keys out of ``extra``: they are known and stored elsewhere."""
        self._read.update(keys)

    def get(self, key: str, read: Callable[[Any, str], T]) -> T:
        """A required key. Raises CorruptTableError."""
        self._read.add(key)
        if key not in self._value:
            raise CorruptTableError(f"{self.what} lacks the required key {key!r}")
        return read(self._value[key], f"{self.what}.{key}")

    def maybe(self, key: str, read: Callable[[Any, str], T]) -> T | None:
        """An optional key; null counts as absent. Raises CorruptTableError for a value of another kind."""
        self._read.add(key)
        value = self._value.get(key)
        if value is None:
            return None
        return read(value, f"{self.what}.{key}")

    def optional_array(self, key: str, read: Callable[[Any], T]) -> tuple[T, ...]:
        """An optional array, each element read by ``read``; absent or null: empty."""
        return tuple(read(item) for item in self.maybe(key, as_list) or ())

    def extra(self) -> dict[str, Any]:
        """The keys that were not read."""
        return {key: value for key, value in self._value.items() if key not in self._read}


def without_none(extra: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """A JSON object of ``values`` (underscores become dashes, None is left out) followed by ``extra``."""
    document = {key.replace("_", "-"): value for key, value in values.items() if value is not None}
    for key, value in extra.items():
        document.setdefault(key, value)
    return document
