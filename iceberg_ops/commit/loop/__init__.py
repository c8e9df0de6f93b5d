"""The one loop that may move a table's pointer, and statements that are evaluated again after a conflict.

done = commit(catalog, table, operation)
done.snapshot.snapshot_id
"""
