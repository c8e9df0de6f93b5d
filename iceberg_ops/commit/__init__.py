"""Operations as values, conflict validation, and the one loop that may move a table's pointer."""
