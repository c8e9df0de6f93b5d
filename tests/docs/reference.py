"""The pages of ``docs/`` that are generated from registries: ``python -m tests.docs.reference`` writes them.

``options.md`` has every option of every action (``config.actions``), ``properties.md`` every table property
(``config.properties``). Valid values come from the parser of each option, so that a page shows which values are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from iceberg_ops.config.actions import ACTIONS, Action
from iceberg_ops.config.known_properties import PROPERTIES
from iceberg_ops.config.option_parsing import Option
from iceberg_ops.config.properties import OF_COLUMNS, Property
from iceberg_ops.config.whole_numbers import LONG_MAX

DOCS = Path(__file__).resolve().parents[2] / "docs"
_MADE = "*This page is made from the code: `python -m tests.docs.reference` writes it, and a test compares.*"
_HEADS = {
    "maintenance": "Maintenance",
    "table": "On request",
    "rows": "Row operations",
}
_UNITS = """
| unit | what is written |
|---|---|
| bytes | a whole number, or one with a unit: `536870912`, `512MB` and `512MiB` are the same |
| time or age | `2026-07-01T08:30:00Z` (UTC without an offset), milliseconds since 1970, or an age: `90m`, `36h`, `5d` |
| files, groups, commits, snapshots, tasks | how many, a whole number |
| share, to 1 | a number above 0 and at most 1 |
| names, ids | separated by commas: `region,day` |
| pairs | `from=to`, separated by commas |
| SQL | as in Spark |
| a location | a path, or a URI where the catalog's tables have URIs |
"""


def pages() -> dict[str, str]:
    """File name -> text."""
    return {"options.md": options_page(), "properties.md": properties_page()}


def options_page() -> str:
    """Every option of every action."""
    parts = [
        "# Options of every action",
        "Each is given as `--option KEY=VALUE`, under `options` in a job spec, a policy step or an operator, and is refused where "
        "the action does not have it. What the actions do is in [operations](operations.md).",
        _UNITS.strip(),
    ]
    for kind, title in _HEADS.items():
        parts.append(f"## {title}")
        parts += [_action(action) for action in ACTIONS.values() if action.kind == kind]
    parts.append(_MADE)
    return "\n\n".join(parts) + "\n"


def properties_page() -> str:
    """Every table property that is obeyed."""
    parts = [
        "# Table properties",
        "Those that iceberg-ops obeys, under Iceberg's names. `create --property`, `evolve` with `SET TBLPROPERTIES` and other "
        "engines set them. A value that is not as written here is refused; properties that only other engines obey are kept, "
        "and change nothing here. How written files follow them is in [conformance](conformance.md#properties-of-written-files).",
        _table(("property", "default", "value", "meaning"), map(_property, PROPERTIES.values())),
        "## Of one column",
        "The name ends with the column's full name: `write.metadata.metrics.column.price`.",
        _table(("property", "default", "value", "meaning"), map(_property, OF_COLUMNS.values())),
        _MADE,
    ]
    return "\n\n".join(parts) + "\n"


def rule_of(parse: Callable[[str], object]) -> str:
    """What a parser demands, in its own words; ``text`` of one that takes anything."""
    for wrong in ("-1", "0", "\N{REPLACEMENT CHARACTER}"):
        try:
            parse(wrong)
        except ValueError as e:
            return str(e).removeprefix("must be ")
    return "text"


def _action(action: Action) -> str:
    head = f"### {action.name}\n\n{action.purpose[:1].upper()}{action.purpose[1:]}. [More](operations.md#{action.name})"
    return f"{head}\n\n{_table(('option', 'unit', 'default', 'meaning'), map(_option, action.options))}"


def _option(option: Option) -> tuple[str, ...]:
    return f"`{option.name}`", option.unit, option.default, option.meaning


def _property(found: Property[object]) -> tuple[str, ...]:
    name = f"`{found.name}`" if found.name in PROPERTIES else f"`{found.name}`*column*"
    default = "not set" if found.default is None else "none" if found.default == str(LONG_MAX) else f"`{found.default}`"
    return name, default, _value(found), found.meaning


def _value(found: Property[object]) -> str:
    """The parser's rule, with the unit that the name says."""
    rule = rule_of(found.parse)
    unit = "milliseconds" if found.name.endswith("-ms") else "bytes" if "bytes" in found.name else ""
    return rule.replace("a whole number", unit) if unit else rule


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "|" + "|".join(c if c == "---" else f" {c.replace('|', chr(92) + '|')} " for c in cells) + "|" for cells in lines
    )


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
