"""Files that belong to no table, as rows for a table or as its files: which of them are data, whether they fit, what they hold.

``source_folder`` lists, ``source_fit`` and ``source_parts`` read Parquet without conversion, ``text`` reads CSV and JSON,
``imported_files`` and ``imported_rows`` import files unchanged.

    footer, schema = read_parquet_footer(io, location)
"""
