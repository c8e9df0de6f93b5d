"""The one loop that may move a table's pointer, and the loop that re-evaluates a statement after a conflict.

done = commit(catalog, table, operation)
done.snapshot.snapshot_id
"""
