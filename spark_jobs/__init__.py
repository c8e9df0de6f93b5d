"""The Spark engine: one ``spark-submit`` entry, one job per action.

Spark gives distribution, shuffles and SQL meaning; Arrow reads and writes the bytes; every commit goes through
``iceberg_ops.commit``. Layers: ``main`` > ``jobs`` > ``runners`` > ``session``.
"""
