"""Reading and writing the JSON and YAML documents of this package, strictly.

Unknown keys, repeated keys, wrong types, missing values and text that is not valid Unicode are an OptionError of one line that
names the document, the path or line inside it and the rule. It quotes no value, because a document may hold secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import yaml

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.config.whole_numbers import LONG_MAX
from iceberg_ops.errors import OptionError

T = TypeVar("T")
_Loader = yaml.SafeLoader | yaml.BaseLoader
_MERGE = "tag:yaml.org,2002:merge"
"""The tag of ``<<``, whose values a mapping's own keys may override."""
_CONSTRUCTION = (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError)
"""PyYAML's exceptions, besides its own errors, for text that is not a value of its type: 30 February, ``0x_``, ``!!bool maybe``."""

_MOST_REPEATED = 100_000
"""Nodes that aliases and merge keys may add to the written ones: ten short lines can expand to millions."""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab", omit_defaults=True):
    """Base of all documents: immutable, kebab-case keys, unknown keys refused, defaults left out when written."""


def from_json(data: bytes | str, kind: type[T], name: str) -> T:
    """Parse JSON into a document; the error message starts with ``name`` (for example a path). Raises OptionError."""
    try:
        decoded = msgspec.json.decode(data, type=kind)
        json.loads(data, object_pairs_hook=_no_key_twice, parse_int=str, parse_float=str)
    except UnicodeDecodeError as e:
        raise OptionError(f"{name}: is not UTF-8 text: {e.reason}") from None
    except RecursionError:
        raise OptionError(f"{name}: lists and objects are nested too deeply") from None
    except (msgspec.DecodeError, OptionError) as e:
        raise OptionError(f"{name}: {e}") from None
    return decoded


def from_yaml(data: bytes | str, kind: type[T], name: str) -> T:
    """Parse YAML into a document. Raises OptionError."""
    content = read_yaml(data, name)
    try:
        return msgspec.convert(content, type=kind)
    except RecursionError:
        raise OptionError(f"{name}: lists and mappings are nested too deeply") from None
    except msgspec.ValidationError as e:
        raise OptionError(f"{name}: {e}") from None


def read_yaml(data: bytes | str, name: str) -> Any:
    """YAML as lists, mappings and scalars. Raises OptionError."""
    return _read_yaml(data, name, yaml.SafeLoader)


def read_yaml_texts(data: bytes | str, name: str) -> Any:
    """YAML as lists, mappings and texts: ``yes`` and ``010`` stay what they are. Raises OptionError."""
    return _read_yaml(data, name, yaml.BaseLoader)


def _read_yaml(data: bytes | str, name: str, kind: type[yaml.SafeLoader] | type[yaml.BaseLoader]) -> Any:
    loader: _Loader | None = None
    try:
        loader = kind(data)
        return _content(loader)
    except yaml.YAMLError as e:
        raise OptionError(f"{name}: not YAML: {_yaml_problem(e)}") from None
    except RecursionError:
        raise OptionError(f"{name}: lists and mappings are nested too deeply") from None
    except OptionError as e:
        raise OptionError(f"{name}: {e}") from None
    finally:
        if loader is not None:
            loader.dispose()


def to_json(document: Any) -> bytes:
    """JSON with stable key order, two-space indent and a final newline. Bytes of file names that are not UTF-8 are escaped."""
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


def _no_key_twice(pairs: list[tuple[str, Any]]) -> None:
    """Raise OptionError for a repeated key in one JSON object: the parser would keep the last one."""
    keys = set()
    for key, _ in pairs:
        if key in keys:
            raise OptionError(f"key {key!r} is given twice")
        keys.add(key)


def _content(loader: _Loader) -> Any:
    """The document as lists, mappings and scalars. Raises OptionError for a repeated key, of which YAML would keep the last one,
    and for a scalar that is not a value of its type."""
    root = loader.get_single_node()
    if root is None:
        return None
    _check_size(root)
    _check_nodes(loader, root, set())
    return _constructed(root, lambda: loader.construct_document(root))


def _check_size(root: yaml.Node) -> None:
    """Raise OptionError for a document that is far larger, or infinite, after its aliases are followed."""
    sizes: dict[int, int] = {}
    if _size(root, sizes) - len(sizes) > _MOST_REPEATED:
        raise OptionError(f"aliases and merge keys repeat more than {_MOST_REPEATED:,} values: write fewer of them")


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Nodes in a node; those of its aliases count each time. ``sizes``: the sizes of counted nodes, by identity; 0 for those that
    are being counted. Raises OptionError for a node that contains itself."""
    if sizes.get(id(node)) == 0:
        raise OptionError(f"line {_line(node)}: an alias refers to what contains it")
    if id(node) not in sizes:
        inside: Any = ()
        if isinstance(node, yaml.SequenceNode):
            inside = node.value
        elif isinstance(node, yaml.MappingNode):
            inside = (part for pair in node.value for part in pair)
        sizes[id(node)] = 0
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in inside)
    return sizes[id(node)]


def _check_nodes(loader: _Loader, node: yaml.Node, checked: set[int]) -> None:
    if id(node) in checked:
        return
    checked.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        _check_scalar(loader, node)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_nodes(loader, item, checked)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[Any, int] = {}
        for key_node, value_node in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != _MERGE:
                key, line = _check_scalar(loader, key_node), _line(key_node)
                if key in lines:
                    raise OptionError(f"line {line}: key {key!r} is given twice, first in line {lines[key]}")
                lines[key] = line
            _check_nodes(loader, value_node, checked)


def _check_scalar(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """The scalar's value. Raises OptionError for a value that its type does not have, for a number that no option can hold (Python
    refuses to print thousands of digits), and for text that is not valid Unicode."""
    if not is_unicode(node.value):
        raise OptionError(f"line {_line(node)}: text with half of a surrogate pair is not Unicode")
    scalar = _constructed(node, lambda: loader.construct_object(node, deep=True))
    if isinstance(scalar, int) and not -LONG_MAX - 1 <= scalar <= LONG_MAX:
        raise OptionError(f"line {_line(node)}: a whole number beyond 64 bits: put it in quotes if it is text")
    return scalar


def _constructed(node: yaml.Node, construct: Callable[[], Any]) -> Any:
    try:
        return construct()
    except _CONSTRUCTION:
        kind = node.tag.rpartition(":")[2]
        raise OptionError(f"line {_line(node)}: reads as a YAML {kind} but is not valid: put text in quotes") from None


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _yaml_problem(error: yaml.YAMLError) -> str:
    """Place and rule, without the text found there: an unquoted password may begin with a special character of YAML."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    rule = (error.problem or "cannot be read").removeprefix("but ").partition(", but found")[0]
    rule = re.sub(r"\b(tag|alias|handle) .*", r"\1: text that begins with ! or * needs quotes", rule)
    return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {rule}"
