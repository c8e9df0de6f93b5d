"""The command line, ``iceberg-ops``: it reads arguments and returns documents and exit codes. It contains no rules of the
format."""
