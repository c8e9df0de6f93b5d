"""Rows: data and delete files read into Arrow, and written from it.

The rooms, top to bottom; a module imports only from rooms below, or from its own:

- ``sources``: files that are not a table's, Parquet, CSV and JSON, as rows or as files of one.
- ``rewriting``: rows of files, written again as new files: compaction, copy-on-write, large sorts, changelogs.
- ``sorting``: rows in an order, within memory or beyond it.
- ``reading``: live rows of scan tasks. ``writing``: new data and delete files.
- ``deletes``: what delete files delete.
- ``formats``: Parquet, Avro and ORC, opened alike.
- ``columns``: a file's columns as a schema asks for them.
- ``arrow``: Arrow types, arrays and batches for Iceberg's.

Not here: which files to read (``scan``), and any change of a table (``commit``).

    context = ReadContext.for_table(table.metadata)
    for batch in read_task(task, context, table.io): ...
"""
