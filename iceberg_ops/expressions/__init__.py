"""Conditions: parsing text to expressions, and evaluating them on rows, files, manifests and partitions.

- ``where`` parses the SQL of a WHERE; ``where_for_spark`` converts it for Spark; ``json`` is the form of scan reports and
  REST.
- ``predicates`` are the values: comparisons, ``And``, ``Or``, ``Not``. A part that is not understood counts as "may be true".
- ``binding`` resolves their columns in a schema by field id, and casts their literals.
- ``row_evaluator`` is exact on rows. ``evaluators``, ``metrics_evaluators``, ``projection`` and ``residuals`` are exact or answer
  "may match": by partition values, by column bounds and counts.

Elsewhere: reading files (``data``, ``scan``).

    where = bind(schema, parse_where("city = 'Oslo' AND day >= DATE '2026-01-01'"))
"""
