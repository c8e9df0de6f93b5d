"""Evaluates bound expressions on a data file's metrics and a manifest's partition summaries.

``*_may_match`` is inclusive: false only if no row can match, so a scan may skip the file. ``metrics_all_match`` is strict:
true only if every row must match, so a delete may remove the file without reading it. Compile once (``metrics_pruner``,
``metrics_prover``, ``manifest_pruner``) and call the result for each of many files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from iceberg_ops.expressions.column_facts import file_facts, summary_facts
from iceberg_ops.expressions.leaf_tests import FactTest, may_match, must_match
from iceberg_ops.expressions.predicates import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundComputed,
    BoundPredicate,
    Expression,
    MayMatch,
    Or,
    rewrite_not,
)
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.types import StructType

T = TypeVar("T")
Test = Callable[[T], bool]


def metrics_pruner(expression: Expression) -> Callable[[DataFile], bool]:
    """A test whether a file may hold a matching row."""
    test = _combine(rewrite_not(expression), lambda leaf: _on_file(leaf, may_match(leaf)), opaque=True)
    return lambda file: file.record_count != 0 and test(file)


def metrics_prover(expression: Expression) -> Callable[[DataFile], bool]:
    """A test whether every row of a file matches."""
    test = _combine(rewrite_not(expression), lambda leaf: _on_file(leaf, must_match(leaf)), opaque=False)
    return lambda file: file.record_count == 0 or test(file)


def manifest_pruner(expression: Expression, partition_type: StructType) -> Callable[[ManifestFile], bool]:
    """A test whether a manifest may hold a file whose partition matches; ``expression`` is projected for the manifest's own
    spec."""
    test: Callable[[ManifestFile], bool] = _combine(
        rewrite_not(expression), lambda leaf: _on_summary(leaf, partition_type), opaque=True
    )
    width = len(partition_type)

    def may(manifest: ManifestFile) -> bool:
        if manifest.partitions is None or len(manifest.partitions) != width:
            return True
        return test(manifest)

    return may


def metrics_may_match(expression: Expression, file: DataFile) -> bool:
    """``metrics_pruner`` for one file."""
    return _pruner(expression)(file)


def metrics_all_match(expression: Expression, file: DataFile) -> bool:
    """``metrics_prover`` for one file."""
    return _prover(expression)(file)


def manifest_may_match(expression: Expression, manifest: ManifestFile, partition_type: StructType) -> bool:
    """``manifest_pruner`` for one manifest. Summaries cover deleted entries too, so this stays inclusive for live ones."""
    return _manifest_pruner(expression, partition_type)(manifest)


_pruner = lru_cache(maxsize=16)(metrics_pruner)
_prover = lru_cache(maxsize=16)(metrics_prover)
_manifest_pruner = lru_cache(maxsize=64)(manifest_pruner)


def _on_file(leaf: BoundPredicate, test: FactTest) -> Test[DataFile]:
    facts = file_facts(leaf.term.reference)
    return lambda file: test(facts(file))


def _on_summary(leaf: BoundPredicate, partition_type: StructType) -> Test[ManifestFile]:
    at = leaf.term.reference.path[0]
    facts, test = summary_facts(partition_type.fields[at].type), may_match(leaf)
    return lambda manifest: test(facts((manifest.partitions or ())[at]))


def _combine(expression: Expression, leaf_test: Callable[[BoundPredicate], Test[T]], *, opaque: bool) -> Test[T]:
    if isinstance(expression, And):
        left, right = _combine(expression.left, leaf_test, opaque=opaque), _combine(expression.right, leaf_test, opaque=opaque)
        return lambda subject: left(subject) and right(subject)
    if isinstance(expression, Or):
        left, right = _combine(expression.left, leaf_test, opaque=opaque), _combine(expression.right, leaf_test, opaque=opaque)
        return lambda subject: left(subject) or right(subject)
    if isinstance(expression, AlwaysTrue):
        return lambda subject: True
    if isinstance(expression, AlwaysFalse):
        return lambda subject: False
    if isinstance(expression, BoundPredicate):
        return leaf_test(expression)
    if isinstance(expression, MayMatch | BoundComputed):
        return lambda subject: opaque
    raise TypeError(f"{type(expression).__name__} is not bound: bind the expression to a schema first")
