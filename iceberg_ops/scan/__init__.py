"""Which files a read needs, with which deletes: tasks, delete index, planning, incremental reads."""
