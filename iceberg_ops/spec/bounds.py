"""Shortens bounds so that they still bound (spec: "Manifests", metrics mode truncate(L)).

A lower bound is truncated; an upper bound is truncated and its last character or byte that can be incremented is incremented.
Lengths are Unicode code points for strings and bytes for binary; surrogates are not code points of their own and are skipped.
Other types are returned unchanged.
"""

from __future__ import annotations

from typing import Any

from iceberg_ops.spec.types import IcebergType, PrimitiveType

_LAST_CODE_POINT = 0x10FFFF
_FIRST_SURROGATE, _AFTER_SURROGATES = 0xD800, 0xE000


def _is_text(type_: IcebergType) -> bool:
    return isinstance(type_, PrimitiveType) and type_.name == "string"


def _is_bytes(type_: IcebergType) -> bool:
    return isinstance(type_, PrimitiveType) and type_.name in ("fixed", "binary")


def truncate_lower(type_: IcebergType, value: Any, width: int) -> Any:
    """The longest prefix of at most ``width``: never above ``value``."""
    return value[:width] if _is_text(type_) or _is_bytes(type_) else value


def truncate_upper(type_: IcebergType, value: Any, width: int) -> Any | None:
    """The smallest value of at most ``width`` that is not below ``value``; None if there is none (then no bound is stored)."""
    if _is_text(type_):
        return value if len(value) <= width else _raised_text(value[:width])
    if _is_bytes(type_):
        return value if len(value) <= width else _raised_bytes(value[:width])
    return value


def _raised_text(prefix: str) -> str | None:
    for position in range(len(prefix) - 1, -1, -1):
        code_point = ord(prefix[position]) + 1
        if _FIRST_SURROGATE <= code_point < _AFTER_SURROGATES:
            code_point = _AFTER_SURROGATES
        if code_point <= _LAST_CODE_POINT:
            return prefix[:position] + chr(code_point)
    return None


def _raised_bytes(prefix: bytes) -> bytes | None:
    for position in range(len(prefix) - 1, -1, -1):
        if prefix[position] < 0xFF:
            return prefix[:position] + bytes([prefix[position] + 1])
    return None
