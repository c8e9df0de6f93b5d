"""Converts a file's columns to a schema: field ids, type promotion, defaults, transforms, keys and filters.

``file_columns`` finds a field's column, ``projection`` and ``promotion`` convert it to the read type, ``missing_values`` fills
values that a file does not have. ``partition_values`` are transforms of whole columns, ``sort_keys`` are the keys that Arrow sorts,
``row_filter`` evaluates a condition over columns. ``read_context`` is the table information they need, as a value that can be sent
to other processes.

Elsewhere: opening files (``formats``), deletes (``deletes``).

    transformed(BucketTransform(16), LongType(), array)
"""
