"""The one loop that may move a table's pointer, and the loop that re-evaluates a statement after a conflict.

``committer`` commits an operation, ``statement`` finds the rows of a statement again if others have changed the table in the
meantime.

Elsewhere: what an operation changes (``operations``), when it conflicts (``validation``), and how often is retried
(``protocol.retry``).

    done = commit(catalog, table, operation)
    done.snapshot.snapshot_id
"""
