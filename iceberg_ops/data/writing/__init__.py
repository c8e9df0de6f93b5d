"""New data and delete files: cut by partition and size, named, measured, and thrown away where the work fails.

``writer`` cuts rows, ``parquet_writer`` and ``avro_writer`` write one file, ``conform`` makes foreign rows fit the schema,
``delete_files``, ``row_deletes`` and ``upsert_keys`` write deletes. ``write_context`` is what they need to know of a table.

Not here: rows in order (``sorting``), and any commit (``commit``).

    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=operation_id)
    writer.write(batch)
    data_files = writer.close()
"""
