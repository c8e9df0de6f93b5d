"""Conditions: from text to expressions, and what they say about rows, files, manifests and partitions.

- ``where`` reads the SQL of a WHERE; ``where_for_spark`` makes of it what Spark can read; ``json`` is the form of scan reports and
  REST.
- ``predicates`` are the values: comparisons, ``And``, ``Or``, ``Not``. A part that is not understood is "may be true".
- ``binding`` finds their columns in a schema by field id, and casts their literals.
- ``row_evaluator`` is exact on rows. ``evaluators``, ``metrics_evaluators``, ``projection`` and ``residuals`` are exact or say "may
  match": by partition values, by column bounds and counts.

Not here: reading any file (``data``, ``scan``).

    where = bind(schema, parse_where("city = 'Oslo' AND day >= DATE '2026-01-01'"))
"""
