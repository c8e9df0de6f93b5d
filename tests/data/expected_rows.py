"""Comparing rows with a recorded table's expected.json: values are normalized, because readers print them differently."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

_TIMESTAMP = re.compile(r"(\d{4,}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
_TIME = re.compile(r"(\d\d:\d\d(?::\d\d)?)(\.\d+)?")


def canonical(value: Any) -> str:
    """One text per value: numbers to six digits, timestamps without zeros or zone, maps in either form."""
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int | float):
        return _number(str(value))
    if isinstance(value, list):
        if value and all(isinstance(x, list | tuple) and len(x) == 2 for x in value):
            return _pairs(value)
        return "[" + ",".join(canonical(x) for x in value) + "]"
    if isinstance(value, dict):
        if set(value) == {"keys", "values"}:
            return _pairs(list(zip(value["keys"], value["values"], strict=True)))
        return "{" + ",".join(sorted(f"{k}:{canonical(x)}" for k, x in value.items())) + "}"
    return _text(str(value).removeprefix("hex:"))


def _text(text: str) -> str:
    if m := _TIMESTAMP.fullmatch(text):
        clock = m[2] if len(m[2]) > 5 else m[2] + ":00"
        return f"{m[1]}T{clock}{(m[3] or '').rstrip('0').rstrip('.')}"
    if m := _TIME.fullmatch(text):
        return (m[1] if len(m[1]) > 5 else m[1] + ":00") + (m[2] or "").rstrip("0").rstrip(".")
    return _number(text)


def _pairs(pairs: list[Any]) -> str:
    return "{" + ",".join(sorted(f"{canonical(k)}:{canonical(x)}" for k, x in pairs)) + "}"


def _number(text: str) -> str:
    if re.fullmatch(r"-?\d+", text):
        return text
    try:
        number = float(text)
    except (ValueError, OverflowError):
        return text
    whole = abs(number) < 1e15 and number == int(number)
    return str(int(number)) if whole else f"{number:.6g}"


def multiset(rows: Iterable[Any]) -> Counter[str]:
    return Counter(canonical(row) for row in rows)
