"""Rows: data and delete files read into Arrow, and written from it.

The subpackages, top to bottom; a module imports only from those below, or from its own:

- ``sources``: files that belong to no table (Parquet, CSV and JSON), as rows or as files of a table.
- ``rewriting``: rows of files, rewritten as new files: compaction, copy-on-write, large sorts, changelogs.
- ``sorting``: sorted rows, in memory or on disk.
- ``reading``: live rows of scan tasks. ``writing``: new data and delete files.
- ``deletes``: the rows that delete files delete.
- ``formats``: Parquet, Avro and ORC behind one interface.
- ``columns``: a file's columns converted to a schema.
- ``arrow``: Arrow types, arrays and batches for Iceberg's.

Elsewhere: which files to read (``scan``), and any change of a table (``commit``).

    context = ReadContext.for_table(table.metadata)
    for batch in read_task(task, context, table.io): ...
"""
