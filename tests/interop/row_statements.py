"""Generated DELETE, UPDATE and MERGE statements, each both as Iceberg Java's SQL and as a job spec, and rows for them.

Values are few and difficult (NULL, NaN, both zeros, infinities, texts with quotes), so that conditions match many rows, in every
kind of comparison. This module does not define the expected results: two engines run each statement, and are compared.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import BOOLEAN, DATE, DOUBLE, FLOAT, INT, LONG, MISSING, STRING, DecimalType, NestedField, StructType

OLD_SCHEMA = Schema.of(
    NestedField(1, "id", LONG, True),
    NestedField(2, "k", INT),
    NestedField(3, "town", STRING),
    NestedField(4, "day", DATE),
    NestedField(5, "amount", FLOAT),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "flag", BOOLEAN),
    NestedField(8, "place", StructType((NestedField(9, "x", INT), NestedField(10, "name", STRING)))),
)
"""Of the oldest files: ``evolved`` makes it the schema that statements name."""
COLUMNS = ("id", "k", "city", "day", "amount", "price", "flag", "place", "grade")

VALUES: Mapping[str, Sequence[Any]] = {
    "k": (None, -1, 0, 1, 2, 3, 7),
    "city": (None, "", "Oslo", "Rome", "O'Hare", "Zürich"),
    "day": (None, date(1969, 12, 31), date(2024, 1, 1), date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 5)),
    "amount": (None, float("nan"), -0.0, 0.0, float("inf"), -1.5, 2.5, 6.25, 100.0),
    "price": (None, Decimal("0.00"), Decimal("-3.25"), Decimal("1.50"), Decimal("9999999.99"), Decimal("12.00")),
    "flag": (None, True, False),
    "place": (None, (None, None, None), (1, "Oslo", None), (2, "O'Hare", 3), (3, None, 1)),
    "grade": (None, 0, 5, 9),
}


def evolved(change: SchemaEvolution, version: int) -> SchemaEvolution:
    """A column renamed, one promoted, one added (from v3 on with a default of the rows that are there), and one inside a struct."""
    change = change.rename_column("town", "city").update_type("amount", DOUBLE)
    change = change.add_column("grade", INT, default=5 if version >= 3 else MISSING)
    return change.add_column("level", INT, parent="place")


def old_row(row: Sequence[Any]) -> tuple[Any, ...]:
    """What of a row ``OLD_SCHEMA`` holds."""
    *values, place, _ = row
    return (*values, place and place[:2])


# In each text {p} is the side a column is of: nothing, "target." or "source.". Iceberg Java prunes files, and drops whole ones, as
# if -0.0 were less than 0.0 and NaN greater than nothing, neither of which is so in SQL: a bare double is compared with no zero,
# and with < and > only beside a condition that says what is to become of NaN (also under NOT). It cannot find the expression that
# Spark makes of ``a + b BETWEEN``: only columns are between something. A NULL without a
# type is not a condition in Spark SQL, which Java checks in some statements only.
CONDITIONS = (
    "{p}id % 3 = {n}", "{p}id BETWEEN {m} AND {m} + 9", "{p}id IN ({m}, {m} + 1, 2)", "{p}id NOT IN (1, {m})",
    "{p}k > {n}", "{p}k <= {n}", "{p}k IS NULL", "{p}k <=> NULL", "NOT ({p}k > {n})", "{p}k = NULL", "{p}k IN ({n}, NULL)",
    "{p}k NOT IN ({n}, NULL)", "{p}k NOT IN ({n}, 7)", "NOT ({p}k IN ({n}) OR {p}flag)", "{p}k <> {n}", "{p}k <=> {n}",
    "{p}k = {p}id % 4", "{p}k = '1'", "{p}k > 1.5",
    "{p}city = 'Oslo'", "{p}city <> 'Oslo'", "{p}city = 'O''Hare'", "{p}city LIKE 'O%'", "{p}city NOT LIKE '%o%'", "{p}city = ''",
    "{p}city IS NOT NULL", "length({p}city) > 4", "upper({p}city) = 'ROME'", "{p}city >= 'R'", "{p}city BETWEEN 'A' AND 'P'",
    "{p}city LIKE '_ome'", "{p}city RLIKE '^Z.r'", "{p}city <=> NULL",
    "{p}day < DATE '2024-01-31'", "{p}day = DATE '2024-02-29'", "{p}day >= '2024-01-31'", "year({p}day) = 2024", "{p}day IS NULL",
    "{p}day BETWEEN DATE '2024-01-01' AND DATE '2024-01-31'", "{p}day <> DATE '1969-12-31'", "month({p}day) IN (1, 12)",
    "{p}amount > 5 AND NOT isnan({p}amount)", "{p}amount + 0.0 > 5", "{p}amount + 0.0 >= 0.0", "{p}amount + 0.0 = 0.0",
    "{p}amount + 0.0 = -0.0", "{p}amount + 0.0 < 0", "{p}amount + 0.0 <> 0.0",
    "isnan({p}amount)", "{p}amount = double('NaN')", "{p}amount <= 2.5 AND NOT isnan({p}amount)", "{p}amount + 0.0 <= 2.5",
    "{p}amount IS NULL", "{p}amount + 0.0 IN (0.0, 2.5)",
    "{p}amount < double('Infinity') AND NOT isnan({p}amount)", "NOT ({p}amount > 2 OR isnan({p}amount))",
    "{p}amount NOT IN (2.5, -1.5)",
    "{p}amount + 0.0 >= -0.0 AND {p}amount + 0.0 <= 6.25",
    "{p}amount + 0.0 >= double('Infinity')", "{p}amount < double('NaN')", "{p}amount <> double('NaN')",
    "{p}price > 1", "{p}price = 1.5", "{p}price < 0", "{p}price IN (0, 12.00)", "{p}price >= 1.505", "{p}price IS NULL",
    "{p}price = {p}amount", "{p}price <> 12",
    "{p}flag", "NOT {p}flag", "{p}flag IS NOT TRUE", "{p}flag IS NULL", "{p}flag = false", "{p}flag <=> NULL", "true", "false",
    "{p}place IS NULL", "{p}place.x > 1", "{p}place.x IS NULL", "{p}place.name = 'Oslo'", "{p}place.name LIKE 'O%'",
    "NOT ({p}place.x < 3)", "{p}place.x <=> {p}place.level", "{p}place.level IS NULL", "{p}place.level = 3",
    "{p}place.x IN (1, NULL)",
    "{p}place.level NOT IN (1, 2)", "{p}grade = 5", "{p}grade IS NULL", "{p}grade > 4", "{p}grade <> 5", "{p}grade IN (0, 5)",
    "{p}grade <=> {p}k", "NOT ({p}grade BETWEEN 1 AND 5)", "coalesce({p}grade, -1) < 5",
    "CAST(NULL AS BOOLEAN)", "coalesce({p}flag, {p}k > 0)", "CASE WHEN {p}k > 1 THEN {p}flag ELSE {p}amount > 0 END",
)  # fmt: skip
SUBQUERIES = (
    "{p}k IN (SELECT k FROM {src})", "{p}k NOT IN (SELECT k FROM {src})", "{p}k NOT IN (SELECT k FROM {src} WHERE k IS NOT NULL)",
    "{p}id IN (SELECT id FROM {src} WHERE flag)", "{p}city NOT IN (SELECT city FROM {src} WHERE false)",
    "EXISTS (SELECT 1 FROM {src} s WHERE s.id = target.id AND s.k > {n})",
    "NOT EXISTS (SELECT 1 FROM {src} s WHERE s.k = target.k)",
    "EXISTS (SELECT 1 FROM {src} WHERE amount > 1000)", "{p}amount > (SELECT avg(amount) FROM {src} WHERE NOT isnan(amount))",
    "{p}k = (SELECT max(k) FROM {src} s WHERE s.id = target.id)", "{p}k < (SELECT k FROM {src} WHERE false)",
    "({p}k, {p}city) IN (SELECT k, city FROM {src})", "{p}amount IN (SELECT amount FROM {src})",
    "{p}price IN (SELECT k FROM {src})", "{p}place.x IN (SELECT place.x FROM {src})", "{p}grade NOT IN (SELECT grade FROM {src})",
    "{p}grade >= (SELECT max(o.grade + o.place.x) FROM {target} o WHERE o.city = target.city)",
    "{p}id > (SELECT min(o.id) FROM {target} o WHERE o.city <=> target.city)", "{p}k NOT IN (SELECT o.k + 1 FROM {target} o)",
    "{p}day <= (SELECT max(o.day) FROM {target} o JOIN {src} s ON o.id = s.id)",
    "{p}id IN (WITH s AS (SELECT * FROM {src}) SELECT a.id FROM s a LEFT ANTI JOIN {target} o ON a.id = o.id + 1)",
)  # fmt: skip
"""Conditions of DELETE and UPDATE; the view ``src`` is a file to a job, ``target`` its own name to Java.

Scalars are correlated by bare columns only: for an expression (``o.place.name = target.city``) Spark's plan has the changed table
twice, and Java then leaves out of both what one of them needs not (rows whose city is NULL), or refuses the plan."""
SCALARS: Mapping[str, Sequence[str]] = {
    "k": (
        "(SELECT max(k) FROM {src})",
        "(SELECT min(s.k) FROM {src} s WHERE s.id = target.id)",
        "(SELECT k FROM {src} WHERE false)",
    ),
    "city": ("(SELECT max(o.city) FROM {target} o WHERE o.k = target.k)", "concat({p}city, (SELECT min(city) FROM {src}))"),
    "flag": ("{p}k IN (SELECT k FROM {src})", "EXISTS (SELECT 1 FROM {src} s WHERE s.id = target.id)"),
    "amount": ("(SELECT avg(price) FROM {src})", "{p}amount + (SELECT count(*) FROM {target})"),
}
SETS: Mapping[str, Sequence[str]] = {
    "id": ("{p}id + 100", "{p}id"),
    "k": ("{p}k + 1", "NULL", "coalesce({p}k, 0)", "CAST({p}id % 5 AS INT)", "{p}id % 3", "-{p}k", "length({p}city)"),
    "city": ("upper({p}city)", "concat({p}city, '!')", "NULL", "'Bergen'", "CASE WHEN {p}flag THEN 'yes' ELSE {p}city END", "{p}k"),
    "day": ("date_add({p}day, 31)", "DATE '2024-02-01'", "NULL", "last_day({p}day)", "coalesce({p}day, DATE '2000-01-01')"),
    "amount": ("{p}amount * 2", "-{p}amount", "{p}price", "{p}k", "double('NaN')", "NULL", "coalesce({p}amount, -0.0)", "1"),
    "price": ("{p}price + 1", "abs({p}price)", "{p}k", "NULL", "{p}price / 3", "7", "CAST({p}k AS DECIMAL(9, 2))", "{p}amount"),
    "flag": ("NOT {p}flag", "{p}k > 2", "{p}city = 'Oslo'", "NULL", "isnan({p}amount)"),
    "place": ("{p}place", "NULL", "named_struct('x', {p}k, 'name', {p}city, 'level', 1)"),
    "grade": ("{p}grade + 1", "NULL", "DEFAULT", "{p}place.level", "coalesce({p}grade, {p}k)"),
    "place.x": ("{p}k", "{p}place.x + 1", "NULL", "{p}grade"),
    "place.name": ("{p}city", "upper({p}place.name)", "'here'"),
    "place.level": ("{p}place.x", "{p}id % 4", "4"),
}
ONS = (
    "target.id = source.id", "target.id = source.id AND target.k > 0", "target.id = source.id AND source.flag",
    "target.id <=> source.id", "source.id + 1 = target.id", "target.id = source.id AND target.grade = 5",
    "target.id = source.id AND target.place.x <=> source.place.x", "target.id = source.id AND target.grade <=> source.grade",
    "target.id = source.id AND target.day >= DATE '2024-01-31'",
    "target.id = source.id AND (target.amount + 0.0 > 0 OR target.amount IS NULL)",
    "target.id = source.id AND target.city = source.city",
)  # fmt: skip
LOOSE_ONS = ("target.k = source.k", "target.k <=> source.k", "target.city = source.city AND target.flag <=> source.flag",
             "target.amount = source.amount", "target.place.name = source.city",
             "target.price = source.price AND target.id > source.id")  # fmt: skip
ONE_ROW_EACH = "row_number() OVER (PARTITION BY {by} ORDER BY id) AS number"
QUERIES = (
    "SELECT * FROM src", "SELECT * FROM src", "SELECT * FROM src WHERE k IN (SELECT k FROM src WHERE amount > 0)",
    "SELECT s.* FROM src s LEFT ANTI JOIN {target} t ON s.id = t.id UNION SELECT * FROM src WHERE id IN (SELECT id FROM {target})",
    "SELECT * FROM src WHERE amount > (SELECT avg(price) FROM src)", "SELECT * FROM src WHERE false",
    "SELECT id + 7 AS id, k, city, day, amount, price, flag, place, grade FROM {target} WHERE id < 1000",
    "SELECT nullif(id, 26) AS id, k, city, day, amount, price, flag, place, grade FROM src",
)  # fmt: skip


@dataclass(frozen=True)
class Statement:
    """One statement; ``{target}`` in the source's query is the table."""

    kind: Literal["delete", "update", "merge"]
    where: str | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    on: str = ""
    clauses: tuple[MergeClause, ...] = ()

    def sql(self, table: str) -> str:
        """For Iceberg Java on Spark, with a view ``src``."""
        where = f" WHERE {_java(self.where, table)}" if self.where else ""
        if self.kind == "delete":
            return f"DELETE FROM {table} AS target{where}"
        if self.kind == "update":
            return f"UPDATE {table} AS target SET {_java(_assigned(self.sets), table)}{where}"
        query = self.query.replace("{target}", table)
        clauses = " ".join(_clause(c) for c in self.clauses)
        return f"MERGE INTO {table} AS target USING ({query}) AS source ON {self.on} {clauses}"

    def job(self, mode: str, source: str) -> dict[str, Any]:
        """The fields of a job spec; the Parquet file ``source`` is the view ``src``."""
        where = self.where and _ours(self.where, source)
        if self.kind == "delete":
            return {"job": "delete", "where": where, "change": RowChange(mode=mode)}  # type: ignore[arg-type]
        if self.kind == "update":
            sets = {name: _ours(text, source) for name, text in self.sets.items()}
            return {"job": "update", "where": where, "change": RowChange(mode=mode, set=sets)}  # type: ignore[arg-type]
        change = RowChange(mode=mode, on=self.on, clauses=list(self.clauses))  # type: ignore[arg-type]
        query = self.query.replace("{target}", "target")
        return {"job": "merge", "change": change, "source": Source(format="sql", query=query, views={"src": source})}


def _java(text: str, table: str) -> str:
    return text.replace("{target}", table).replace("{src}", "src")


def _ours(text: str, source: str) -> str:
    return text.replace("{target}", "target").replace("{src}", f"parquet.`{source}`")


def _assigned(sets: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {text}" for name, text in sets.items())


def _clause(clause: MergeClause) -> str:
    when = clause.when.upper().replace("-", " ")
    condition = f" AND {clause.condition}" if clause.condition is not None else ""
    if clause.action == "delete":
        action = "DELETE"
    elif clause.assignments is None:
        action = "INSERT *" if clause.action == "insert" else "UPDATE SET *"
    elif clause.action == "update":
        action = f"UPDATE SET {_assigned(clause.assignments)}"
    else:
        action = f"INSERT ({', '.join(clause.assignments)}) VALUES ({', '.join(clause.assignments.values())})"
    return f"WHEN {when}{condition} THEN {action}"


class Generator:
    """Statements and rows from one seed, the same ones every time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def rows(self, count: int, first: int = 0) -> list[tuple[Any, ...]]:
        """Rows with the ids from ``first`` on."""
        return [(first + i, *(self.random.choice(VALUES[name]) for name in COLUMNS[1:])) for i in range(count)]

    def statement(self) -> Statement:
        """Any of the three."""
        kind = self.random.choice(("delete", "update", "merge", "merge"))
        if kind == "merge":
            return self._merge()
        where = self.condition(("", "target."), subqueries=SUBQUERIES)
        if kind == "delete":
            return Statement("delete", where)
        return Statement("update", where if self.random.random() < 0.9 else None, self._sets(("", "target."), subqueries=True))

    def condition(self, prefixes: Sequence[str], depth: int = 2, subqueries: Sequence[str] = ()) -> str:
        """Comparisons under AND, OR and NOT, some of them with ``subqueries``."""
        draw = self.random.random()
        if depth and draw < 0.45:
            left, right = (self.condition(prefixes, depth - 1, subqueries) for _ in range(2))
            return f"({left}) {'AND' if draw < 0.25 else 'OR'} ({right})"
        if depth and draw < 0.55:
            return f"NOT ({self.condition(prefixes, depth - 1, subqueries)})"
        nested = subqueries and self.random.random() < 0.3
        return self._filled(self.random.choice(subqueries if nested else CONDITIONS), prefixes)

    def _filled(self, text: str, prefixes: Sequence[str]) -> str:
        p, n, m = self.random.choice(prefixes), self.random.choice((0, 1, 2, 3)), self.random.randrange(40)
        if "SELECT" in text:
            p = "target."  # inside a subquery a plain name would be the subquery's own
        return text.format(p=p, n=n, m=m, src="{src}", target="{target}")

    def _sets(self, prefixes: Sequence[str], *, insert: bool = False, subqueries: bool = False) -> dict[str, str]:
        names = self.random.sample(COLUMNS[1:], self.random.randint(1, 3))
        if insert:
            names = ["id", *names]
        elif self.random.random() < 0.1:
            names.append("id")
        if not insert and "place" in names and self.random.random() < 0.6:
            names[names.index("place")] = self.random.choice(("place.x", "place.name", "place.level"))
        nested = subqueries and self.random.random() < 0.3
        return {
            name: self._filled(self.random.choice(SCALARS.get(name, SETS[name]) if nested else SETS[name]), prefixes)
            for name in names
        }

    def _merge(self) -> Statement:
        query, on = self.random.choice(QUERIES), self.random.choice(ONS)
        draw = self.random.random()
        if draw < 0.12:  # several source rows for one target row, as often as not
            on = self.random.choice(LOOSE_ONS)
        elif draw < 0.2:
            query = "SELECT * FROM src UNION ALL SELECT * FROM src WHERE k = 1"
        elif draw < 0.35:
            by = self.random.choice(("k", "city"))
            query, on = (
                f"SELECT * FROM (SELECT *, {ONE_ROW_EACH.format(by=by)} FROM src) WHERE number = 1",
                f"target.{by} {self.random.choice(('=', '<=>'))} source.{by}",
            )
        clauses = [c for when in ("matched", "not-matched", "not-matched-by-source") for c in self._clauses(when)]
        return Statement("merge", query=query, on=on, clauses=tuple(clauses or self._clauses("matched", 1)))

    def _clauses(self, when: Any, at_least: int = 0) -> list[MergeClause]:
        count = max(at_least, self.random.choice({"matched": (1, 2, 2, 3), "not-matched": (0, 1, 1, 2)}.get(when, (0, 0, 1, 2))))
        return [self._one_clause(when, last=i == count - 1) for i in range(count)]

    def _one_clause(self, when: Any, *, last: bool) -> MergeClause:
        sides = {"matched": ("target.", "source."), "not-matched": ("source.",)}.get(when, ("target.",))
        condition = None if last and self.random.random() < 0.5 else self.condition(sides, 1)
        action: Any = "insert" if when == "not-matched" else self.random.choice(("update", "update", "delete"))
        assignments = None
        if action != "delete":
            everything = when != "not-matched-by-source" and self.random.random() < 0.4
            assignments = None if everything else self._sets(sides, insert=action == "insert")
        return MergeClause(when=when, action=action, condition=condition, assignments=assignments)
