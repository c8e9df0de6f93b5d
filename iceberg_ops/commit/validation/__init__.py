"""Which concurrent changes make a commit wrong: one function a conflict, named after what it prevents.

Each names the anomaly (a lost update, a row that comes back, a dropped schema) and the check of Iceberg Java that it stands for,
and raises ValidationError with snapshot, operation and file.

    no_resurrected_rows(table, history, replaced)
"""
