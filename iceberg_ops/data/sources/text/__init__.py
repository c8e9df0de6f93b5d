"""CSV and JSON text as rows with the types of a table's columns, record by record.

``csv_records`` cuts text into records and fields (RFC 4180), ``csv_rows`` and ``json_rows`` make typed columns of them, and
``text_values`` and ``json_values`` say which text is a value of which type. A record that is not readable, or holds a value that is
none of its column's type, is a bad record: its row is NULL everywhere and says why. Nothing is rounded, cut or guessed for a column
that the table has.

Where the text lies, who reads it and what becomes of bad records are not the business of this package: every engine hands it lines
or whole files, and gets Arrow arrays back. First example::

    shape = csv_rows.CsvShape(("id", "price"), (LONG, DecimalType(9, 2)))
    parsed = csv_rows.parse(["1,2.50", "x,1"], shape, CsvOptions())
    parsed.columns[1].to_pylist()  # [Decimal("2.50"), None]
    parsed.bad[1].reason           # "column 'id': 'x' is no long"
"""
