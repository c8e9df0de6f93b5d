"""Tokens of the table-definition clauses of ``create`` and ``evolve`` (Spark's and Iceberg's ALTER TABLE).

This module only handles words and punctuation; ``column_definitions`` and ``alterations`` interpret them. Every refusal is an
OptionError that shows the text and the position.
"""

from __future__ import annotations

import re
import sys
from typing import NamedTuple, NoReturn

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.errors import OptionError

MOST = 2**31 - 1
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^'\\]|\\.|'')*')
      | (?P<quoted>`(?:[^`]|``)+`)
      | (?P<number>-?\d+(?:\.\d+)?)(?![\w])
      | (?P<word>[^\W\d]\w*|\d+[^\W\d]\w*)
      | (?P<mark>[(),<>:.\[\]=+*/%&|^~!\"-])
    )""",
    re.VERBOSE,
)

_ESCAPED = re.compile(r"''|\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""The meaning of a letter after a backslash in Spark's texts. The wildcards of LIKE keep their backslash."""


class Token(NamedTuple):
    kind: str
    value: str
    position: int


class Tokens:
    """The tokens of one clause, read from left to right."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._tokens: list[Token] = []
        self._depths = [0]
        """How many ``<`` are open before each token, and at the end."""
        self._next = 0
        at, end = 0, len(source.rstrip())
        while at < end:
            m = _TOKEN.match(source, at)
            if m is None:
                raise OptionError(f"{source!r}: nothing readable at {source[at:].strip()!r}")
            kind = str(m.lastgroup)
            token = Token(kind, _plain(kind, m[kind]), m.start(kind))
            self._tokens.append(token)
            opened = (token.value == "<") - (token.value == ">") if kind == "mark" else 0
            self._depths.append(self._depths[-1] + opened)
            at = m.end()

    @property
    def done(self) -> bool:
        return self._next == len(self._tokens)

    @property
    def rest(self) -> str:
        return "" if self.done else self.source[self._tokens[self._next].position :].strip()

    @property
    def depth(self) -> int:
        """How many ``<`` are open at the current position."""
        return self._depths[self._next]

    def fail(self, expected: str) -> NoReturn:
        """Raises OptionError that says what was expected where."""
        place = f"at {self.rest!r}" if not self.done else "at the end"
        raise OptionError(f"{self.source!r}: expected {expected} {place}")

    def peek(self, *words: str) -> bool:
        """Whether the next tokens are these words (or punctuation), ignoring case."""
        ahead = self._tokens[self._next : self._next + len(words)]
        return len(ahead) == len(words) and all(
            t.kind in ("word", "mark") and t.value.upper() == w.upper() for t, w in zip(ahead, words, strict=True)
        )

    def take(self, *words: str) -> bool:
        """Skip these words if they are next; returns whether they were."""
        matches = self.peek(*words)
        self._next += len(words) if matches else 0
        return matches

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            self.fail(" ".join(words))

    def _take_kind(self, *kinds: str) -> str | None:
        if self.done or self._tokens[self._next].kind not in kinds:
            return None
        self._next += 1
        return self._tokens[self._next - 1].value

    def name(self) -> str:
        """One identifier, back-quoted or plain."""
        name = self._take_kind("word", "quoted")
        return name if name is not None else self.fail("a name")

    def name_parts(self) -> tuple[str, ...]:
        """An identifier in parts; a dot inside back quotes belongs to its part."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return tuple(parts)

    def dotted_name(self) -> str:
        """An identifier with dots between its parts: the full name of an existing column."""
        return ".".join(self.name_parts())

    def text(self) -> str:
        """A text in single quotes. Raises OptionError for half of a surrogate pair, which an escape can produce."""
        text = self._take_kind("text")
        if text is None:
            self.fail("a text in single quotes")
        if not is_unicode(text):
            raise OptionError(f"{self.source!r}: a text has half of a surrogate pair, which is not Unicode: write both halves")
        return text

    def whole_number(self) -> int:
        """A length, width or count, which the format stores in 32 bits: Java cannot read a table with a greater one."""
        digits = self._take_kind("number")
        if digits is None or re.fullmatch("[0-9]+", digits) is None:
            self.fail("a whole number")
        if len(digits) > len(str(MOST)) or int(digits) > MOST:
            self.fail(f"a whole number up to {MOST}")
        return int(digits)

    def end(self) -> None:
        """Raises OptionError if anything is left."""
        if not self.done:
            self.fail("nothing more")

    def until(self, *stops: tuple[str, ...], brackets: str = "()<>[]") -> str:
        """The source text up to one of the stop phrases outside brackets and CASE ... END, or to the end; the position moves
        there."""
        start, depth, cases = self._next, 0, 0
        while not self.done:
            token = self._tokens[self._next]
            if depth == cases == 0 and any(self.peek(*stop) for stop in stops):
                break
            cases += self.peek("CASE")
            cases -= cases > 0 and self.peek("END")
            if token.kind == "mark":
                depth += token.value in brackets[::2]
                depth -= token.value in brackets[1::2]
                if depth < 0:
                    break
            self._next += 1
        if start == self._next:
            self.fail("a value")
        stop = len(self.source) if self.done else self._tokens[self._next].position
        return self.source[self._tokens[start].position : stop].strip()


def _plain(kind: str, text: str) -> str:
    if kind == "text":
        return _ESCAPED.sub(_unescaped, text[1:-1]).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if kind == "quoted":
        return text[1:-1].replace("``", "`")
    return text


def _unescaped(escaped: re.Match[str]) -> str:
    """One escape as in Spark's ``unescapeSQLString``; two single quotes are one."""
    code, long_code, octal, character = escaped.groups()
    if code or long_code:
        number = int(code or long_code, 16)
        return chr(number) if number <= sys.maxunicode else "\ufffd"
    if octal:
        return chr(int(octal, 8))
    return "'" if character is None else _CONTROLS.get(character, character)
