"""Reading and writing the JSON and YAML documents of this package, strictly.

Unknown keys, keys given twice, wrong types and missing values are an OptionError of one line that names the document, the path or
line inside it and the rule. It quotes no value: a document may hold secrets.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
import yaml

from iceberg_ops.errors import OptionError

T = TypeVar("T")
_MERGE = "tag:yaml.org,2002:merge"
"""The tag of ``<<``, whose values a mapping's own keys may replace."""


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
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(data)
        return msgspec.convert(_content(loader, name), type=kind)
    except yaml.YAMLError as e:
        raise OptionError(f"{name}: not YAML: {_yaml_problem(e)}") from None
    except RecursionError:
        raise OptionError(f"{name}: not YAML: an alias refers to what contains it") from None
    except msgspec.ValidationError as e:
        raise OptionError(f"{name}: {e}") from None
    finally:
        if loader is not None:
            loader.dispose()


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


def _content(loader: yaml.SafeLoader, name: str) -> Any:
    """The document as lists, mappings and scalars. Raises OptionError for a key given twice: YAML would keep the last one."""
    root = loader.get_single_node()
    if root is None:
        return None
    _check_keys(loader, root, name, set())
    return loader.construct_document(root)


def _check_keys(loader: yaml.SafeLoader, node: yaml.Node, name: str, checked: set[int]) -> None:
    if id(node) in checked:
        return
    checked.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(loader, item, name, checked)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[Any, int] = {}
        for key_node, value_node in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != _MERGE:
                key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
                if key in lines:
                    raise OptionError(f"{name}: line {line}: key {key!r} is given twice, first in line {lines[key]}")
                lines[key] = line
            _check_keys(loader, value_node, name, checked)


def _yaml_problem(error: yaml.YAMLError) -> str:
    """Place and rule, without the text found there: an unquoted password may begin with a character that YAML knows."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    rule = (error.problem or "cannot be read").removeprefix("but ").partition(", but found")[0]
    rule = re.sub(r"\b(tag|alias|handle) .*", r"\1: text that begins with ! or * needs quotes", rule)
    return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {rule}"
