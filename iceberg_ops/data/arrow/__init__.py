"""Arrow types, arrays and batches for Iceberg's types and values, whatever file they come from.

``arrow_schema`` converts types, ``arrow_values`` values; the ``variant`` modules decode and encode variant values;
``arrow_sources`` opens stored bytes for Arrow and names the file in errors; ``batch_sizes``, ``small_batches`` and ``read_ahead``
limit memory.

Elsewhere: which column of a file is which field (``columns``), and file formats (``formats``).

    schema = arrow_schema(table.schema)
    array_of(LongType(), [1, None, 3])
"""
