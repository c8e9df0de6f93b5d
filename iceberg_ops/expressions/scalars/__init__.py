"""Values that SQL computes from one row: ``upper(city)``, ``price * 2``, ``CASE WHEN ... END``; like Spark, without Spark.

- ``terms`` are the values: columns, constants, calls, unbound (``Scalar``) and bound to a schema and typed (``Bound``).
- ``functions`` is the table of functions: argument types, result type, evaluation. A new function is a new entry.
  ``texts``, ``dates`` and ``arithmetic`` implement its entries, ``casts`` the conversions between types.
- ``binding`` resolves columns and types, ``evaluation`` compiles a bound term to a function of a row.

The rule: a term is evaluated as in Spark 4 in ANSI mode with UTC, including its errors, or it is refused by name
(``NotEvaluated`` during binding, ``NotFolded`` for a single value). Elsewhere: SQL text (``where_scalars``), Arrow (``data``).
"""
