"""Files that are not a table's, as rows for it or as files of it: which of them are data, whether they fit, what they hold.

``source_folder`` lists, ``source_fit`` and ``source_parts`` read Parquet without conversion, ``text`` reads CSV and JSON,
``imported_files`` and ``imported_rows`` take files over as they are.

    footer, schema = footer_of(io, location)
"""
