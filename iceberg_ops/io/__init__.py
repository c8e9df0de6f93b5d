"""Storage: reads and writes files at locations."""
