"""The command line, ``iceberg-ops``: it reads arguments and returns documents and exit codes. It contains no rules of the format.

- ``start`` and ``main`` find the command, and turn errors into one line and an exit code.
- One module per command or family: ``rows`` (append to merge), ``maintenance`` (plan and run), ``scan``, ``files``,
  ``inspection``, ``check``, ``health``, ``create``, ``evolve``, ``imports``, ``refs``, ``catalogs``, ``catalog_test``, ``policy``,
  ``completion``.
- ``target`` and ``source`` are the options that several commands share, ``table_choice`` finds tables by name or glob.
- ``column_definitions``, ``alterations`` and ``sql_tokens`` parse the SQL of create and evolve.
- ``output``, ``scan_output``, ``standard_output``, ``report_view`` and ``table_view`` write what people and machines read;
  ``spark_launcher`` and ``spark_process`` run a job on Spark.

Elsewhere: everything that a command does (``actions``, ``catalog``, ``table``, ``scan``).

    iceberg-ops run rewrite_data_files prod.db.t --where "day >= DATE '2026-01-01'"
"""
