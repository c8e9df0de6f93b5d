"""Reads the golden vectors: their type names and value notations become the package's own."""

from __future__ import annotations

import json
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

from iceberg_ops.spec import epoch
from iceberg_ops.spec.types import IcebergType, primitive_from_name
from iceberg_ops.spec.values import float32
from tests.fixture_paths import GOLDEN


def vectors(name: str) -> Any:
    """The parsed ``vectors/<name>.json``; an empty dict where the recorded tables are not there."""
    return json.loads((GOLDEN / "vectors" / f"{name}.json").read_text("utf-8")) if GOLDEN else {}


def golden_files(folder: str, pattern: str) -> list[Path]:
    """Files below a folder of the golden vectors, sorted."""
    return sorted((GOLDEN / folder).glob(pattern)) if GOLDEN else []


def golden_type(text: str) -> IcebergType:
    """A type in the vectors' notation: as in JSON, but ``fixed(4)`` may stand for ``fixed[4]``."""
    return primitive_from_name(re.sub(r"fixed\((\d+)\)", r"fixed[\1]", text))


def golden_value(type_: IcebergType, text: str) -> Any:
    """A canonical value from the vectors' notation."""
    name = str(type_).split("(")[0].split("[")[0]
    if name in ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"):
        ticks = re.fullmatch(r"(-?\d+) (?:us|ns)", text)
        if ticks:
            return int(ticks[1])
        per_second = epoch.NANOS_PER_SECOND if name.endswith("_ns") else epoch.MICROS_PER_SECOND
        return epoch.parse_timestamptz(text, per_second) if "tz" in name else epoch.parse_timestamp(text, per_second)
    if name == "date":
        return int(text.removesuffix(" days")) if text.endswith("days") else epoch.parse_date(text)
    if name == "time":
        return int(text.removesuffix(" us")) if text.endswith("us") else epoch.parse_time(text)
    return {
        "int": int,
        "long": int,
        "boolean": lambda t: t == "true",
        "float": lambda t: float32(float(t)),
        "double": float,
        "decimal": Decimal,
        "string": str,
        "uuid": uuid.UUID,
        "fixed": lambda t: bytes.fromhex(t.removeprefix("hex:")),
        "binary": lambda t: bytes.fromhex(t.removeprefix("hex:")),
    }[name](text)
