"""Rows: data and delete files read into Arrow, and written from it.

- reading: ``reader.read_task`` gives the live rows of a scan task; ``parquet_reader``, ``avro_reader``, ``orc_reader`` the columns
  of one file by field id; ``row_deletes``, ``position_deletes``, ``deletion_vectors``, ``equality_deletes`` what is deleted from
  it; ``projection`` and ``promotion`` give the types and defaults of the schema that is asked for.
- writing: ``writer`` cuts rows by partition and size; ``sorted_writer``, ``external_sort``, ``staged_sort`` put them in order
  first; ``metrics`` and ``footer_statistics`` count what a file holds; ``delete_files`` writes deletes.
- ``rewrite``: one file group into new files, on any machine; ``group_work`` is what is shipped and what comes back, in JSON.
- rows from elsewhere: ``source_folder`` and ``source_fit`` say whether foreign files can be read as rows of a table; ``conform``
  makes rows that a program hands in fit the schema.

Not here: which files to read (``scan``), and any change of a table (``commit``).

    context = ReadContext.for_table(table.metadata)
    for batch in read_task(task, context, table.io): ...
"""
