"""Values that SQL computes from one row: ``upper(city)``, ``price * 2``, ``CASE WHEN ... END``; as Spark does, without Spark.

- ``terms`` are the values: columns, constants, calls, unbound (``Scalar``) and bound to a schema and typed (``Bound``).
- ``functions`` is the table of what can be called: argument types, result type, evaluation. A function more is an entry more.
  ``texts``, ``dates`` and ``arithmetic`` are what its entries evaluate with, ``casts`` the conversions between types.
- ``binding`` finds columns and types, ``evaluation`` makes of a bound term a function of a row.

The rule upheld: a term is evaluated as Spark 4 in ANSI mode with UTC does, its errors among it, or it is refused by name
(``NotEvaluated`` while binding, ``NotFolded`` for a single value). Not here: SQL text (``where_scalars``), Arrow (``data``).
"""
