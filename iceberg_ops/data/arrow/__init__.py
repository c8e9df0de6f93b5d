"""Arrow types, arrays and batches for Iceberg's types and values, whatever file they come from.

``arrow_schema`` maps types, ``arrow_values`` values; the ``variant`` modules take variant values apart and put them together;
``arrow_sources`` opens stored bytes for Arrow and names what fails; ``batch_sizes``, ``small_batches`` and ``read_ahead`` bound
memory.

Not here: which column of a file is which field (``columns``), and file formats (``formats``).

    schema = arrow_schema(table.schema)
    array_of(LongType(), [1, None, 3])
"""
