"""The files that rows are read from, as Spark listed them, and the values that Spark takes from folder names.

Spark lists the files of a relation once, with their sizes, and reads each up to that size each time the rows are evaluated. The
listing of a view is as old as the view. Rows that the program has cached come from files that were listed when the cache was made;
Spark uses them for every read of the same paths with the same options, so a job reads the paths of its source with its own option.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.data.sources.source_folder import read_twice
from iceberg_ops.errors import DataError, UnsupportedError
from spark_jobs.runners.column_names import OWN
from spark_jobs.runners.scala_values import class_name, items

FIELD_ID = "parquet.field.id"
_LISTS_ONCE = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"
_FILE_TABLE = "org.apache.spark.sql.execution.datasources.v2.FileTable"
_FILE_SCAN = "org.apache.spark.sql.execution.datasources.v2.FileScan"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file (a URL) with its size in bytes and the time of its last change when Spark listed it; None: Spark lists it later."""

    path: str
    size: int | None
    modified_ms: int | None


def past_cache() -> dict[str, str]:
    """The reader option that makes Spark read files even if the program has cached rows of the same paths."""
    return {f"{OWN}read": uuid.uuid4().hex}


def listed_files(rows: DataFrame, pinned: Collection[DataFrame] = ()) -> list[ListedFile]:
    """The files that ``rows`` are read from, including those of a cache of the program that Spark uses instead, and those of
    subqueries; without those of ``pinned``, rows of pinned snapshots, which never change."""
    plans = tuple(frame._jdf.queryExecution().analyzed() for frame in pinned)
    walk = _Walk(rows.sparkSession, plans)
    return list(dict.fromkeys(f for index in walk.indexes(rows._jdf.queryExecution().withCachedData()) for f in walk.listed(index)))


def refuse_listed_twice(rows: DataFrame, *, only_subqueries: bool = False) -> None:
    """Raise DataError for a file that ``rows`` would contain twice, because two of the paths of one relation, or a path and a link
    of this machine, lead to it. Paths in a view, and a text that names a path twice, are not checked: they are the user's own
    choice. With ``only_subqueries`` the rest, the rows of tables, is not checked."""
    walk, plan = _Walk(rows.sparkSession, (), into_views=False), rows._jdf.queryExecution().analyzed()
    for index in walk.indexes_of_subqueries(plan) if only_subqueries else walk.indexes(plan):
        urls = [str(url) for url in index.inputFiles()]
        real = [url if (local := local_path(url)) is None else os.path.realpath(local) for url in urls]
        times = Counter(real)
        if url := next((url for url, file in zip(urls, real, strict=True) if times[file] > 1), None):
            raise DataError(read_twice(url))


def local_path(url: str) -> str | None:
    """The path of a file of this machine; None: it is on another one."""
    place = urlsplit(url)
    return unquote(place.path) if place.scheme in ("", "file") else None


def refuse_field_ids(rows: DataFrame, pinned: Collection[DataFrame] = ()) -> None:
    """Raise UnsupportedError for files that SQL text or a view of the program reads, and whose columns Spark would find by field
    ids in a job's session: each file may have different ids. Rows of ``pinned`` snapshots, and of the table itself, are read so."""
    plans = tuple(frame._jdf.queryExecution().analyzed() for frame in pinned)
    for relation in _Walk(rows.sparkSession, plans).relations(rows._jdf.queryExecution().analyzed()):
        names = [str(name) for name in relation.schema().fieldNames()]
        is_own = all(name.startswith(OWN) for name in names)
        if not is_own and FIELD_ID in str(relation.schema().json()):
            files = [str(url) for url in relation.location().inputFiles()][:1]
            raise UnsupportedError(
                f"not supported: {', '.join(files)} in SQL text or a view of the program, because Spark wrote field ids "
                f"({FIELD_ID}) into it and would find its columns by these: name its folder among the paths or views of the source"
            )


def folder_columns(rows: DataFrame) -> frozenset[str]:
    """Columns, in lower case, whose values Spark takes from folder names."""
    names = _folder_columns(rows._jdf.queryExecution().analyzed())
    return frozenset(name.lower() for name in names)


def folder_texts(rows: DataFrame, name: str) -> Iterator[str]:
    """The values of a column of ``folder_columns`` that is read as text, once per folder."""
    for relation in _file_relations(rows._jdf.queryExecution().analyzed()):
        names = list(map(str, relation.partitionSchema().fieldNames()))
        if name in names:
            place = names.index(name)
            values = [folder.values() for folder in items(relation.location().partitionSpec().partitions())]
            yield from {str(row.getUTF8String(place)) for row in values if not row.isNullAt(place)}


def _folder_columns(plan: Any) -> Iterator[str]:
    for relation in _file_relations(plan):
        yield from map(str, relation.partitionSchema().fieldNames())


def _file_relations(plan: Any) -> Iterator[Any]:
    """The relations of files of a logical plan, without those of subqueries."""
    if class_name(plan) == "LogicalRelation" and class_name(plan.relation()) == "HadoopFsRelation":
        yield plan.relation()
    for child in items(plan.children()):
        yield from _file_relations(child)


class _Walk:
    """Finds a plan's file indexes: of a logical plan, and of the physical plans of caches that it uses."""

    def __init__(self, session: SparkSession, pinned: tuple[Any, ...], *, into_views: bool = True) -> None:
        self._java: Any = session._jvm
        self._pinned = pinned
        self._into_views = into_views

    def indexes(self, plan: Any) -> Iterator[Any]:
        kind = class_name(plan)
        if kind == "View" and (not self._into_views or any(plan.child().sameResult(view) for view in self._pinned)):
            return
        if kind in ("LogicalRelation", "FileSourceScanExec") and class_name(plan.relation()) == "HadoopFsRelation":
            yield plan.relation().location()
        elif kind == "DataSourceV2Relation" and self._is_a(plan.table(), _FILE_TABLE):
            yield plan.table().fileIndex()
        elif kind == "BatchScanExec" and self._is_a(plan.scan(), _FILE_SCAN):
            yield plan.scan().fileIndex()
        elif kind == "AdaptiveSparkPlanExec":
            yield from self.indexes(plan.inputPlan())
        for children in (plan.children(), plan.innerChildren()):
            for child in items(children):
                yield from self.indexes(child)

    def indexes_of_subqueries(self, plan: Any) -> Iterator[Any]:
        """The file indexes that only subqueries of a logical plan read."""
        for subquery in items(plan.innerChildren()):
            yield from self.indexes(subquery)
        for child in items(plan.children()):
            yield from self.indexes_of_subqueries(child)

    def relations(self, plan: Any) -> Iterator[Any]:
        """A logical plan's relations of files."""
        if class_name(plan) == "View" and any(plan.child().sameResult(view) for view in self._pinned):
            return
        if class_name(plan) == "LogicalRelation" and class_name(plan.relation()) == "HadoopFsRelation":
            yield plan.relation()
        for children in (plan.children(), plan.innerChildren()):
            for child in items(children):
                yield from self.relations(child)

    def listed(self, index: Any) -> list[ListedFile]:
        urls = [str(url) for url in index.inputFiles()]
        if not self._is_a(index, _LISTS_ONCE):
            return [ListedFile(url, None, None) for url in urls]
        files = zip(urls, items(index.allFiles()), strict=True)
        return [ListedFile(url, int(f.getLen()), int(f.getModificationTime())) for url, f in files]

    def _is_a(self, value: Any, name: str) -> bool:
        return bool(self._java.java.lang.Class.forName(name).isInstance(value))
