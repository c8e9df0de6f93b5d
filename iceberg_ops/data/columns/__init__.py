"""A file's columns as a schema asks for them: field ids, type promotion, defaults, transforms, keys and filters.

``file_columns`` finds a field's column, ``projection`` and ``promotion`` give it the type that is read, ``missing_values`` what a
file does not have. ``partition_values`` are transforms of whole columns, ``sort_keys`` what Arrow sorts, ``row_filter`` a condition
over columns. ``read_context`` is what they need to know of a table, as a value that travels to other processes.

Not here: opening files (``formats``), deletes (``deletes``).

    transformed(BucketTransform(16), LongType(), array)
"""
