"""One job per action: Spark evaluates row operations, ``iceberg_ops.actions`` runs maintenance on Spark's executors.

- ``dispatch`` runs a job in a session; ``spark_engine`` is Spark as an engine of row operations, ``spark_run`` one evaluation.
- ``delete``, ``update``, ``merge``, ``upsert`` and ``ingest``: one module per statement. ``row_change`` is what they find,
  ``assignment`` and ``write_defaults`` convert values to the table's columns, ``distribution`` spreads rows over tasks.
- ``source_rows`` and the modules named ``source_*``, ``text_source`` and ``staged_source``: the rows of a source, read once if they
  could differ (``repeatable``).
- ``conditions`` and ``sql_tables`` check SQL of users; ``spark_errors`` and ``interrupts`` turn Spark's errors into this package's.

Elsewhere: the tasks on executors (``runners``), planning and commits (``iceberg_ops``).

    report = run(session, job_spec)
"""
