"""CSV and JSON text as rows with the types of a table's columns, record by record.

``csv_records`` cuts text into records and fields (RFC 4180), ``csv_rows`` and ``json_rows`` make typed columns of them, and
``text_values`` and ``json_values`` define which text is a value of which type. A record that cannot be read, or that holds a value
that is not of its column's type, is a bad record: its row is NULL everywhere and has a reason. Nothing is rounded, truncated or
guessed for a column that the table has.

Finding and reading the text, and handling bad records, are not part of this package: every engine passes lines or whole files, and
gets Arrow arrays back. A first example::

    shape = csv_rows.CsvShape(("id", "price"), (LONG, DecimalType(9, 2)))
    parsed = csv_rows.parse(["1,2.50", "x,1"], shape, CsvOptions())
    parsed.columns[1].to_pylist()  # [Decimal("2.50"), None]
    parsed.bad[1].reason           # "column 'id': 'x' is not a valid long"
"""
