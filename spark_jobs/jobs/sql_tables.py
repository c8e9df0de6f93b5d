"""Tables in the SQL text of a job: in the query of a source, and in the subqueries of a condition or a SET.

Besides relations that Spark finds itself (views of the source, files as ``parquet.`/path```), text may name tables of the job's
catalog, and of the source's, as ``catalog.namespace.name``, and the changed table also as ``target``. Spark does not have that
catalog, so each table becomes a temporary view of its live rows: the changed table at the start of the statement, other tables in
their current state. Spark's own parser finds the names, and they are replaced in place; the rest of the text is unchanged.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.errors import OptionError, UnsupportedError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.table.same_table import logged
from spark_jobs.jobs.source_paths import check_paths
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.table_rows import table_rows
from spark_jobs.runners.column_names import quoted
from spark_jobs.runners.scala_values import items

TARGET = "target"
"""The name of the changed table in SQL text."""
_FILE_FORMATS = frozenset({"parquet", "csv", "json", "orc", "avro", "text"})
_COMMANDS = (
    "plans.logical.Command",
    "plans.logical.ParsedStatement",
    "plans.logical.InsertIntoDir",
    "plans.logical.CompoundPlanStatement",
    "analysis.UnresolvedExecuteImmediate",
)
_SQL_FUNCTION = "sqlFunction."
"""Spark's class name for a function whose body is SQL text; its usage text is JSON."""
_BLANKS = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|--[^\n]*\n)*"
_NAME_ONLY = re.compile(rf"\b(?:TABLE|STREAM){_BLANKS}\(?{_BLANKS}\Z", re.IGNORECASE)
"""The text before a relation that must be a name: ``TABLE a.b``, an argument ``TABLE(a.b)``."""


@dataclass(frozen=True, slots=True)
class _Relation:
    """A relation in a text: its parts, and its position (including the last character)."""

    parts: tuple[str, ...]
    start: int
    stop: int
    at_a_version: bool


class SqlTables:
    """The tables that one evaluation of a statement names. ``reads_target``: the changed table was among them; ``relations``
    counts relation names in all texts so far, and expressions with a subquery: a function in it may read relations, too."""

    def __init__(self, run: SparkRun, target: DataFrame | None = None) -> None:
        """``target``: the changed table's rows, if they are already planned."""
        self._run = run
        self._target = target
        self._views: dict[tuple[str, ...], str] = {}
        self.reads_target = False
        self.relations = 0

    def in_query(self, text: str) -> str:
        """``text``, a query, in a form that Spark can run. Raises OptionError for any other statement (Spark would execute it at
        once), ParseException, NoSuchTableError, UnsupportedError, DataError."""
        plan = _parser(self._run.session).parsePlan(text)
        if (command := _command_in(self._run.session, plan)) is not None:
            raise OptionError(f"source query is not a query, but {command}: it must be a SELECT, VALUES, TABLE or WITH")
        return self._replaced(text, plan)

    def in_expression(self, text: str) -> str:
        """``text``, an expression, with its subqueries in a form that Spark can run; raises the errors of ``in_query``."""
        plan = _expression_plan(self._run.session, text)
        self.relations += int(_holds_subquery(plan))
        return self._replaced(text, plan)

    def _replaced(self, text: str, plan: Any) -> str:
        _forbid_computed_names(plan)
        for relation in sorted(_relations(plan), key=lambda n: n.start, reverse=True):
            self.relations += 1
            view = self._find_view(relation)
            if view is not None:
                # In brackets, so that everything allowed after a table's name can follow: another alias, its columns, a sample.
                named = f"`{view}`" if _NAME_ONLY.search(text[: relation.start]) else f"(`{view}` AS {quoted(relation.parts[-1])})"
                text = f"{text[: relation.start]}{named}{text[relation.stop + 1 :]}"
        return text

    def _find_view(self, relation: _Relation) -> str | None:
        """The view to read instead; None: Spark resolves the name itself."""
        parts, name = relation.parts, ".".join(relation.parts)
        if len(parts) == 1 and name.lower() == TARGET:
            self._made((TARGET,), self._target_rows)
            return None
        if len(parts) == 2 and parts[0].lower() in _FILE_FORMATS:
            check_paths(self._run.session, [parts[1]], self._run.table, require_success_file=False)
            return None
        catalog = self._catalog(parts[0]) if len(parts) >= 3 else None
        if catalog is None:
            return None
        if relation.at_a_version:
            raise UnsupportedError(f"not supported: {name} at a version or time in SQL text: a source of format table reads one")
        is_target = parts == (self._run.job.catalog.name, *self._run.job.identifier)
        return self._made(parts, self._target_rows if is_target else lambda: self._load_rows(catalog, parts))

    def _made(self, parts: tuple[str, ...], rows: Callable[[], DataFrame]) -> str:
        """``parts`` are kept separate, because one of them may contain a dot."""
        if parts not in self._views:
            view = TARGET if parts == (TARGET,) else f"_{uuid.uuid4().hex}"
            pinned = rows()
            refuse_hidden_view(self._run.session, view)
            pinned.createOrReplaceTempView(view)
            self._run.pinned_rows.append(pinned)
            self._views[parts] = view
        return self._views[parts]

    def _load_rows(self, catalog: Catalog, parts: tuple[str, ...]) -> DataFrame:
        table, target = self._run.outcome.reads.load(lambda: catalog.load_table(parts[1:])), self._run.table
        self.reads_target |= logged(table, target.metadata_location, target.metadata.last_updated_ms)  # through another catalog
        return table_rows(self._run.session, table, Scan())

    def _target_rows(self) -> DataFrame:
        self.reads_target = True
        if self._target is None:
            table, branch = self._run.table, self._run.job.branch
            ref = None if table.metadata.ref(branch) is None else branch  # a new branch starts at main's head
            self._target = table_rows(self._run.session, table, Scan(ref=ref))
        return self._target

    def _catalog(self, name: str) -> Catalog | None:
        job = self._run.job
        if name == job.catalog.name:
            return self._run.catalog
        other = job.source.catalog if job.source else None
        return load_catalog(other) if other is not None and other.name == name else None


def refuse_hidden_view(session: SparkSession, name: str) -> None:
    """Raise OptionError if a view (also a global one) or a SQL function of the program reads its view ``name``: with its stored
    text it would read the job's view of that name instead."""
    for reader, read in _views_read(session):
        if read.lower() == name.lower():
            raise OptionError(
                f"view {name!r} of the job would take the place of the program's view of that name, which its {reader} reads: "
                "rename the program's view"
            )


def _views_read(session: SparkSession) -> Iterator[tuple[str, str]]:
    """The temporary views and functions of the program that are SQL text, each with the name of a view of its session that it
    reads. (Names of global ones have two parts.)"""
    catalog: Any = session._jsparkSession.sessionState().catalog()
    for view in items(catalog.listTempViews(catalog.globalTempDatabase(), "*")):
        for parts in items(view.viewReferredTempViewNames()):
            if parts.size() == 1:
                yield f"view {view.identifier().table()!r}", str(parts.last())
    for function in items(catalog.listTemporaryFunctions()):
        name = function.funcName()
        for info in (catalog.lookupBuiltinOrTempFunction(name), catalog.lookupBuiltinOrTempTableFunction(name)):
            if info.isDefined() and str(info.get().getClassName()) == _SQL_FUNCTION:
                about = json.loads(str(info.get().getUsage()))
                for parts in json.loads(about.get("referredTempViewNames", "[]")):
                    if len(parts) == 1:
                        yield f"function {name!r}", str(parts[0])


def _command_in(session: SparkSession, plan: Any) -> str | None:
    """The first part of a plan, at any depth, that has an effect or runs text outside the plan: a command, an INSERT (FROM ...
    INSERT ... INSERT has several), a script, EXECUTE IMMEDIATE."""
    java: Any = session._jvm.java.lang.Class  # type: ignore[union-attr]
    kinds = [java.forName(f"org.apache.spark.sql.catalyst.{name}") for name in _COMMANDS]
    return next((str(part.nodeName()) for part in _parts(plan) if any(kind.isInstance(part) for kind in kinds)), None)


def _forbid_computed_names(plan: Any) -> None:
    """Raise UnsupportedError for a relation whose name Spark computes: it is unknown whether it is a table of the catalog, or a
    file in the table's own folders."""
    for part in _parts(plan):
        if str(part.nodeName()) == "PlanWithUnresolvedIdentifier":
            shown = part.identifierExpr().sql()
            raise UnsupportedError(f"not supported: a relation IDENTIFIER({shown}) in SQL text: write its name as it is")


def _parts(plan: Any) -> Iterator[Any]:
    """A plan that is only parsed, and all plans below it, including those of subqueries, WITH and time travel."""
    yield plan
    if str(plan.nodeName()) == "RelationTimeTravel":
        yield from _parts(plan.relation())
    for children in (plan.children(), plan.innerChildren()):
        walk = children.iterator()
        while walk.hasNext():
            yield from _parts(walk.next())


def has_subquery(session: SparkSession, text: str) -> bool:
    """Whether there is a subquery in an expression. Raises ParseException."""
    return _holds_subquery(_expression_plan(session, text))


def _holds_subquery(plan: Any) -> bool:
    return bool(plan.innerChildren().nonEmpty())


def _parser(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState().sqlParser()


def _expression_plan(session: SparkSession, text: str) -> Any:
    """An expression as the condition of a plan without input, so that its subqueries belong to that plan."""
    plans: Any = session._jvm.org.apache.spark.sql.catalyst.plans.logical  # type: ignore[union-attr]
    return plans.Filter(_parser(session).parseExpression(text), plans.OneRowRelation())


def _relations(plan: Any) -> Iterator[_Relation]:
    """Every table name in a plan that is only parsed, including subqueries and WITH."""
    kind = str(plan.nodeName())
    if kind == "RelationTimeTravel":
        relation = plan.relation()
        if str(relation.nodeName()) == "UnresolvedRelation":
            yield _relation(relation, at_a_version=True)
        return
    if kind == "UnresolvedRelation":
        yield _relation(plan, at_a_version=False)
    for children in (plan.children(), plan.innerChildren()):
        walk = children.iterator()
        while walk.hasNext():
            yield from _relations(walk.next())


def _relation(node: Any, *, at_a_version: bool) -> _Relation:
    names = node.multipartIdentifier()
    origin = node.origin()
    parts = tuple(str(names.apply(i)) for i in range(names.size()))
    return _Relation(parts, origin.startIndex().get(), origin.stopIndex().get(), at_a_version)
