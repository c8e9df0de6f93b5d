"""The command line, ``iceberg-ops``: arguments in, documents and exit codes out. No rules of the format live here."""
