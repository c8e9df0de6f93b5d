"""Data and delete files of each format, opened as Arrow batches; Parquet footers and writer options.

``any_format.open_file`` opens Parquet, Avro and ORC in the same way. ``row_group_pruning`` and ``footer_statistics`` decide which
row groups are read, ``metrics`` computes a new file's manifest entry, ``parquet_options`` and ``encoding_hints`` choose its
encodings.

Elsewhere: the writers themselves (``writing``).

    open_file(io, location, FileFormat.PARQUET, ids)
"""
