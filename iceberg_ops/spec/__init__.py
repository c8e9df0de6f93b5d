"""The format as immutable values: no I/O and no JSON."""
