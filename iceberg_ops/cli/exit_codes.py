"""Exit codes of ``iceberg-ops`` other than 0 and 1."""

WORK_FOUND = 2
"""A plan found work."""
STOPPED = 130
"""Ctrl-C, and nothing was changed: 128 plus the number of the signal, as in a shell."""
