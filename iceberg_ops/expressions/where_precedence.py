"""Refuses conditions with two adjacent comparisons without AND, OR or parentheses between them.

In Spark all comparisons have one precedence, from left to right, and tests (IN, BETWEEN, LIKE, IS) may have comparisons as
operands: ``a = b >= c`` is ``(a = b) >= c`` and ``a = b IS NULL`` is ``(a = b) IS NULL``. Other forms are invalid SQL there
(``a IS NULL = b``, ``a = NOT b``). The parser in use has other precedences, so such a condition must be written with parentheses. A
comma without a following argument is also refused. Subqueries are left to the engine and are not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from iceberg_ops.errors import WhereError

_COMPARISONS = frozenset({"EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NULLSAFE_EQ"})
_TESTS = frozenset({"BETWEEN", "IN", "LIKE", "RLIKE", "ILIKE", "IS", "GLOB", "SIMILAR_TO", "ISNULL", "NOTNULL"})
_OPENING, _CLOSING = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE"}), frozenset({"R_PAREN", "R_BRACKET", "R_BRACE"})
_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES"})
_CASE_WORDS = frozenset({"WHEN", "THEN", "ELSE"})
_SEPARATORS = frozenset({"COMMA", "ARROW", "FARROW"})
_NOT_OPERANDS = (
    _COMPARISONS | _OPENING | _SEPARATORS | _CASE_WORDS | {"NOT", "AND", "OR", "CASE", "BETWEEN", "PLUS", "DASH", "STAR", "SLASH"}
)
"""An operand begins after one of these, so a test's keyword there is the name of a column or function."""
_CASTS = frozenset({"CAST", "TRY_CAST"})
_NESTED_TYPES = frozenset({"ARRAY", "MAP", "STRUCT"})


@dataclass(slots=True)
class _Level:
    """The part between two parentheses, or between CASE and END. ``operator`` is the comparison since the last AND, OR or comma."""

    kind: str = ""
    skipped: bool = False
    operator: str | None = None
    betweens: int = 0
    tokens: int = 0

    def begin(self) -> None:
        self.operator, self.betweens = None, 0


@dataclass(slots=True)
class _Walk:
    text: str
    tokens: Sequence[Any]
    levels: list[_Level] = field(default_factory=lambda: [_Level()])

    def kind(self, place: int) -> str:
        return str(self.tokens[place].token_type.name) if 0 <= place < len(self.tokens) else ""

    def run(self) -> None:
        place = 0
        while place < len(self.tokens):
            place = self.step(place)

    def step(self, place: int) -> int:
        """Check one token. Returns the index of the next one to check."""
        kind, level = self.kind(place), self.levels[-1]
        level.tokens += 1
        if kind in _OPENING:
            self.levels.append(self._opened(place, level))
        elif kind in _CLOSING:
            self._close(place)
        elif level.skipped:
            pass
        elif level.tokens == 1 and level.kind == "paren" and kind in _QUERIES and self.kind(place + 1) != "R_PAREN":
            level.skipped = True
        elif self.kind(place - 1) == "DOT":
            pass  # the rest of a name
        elif kind == "DCOLON":
            return self._after_type(place + 1)
        else:
            self._word(place, kind, level)
        return place + 1

    def _opened(self, place: int, level: _Level) -> _Level:
        called = self.tokens[place - 1].text.upper() if place else ""
        return _Level("cast" if called in _CASTS else "paren", skipped=level.skipped)

    def _close(self, place: int) -> None:
        if self.kind(place - 1) == "COMMA":
            raise WhereError(f"cannot parse {self.text!r}: nothing follows the last comma in parentheses")
        while len(self.levels) > 1 and self.levels.pop().kind == "case":
            pass

    def _after_type(self, place: int) -> int:
        """The index after a type, whose ``<`` and ``>`` are not comparisons."""
        if self.kind(place) not in _NESTED_TYPES or self.kind(place + 1) != "LT":
            return place + 1
        depth, place = 1, place + 2
        while depth and place < len(self.tokens):
            depth += {"LT": 1, "GT": -1}.get(self.kind(place), 0)
            place += 1
        return place

    def _word(self, place: int, kind: str, level: _Level) -> None:
        if kind == "ALIAS" and level.kind == "cast":
            level.skipped = True
        elif kind == "CASE":
            self.levels.append(_Level("case"))
        elif kind == "END" and level.kind == "case":
            self.levels.pop()
        elif kind == "AND" and level.betweens:
            level.betweens -= 1
        elif kind in ("AND", "OR") or kind in _SEPARATORS or (kind in _CASE_WORDS and level.kind == "case"):
            level.begin()
        elif kind == "NOT":
            self._negation(place, level)
        elif kind in _COMPARISONS or (kind in _TESTS and self._has_operand(place)):
            self._operator(place, kind, level)

    def _has_operand(self, place: int) -> bool:
        before = self.kind(place - 1)
        if before == "NOT":
            before = self.kind(place - 2)
        return before != "" and before not in _NOT_OPERANDS

    def _negation(self, place: int, level: _Level) -> None:
        """``NOT`` before an operand: Spark allows it only at the beginning of a condition."""
        belongs_to_test = self.kind(place + 1) in _TESTS and self._has_operand(place)
        if level.operator is not None and self.kind(place - 1) != "IS" and not belongs_to_test:
            raise self._unclear(level.operator, self.tokens[place].text)

    def _operator(self, place: int, kind: str, level: _Level) -> None:
        text = self.tokens[place].text
        if level.operator is not None:
            raise self._unclear(level.operator, text)
        level.operator = text
        level.betweens += kind == "BETWEEN"

    def _unclear(self, first: str, second: str) -> WhereError:
        return WhereError(
            f"cannot parse {self.text!r}: {first} and {second} follow each other without AND or OR: write parentheses around "
            "the comparison that comes first"
        )


def check_operators(text: str, tokens: Sequence[Any]) -> None:
    """Raise WhereError for adjacent comparisons without parentheses."""
    _Walk(text, tokens).run()
