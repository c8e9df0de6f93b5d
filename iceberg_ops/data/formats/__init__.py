"""Data and delete files of each format, opened as Arrow batches; and what Parquet's footers and writers are told and tell.

``any_format.open_file`` opens Parquet, Avro and ORC alike. ``row_group_pruning`` and ``footer_statistics`` decide what is read,
``metrics`` what a new file's manifest entry says, ``parquet_options`` and ``encoding_hints`` how one is encoded.

Not here: the writers themselves (``writing``).

    open_file(io, location, FileFormat.PARQUET, ids)
"""
