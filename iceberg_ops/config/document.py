"""Reading and writing the JSON and YAML documents of this package, strictly.

Unknown keys, wrong types and missing values are an OptionError of one line that names the document, the path inside it and
the rule.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import yaml

from iceberg_ops.errors import OptionError

T = TypeVar("T")


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab", omit_defaults=True):
    """Base of all documents: immutable, kebab-case keys, unknown keys refused, defaults left out when written."""


def from_json(data: bytes | str, kind: type[T], name: str) -> T:
    """Parse JSON into a document; ``name`` (a path, say) leads the error message. Raises OptionError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as e:
        raise OptionError(f"{name}: {e}") from None


def from_yaml(data: bytes | str, kind: type[T], name: str) -> T:
    """Parse YAML into a document. Raises OptionError."""
    try:
        return msgspec.convert(yaml.safe_load(data), type=kind)
    except yaml.YAMLError as e:
        raise OptionError(f"{name}: not YAML: {e}") from None
    except msgspec.ValidationError as e:
        raise OptionError(f"{name}: {e}") from None


def to_json(document: Any) -> bytes:
    """JSON with stable key order, two-space indent and a final newline. Bytes of file names that are no UTF-8 are escaped."""
    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_printable(msgspec.to_builtins(document)))
    return msgspec.json.format(data, indent=2) + b"\n"


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_printable(v) for v in value]
    return {_printable(k): _printable(v) for k, v in value.items()} if isinstance(value, dict) else value
