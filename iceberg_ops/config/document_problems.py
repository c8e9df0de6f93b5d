"""Finds all problems of a document's structure, and the line of each in its text.

Parsing (``document``) ends with the first problem. A check of a document should report all of them in one run.
"""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from iceberg_ops.config.document import read_yaml
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.config.plurals import counted
from iceberg_ops.errors import OptionError

T = TypeVar("T")
_ENDS = (".", "[", ":")


def whole_document(data: bytes | str, kind: type[T], name: str) -> T:
    """Parse YAML into a document. Raises OptionError with the line, the path and the rule of the first problem."""
    content = read_yaml(data, name)
    shape = ShapeProblems()
    right = shape.right_parts({} if content is None else content, kind)
    if shape.problems:
        (line, problem), *others = with_lines(data, shape.problems)
        more = f" ({counted(len(others), 'more problem')} below)" if others else ""
        raise OptionError(f"{name}:{line}: {problem}{more}")
    try:
        return msgspec.convert(right, type=kind)
    except (msgspec.ValidationError, OptionError) as e:
        raise OptionError(f"{name}: {e}") from None


class ShapeProblems:
    """The problems of a value's structure. ``found``: a path and a rule for each unknown or missing key, and for each
    value of a wrong type."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def right_parts(self, value: Any, kind: Any, path: str = "") -> Any:
        """``value`` without the wrong parts; ``msgspec.UNSET`` if nothing is left."""
        origin, parts = get_origin(kind), [p for p in get_args(kind) if p is not type(None)]
        if origin in (Union, types.UnionType) and len(parts) == 1 and value is not None:
            return self.right_parts(value, parts[0], path)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, Mapping):
            return self._struct(value, {f.encode_name: f for f in msgspec.structs.fields(kind)}, path)
        if origin is dict and isinstance(value, Mapping):
            pairs = ((name, self._keyed(name, inner, parts[1], path)) for name, inner in value.items())
            return {name: inner for name, inner in pairs if inner is not msgspec.UNSET}
        if origin is list and isinstance(value, list):
            items = (self.right_parts(inner, parts[0], f"{path}[{i}]") for i, inner in enumerate(value))
            return [inner for inner in items if inner is not msgspec.UNSET]
        try:
            msgspec.convert(value, type=kind)
        except msgspec.ValidationError as e:
            rule = _plain(str(e).partition(" - at ")[0])
            choices = f"must be one of {', '.join(map(str, parts))}" if origin is Literal else f"{rule[:1].lower()}{rule[1:]}"
            return self._wrong(path or "the document", choices)
        return value

    def _struct(self, value: Mapping[Any, Any], fields: Mapping[str, msgspec.structs.FieldInfo], path: str) -> Any:
        before = len(self.problems)
        right = {}
        for name, inner in value.items():
            if name not in fields:
                hint = ". Properties go below 'properties'" if "properties" in fields else ""
                near = did_you_mean(str(name), fields)
                self._wrong(_below(path, name), f"unknown key{near}: the keys are {', '.join(fields)}{hint}")
            elif (part := self.right_parts(inner, fields[name].type, _below(path, name))) is not msgspec.UNSET:
                right[name] = part
        required = [name for name, f in fields.items() if f.required]
        for name in (name for name in required if name not in value):
            self._wrong(path or "the document", f"key {name!r} is missing")
        is_whole = len(self.problems) == before or all(name in right for name in required)
        return right if is_whole else msgspec.UNSET

    def _keyed(self, name: object, inner: Any, kind: Any, path: str) -> Any:
        if not isinstance(name, str):
            return self._wrong(_below(path, name), "a key must be text: put it in quotes")
        return self.right_parts(inner, kind, _below(path, name))

    def _wrong(self, path: str, rule: str) -> Any:
        self.problems.append(f"{path}: {rule}")
        return msgspec.UNSET


def _plain(rule: str) -> str:
    """Replaces msgspec's JSON terms with those of YAML."""
    expected = re.match(r"Expected `(array|object)", rule)
    if expected is None:
        return rule
    return "must be a list: every item begins with '- '" if expected[1] == "array" else "must be a mapping of keys to values"


def with_lines(data: bytes | str, problems: Collection[str]) -> list[tuple[int, str]]:
    """Each problem with the line, from 1, of the deepest key or item on its path, in the order of the lines;
    problems of the whole document come last. ``data``: YAML that can be read."""
    root = yaml.compose(data, Loader=yaml.SafeLoader)
    return sorted(((_find_line(root, problem), problem) for problem in problems), key=lambda at: (at[0] == 1, *at))


def _find_line(node: yaml.Node | None, problem: str) -> int:
    line, rest = 1, problem
    while node is not None:
        inner, taken = _inner(node, rest)
        if inner is None:
            return line
        node, line = inner
        rest = rest[taken:].removeprefix(".")
    return line


def _inner(node: yaml.Node, rest: str) -> tuple[tuple[yaml.Node, int] | None, int]:
    """The node for the path ``rest`` within ``node``, with the line where it begins, and the length of the matched part. Names may
    contain dots: the longest match counts."""
    if isinstance(node, yaml.SequenceNode) and rest.startswith("["):
        index, closed, _ = rest[1:].partition("]")
        if closed and index.isdecimal() and int(index) < len(node.value):
            item = node.value[int(index)]
            return (item, item.start_mark.line + 1), len(index) + 2
    if isinstance(node, yaml.MappingNode):
        named = [(key, value) for key, value in node.value if rest.startswith(key.value) and _ends(rest[len(key.value) :])]
        if named:
            key, value = max(named, key=lambda pair: len(pair[0].value))
            return (value, key.start_mark.line + 1), len(key.value)
    return None, 0


def _ends(rest: str) -> bool:
    return not rest or rest.startswith(_ENDS)


def _below(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
