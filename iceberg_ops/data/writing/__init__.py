"""New data and delete files: cut by partition and size, named, measured, and deleted if the work fails.

``writer`` cuts rows, ``parquet_writer`` and ``avro_writer`` write one file, ``conform`` converts given rows to the schema,
``delete_files``, ``row_deletes`` and ``upsert_keys`` write deletes. ``write_context`` is the table information they need.

Elsewhere: sorting rows (``sorting``), and any commit (``commit``).

    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=operation_id)
    writer.write(batch)
    data_files = writer.close()
"""
