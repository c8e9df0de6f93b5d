"""Where the pointer to a table's current metadata lives, and how it is swapped."""
