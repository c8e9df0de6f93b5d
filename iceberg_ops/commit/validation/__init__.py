"""Which concurrent changes make a commit wrong: one function per conflict, named after what it prevents.

Each function names the anomaly (a lost update, a row that comes back, a dropped schema) and the corresponding check of Iceberg
Java, and raises ValidationError with snapshot, operation and file.

    no_resurrected_rows(table, history, replaced)
"""
