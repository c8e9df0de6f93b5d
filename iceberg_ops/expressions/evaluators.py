"""Re-exports every evaluator of bound expressions; see the modules for their rules."""

from __future__ import annotations

from iceberg_ops.expressions.metrics_evaluators import (
    manifest_may_match,
    manifest_pruner,
    metrics_all_match,
    metrics_may_match,
    metrics_prover,
    metrics_pruner,
)
from iceberg_ops.expressions.residuals import residual, residuals
from iceberg_ops.expressions.row_evaluator import partition_matches, row_filter, row_matches

__all__ = [
    "manifest_may_match",
    "manifest_pruner",
    "metrics_all_match",
    "metrics_may_match",
    "metrics_prover",
    "metrics_pruner",
    "partition_matches",
    "residual",
    "residuals",
    "row_filter",
    "row_matches",
]
