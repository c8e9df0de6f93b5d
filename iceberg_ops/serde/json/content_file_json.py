"""Data and delete files <-> JSON values, to send them to another process.

This is the package's own form, not the REST one: it keeps every canonical value (spec.types) exactly without needing its type.
Counts are objects keyed by field id as text, binary values base64. Partition values without a JSON form carry a tag:
``{"float": hex}``, ``{"decimal": text}``, ``{"bytes": base64}``, ``{"uuid": text}``.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from iceberg_ops.errors import DataError
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_PLAIN = ("sort_order_id", "first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes")
_ARRAYS = ("split_offsets", "equality_ids")


def data_file_to_dict(f: DataFile) -> dict[str, Any]:
    """JSON values of a file; None and empty values are left out."""
    document: dict[str, Any] = {
        "content": int(f.content),
        "file_path": f.file_path,
        "file_format": f.file_format.value,
        "spec_id": f.spec_id,
        "partition": partition_to_json(f.partition),
        "record_count": f.record_count,
        "file_size_in_bytes": f.file_size_in_bytes,
    }
    for name in _COUNTS:
        if (counts := getattr(f, name)) is not None:
            document[name] = {str(k): v for k, v in counts.items()}
    for name in _BOUNDS:
        if (bounds := getattr(f, name)) is not None:
            document[name] = {str(k): _to_base64(v) for k, v in bounds.items()}
    for name in _ARRAYS:
        if (items := getattr(f, name)) is not None:
            document[name] = list(items)
    for name in _PLAIN:
        if (value := getattr(f, name)) is not None:
            document[name] = value
    if f.key_metadata is not None:
        document["key_metadata"] = _to_base64(f.key_metadata)
    return document


def data_file_from_dict(d: Mapping[str, Any]) -> DataFile:
    """The file that ``data_file_to_dict`` described. Raises DataError."""
    try:
        optional: dict[str, Any] = {name: d.get(name) for name in _PLAIN}
        optional |= {name: {int(k): v for k, v in d[name].items()} for name in _COUNTS if name in d}
        optional |= {name: {int(k): _from_base64(v) for k, v in d[name].items()} for name in _BOUNDS if name in d}
        optional |= {name: tuple(d[name]) for name in _ARRAYS if name in d}
        return DataFile(
            content=FileContent(d["content"]),
            file_path=d["file_path"],
            file_format=FileFormat(d["file_format"]),
            spec_id=d["spec_id"],
            partition=partition_from_json(d["partition"]),
            record_count=d["record_count"],
            file_size_in_bytes=d["file_size_in_bytes"],
            key_metadata=_from_base64(d["key_metadata"]) if "key_metadata" in d else None,
            **optional,
        )
    except (KeyError, ValueError, TypeError, AttributeError, InvalidOperation) as e:
        raise DataError(f"content file in JSON is malformed: {type(e).__name__} {e}") from None


def partition_to_json(partition: Iterable[Any]) -> list[Any]:
    """A partition tuple as a JSON array. Raises DataError for a value that is not a canonical primitive."""
    return [value_to_json(v) for v in partition]


def partition_from_json(values: Iterable[Any]) -> tuple[Any, ...]:
    """The tuple that ``partition_to_json`` wrote. Raises ValueError or KeyError for other JSON."""
    return tuple(value_from_json(v) for v in values)


def value_to_json(value: Any) -> Any:
    """A canonical primitive value as JSON, tagged if JSON has no exact form. Raises DataError for anything else."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": _to_base64(value)}
    if isinstance(value, uuid.UUID):
        return {"uuid": str(value)}
    raise DataError(f"a {type(value).__name__} is not a canonical primitive value: {value!r}")


def value_from_json(value: Any) -> Any:
    """The value that ``value_to_json`` wrote. Raises ValueError or KeyError for other JSON."""
    if not isinstance(value, dict):
        return value
    ((tag, text),) = value.items()
    return _TAGS[tag](text)


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise ValueError(f"{text!r} is not base64: {e}") from None


_TAGS: Mapping[str, Callable[[str], Any]] = {"float": float.fromhex, "decimal": Decimal, "bytes": _from_base64, "uuid": uuid.UUID}
