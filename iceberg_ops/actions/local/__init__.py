"""The engine of row operations in this process, with Arrow.

``local_engine`` is the engine, ``local_rows``, ``local_update``, ``local_merge`` and ``local_upsert`` its statements.
``local_source`` finds a source's files and checks that they do not change, ``source_files`` writes them as files of the table,
``source_in_memory`` holds the rows that a merge or an upsert looks up. ``delete_rows`` is a delete for programs without a job.

Elsewhere: everything of Spark, and how rows are read and written (``data``).
"""
