"""Generated WHERE conditions over the columns of ``where_rows``, each for this package and for Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.expressions.generated_literals import OURS_ALONE, Literals, Written, kind_of, sql_text
from tests.expressions.where_rows import POOLS, TYPES

COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
TEXT_COLUMNS = ("s", "s", "s", "inner.y z")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A condition; ``tags`` say which constructs, types and literal forms are in it."""

    ours: str
    spark: str
    tags: frozenset[str]


def named(rng: random.Random, column: str) -> str:
    """The column as SQL names it."""
    parts = [f"`{p}`" if " " in p or rng.random() < 0.1 else p for p in column.split(".")]
    text = ".".join(parts)
    return text.upper() if rng.random() < 0.1 else text


class Conditions:
    """Draws conditions with one source of chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.literals = Literals(rng)
        self._leaves: list[tuple[int, Callable[[], Drawn]]] = [
            (10, self._compared), (4, self._in), (3, self._between), (6, self._like), (3, self._like_several), (4, self._affix),
            (3, self._null_test), (1, self._truth), (1, self._nan), (1, self._distinct), (1, self._constant), (1, self._period),
            (1, self._flipped),
        ]  # fmt: skip

    def draw(self, depth: int = 2) -> Drawn:
        """A leaf, or several under AND, OR, NOT and tests of what they are."""
        rng, chance = self.rng, self.rng.random()
        if depth == 0 or chance < 0.55:
            weights = [w for w, _ in self._leaves]
            return rng.choices([leaf for _, leaf in self._leaves], weights)[0]()
        if chance < 0.8:
            parts = [self.draw(depth - 1) for _ in range(rng.choice([2, 2, 3]))]
            word = rng.choice(["AND", "OR"])
            return _joined([f"({p.ours})" for p in parts], [f"({p.spark})" for p in parts], f" {word} ", parts, word)
        inner = self.draw(depth - 1)
        form, tag = rng.choice([
            ("NOT ({})", "NOT"), ("NOT ({})", "NOT"), ("!({})", "NOT"), ("({}) IS TRUE", "IS TRUE"),
            ("({}) IS NOT TRUE", "IS TRUE"), ("({}) IS FALSE", "IS FALSE"), ("({}) IS NULL", "IS NULL of a condition"),
            ("({}) <=> NULL", "IS NULL of a condition"), ("isnull({})", "IS NULL of a condition"),
            ("({}) = FALSE", "= FALSE"), ("({}) <=> TRUE", "= FALSE"),
        ])  # fmt: skip
        return Drawn(form.format(inner.ours), form.format(inner.spark), inner.tags | {tag})

    def _leaf(self, form: str, column: str, literals: list[Written], tag: str) -> Drawn:
        name = named(self.rng, column)
        ours, spark = (form.format(*(getattr(w, side) for w in literals), c=name) for side in ("ours", "spark"))
        tags = {tag, f"type {kind_of(TYPES[column])}", *(f"form {w.form}" for w in literals)}
        return Drawn(ours, spark, frozenset(tags))

    def _column(self) -> str:
        return self.rng.choice(list(TYPES))

    def _compared(self) -> Drawn:
        column, op = self._column(), self.rng.choice(COMPARISONS)
        return self._leaf(f"{{c}} {op} {{0}}", column, [self.literals.draw(column)], f"comparison {op}")

    def _flipped(self) -> Drawn:
        column, op = self._column(), self.rng.choice(COMPARISONS)
        return self._leaf(f"{{0}} {op} {{c}}", column, [self.literals.draw(column)], "literal first")

    def _in(self) -> Drawn:
        column, count = self._column(), self.rng.choice([1, 2, 2, 3, 5])
        values = [self.literals.draw(column) for _ in range(count)]
        if self.rng.random() < 0.2:
            values.append(Written("NULL", "NULL", "NULL"))
        word = self.rng.choice(["IN", "NOT IN"])
        return self._leaf(f"{{c}} {word} ({', '.join(f'{{{n}}}' for n in range(len(values)))})", column, values, word)

    def _between(self) -> Drawn:
        column, word = self._column(), self.rng.choice(["BETWEEN", "NOT BETWEEN"])
        return self._leaf(f"{{c}} {word} {{0}} AND {{1}}", column, [self.literals.draw(column) for _ in range(2)], word)

    def _pattern(self, column: str, escape: str) -> str:
        """A text of the column with wildcards for some characters; specials are escaped or not, now and then wrongly."""
        rng, text = self.rng, self.rng.choice(POOLS[column])
        if len(text) > 50 and rng.random() < 0.8:
            text = text[: rng.randrange(20)]
        if len(text) > 50:
            return text.replace("\\", escape * 2) if escape == "\\" else text
        shown = []
        for c in text:
            chance = rng.random()
            if chance < 0.1:
                shown.append("_")
            elif chance < 0.16:
                shown.append("%")
            elif c in ("%", "_", escape):
                shown.append(escape + c if rng.random() < 0.97 or c == escape else c)
            else:
                shown.append(c if chance < 0.999 else escape + c)
        where = rng.random()
        found = "".join(shown)
        return f"%{found}" if where < 0.25 else f"{found}%" if where < 0.5 else f"%{found}%" if where < 0.7 else found

    def _like(self) -> Drawn:
        rng, column = self.rng, self.rng.choice(TEXT_COLUMNS)
        word, escape, suffix = rng.choice(["LIKE", "NOT LIKE"]), "\\", ""
        if rng.random() < 0.3:
            escape = rng.choice("#/|!e%_'\\é")
            suffix = f" ESCAPE {sql_text(rng, escape)}"
        pattern = sql_text(rng, self._pattern(column, escape)) if rng.random() < 0.98 else "NULL"
        written = Written(pattern, pattern, "pattern")
        return self._leaf(f"{{c}} {word} {{0}}{suffix.replace('{', '{{')}", column, [written], word + " ESCAPE" * bool(suffix))

    def _like_several(self) -> Drawn:
        rng, column = self.rng, self.rng.choice(TEXT_COLUMNS)
        word = f"{rng.choice(['LIKE', 'NOT LIKE'])} {rng.choice(['ANY', 'ALL', 'SOME'])}"
        patterns = [sql_text(rng, self._pattern(column, "\\")) for _ in range(rng.choice([1, 2, 3]))]
        if rng.random() < 0.1:
            patterns.append("NULL")
        written = [Written(p, p, "pattern") for p in patterns]
        return self._leaf(f"{{c}} {word} ({', '.join(f'{{{n}}}' for n in range(len(written)))})", column, written, word)

    def _affix(self) -> Drawn:
        rng, column = self.rng, self.rng.choice([*TEXT_COLUMNS, "bin"])
        function = rng.choice(["startswith", "endswith", "contains"])
        if column == "bin":
            return self._leaf(f"{function}({{c}}, {{0}})", column, [self.literals.draw("bin")], f"{function} of bytes")
        text = rng.choice(POOLS[column])
        low, high = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        part = sql_text(rng, text[low:high]) if rng.random() < 0.97 else "NULL"
        return self._leaf(f"{function}({{c}}, {{0}})", column, [Written(part, part, "text")], function)

    def _null_test(self) -> Drawn:
        form = self.rng.choice(
            ["{c} IS NULL", "{c} IS NOT NULL", "isnull({c})", "isnotnull({c})", "{c} <=> NULL", "NOT {c} IS NULL"]
        )
        return self._leaf(form, self._column(), [], "null test")

    def _truth(self) -> Drawn:
        form = self.rng.choice([
            "{c}", "NOT {c}", "{c} IS TRUE", "{c} IS NOT TRUE", "{c} IS FALSE", "{c} IS NOT FALSE", "{c} IS UNKNOWN",
            "{c} IS NOT UNKNOWN", "{c} = (i > 1)", "(s IS NULL) <> {c}",
        ])  # fmt: skip
        return self._leaf(form, "flag", [], "bare boolean")

    def _nan(self) -> Drawn:
        return self._leaf(
            self.rng.choice(["isnan({c})", "NOT isnan({c})"]), self.rng.choice(["f", "d", "inner.d", "i", "dec"]), [], "isnan"
        )

    def _distinct(self) -> Drawn:
        column, word = self._column(), self.rng.choice(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        return self._leaf(f"{{c}} {word} {{0}}", column, [self.literals.draw(column)], "IS DISTINCT FROM")

    def _constant(self) -> Drawn:
        """Literals alone; Spark folds them before a row is read."""
        column = self.rng.choice([c for c in TYPES if c not in OURS_ALONE])
        op = self.rng.choice(COMPARISONS)
        return self._leaf(f"{{0}} {op} {{1}}", column, [self.literals.draw(column) for _ in range(2)], "literals alone")

    def _period(self) -> Drawn:
        rng, column = self.rng, self.rng.choice(["day", "ntz", "ts"])
        if rng.random() < 0.4:
            year = rng.choice([1, 1969, 1970, 2019, 2020, 2024, 9999, 10000, -5, 0])
            return self._leaf(f"year({{c}}) {rng.choice(COMPARISONS)} {year}", column, [], "year()")
        form = rng.choice(["CAST({{c}} AS DATE) {} {{0}}", "date({{c}}) {} {{0}}"]).format(rng.choice(COMPARISONS))
        return self._leaf(form, column, [self.literals.draw("day")], "date()")


def _joined(ours: list[str], spark: list[str], word: str, parts: list[Drawn], tag: str) -> Drawn:
    return Drawn(word.join(ours), word.join(spark), frozenset({tag}).union(*(p.tags for p in parts)))
