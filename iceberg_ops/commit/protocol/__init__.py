"""The contracts between an operation and the committer: values, history since the start, run keys, retries.

``operation`` is the contract, ``history`` the snapshots that others committed since an operation was planned, ``changed_entries``
the files that a snapshot added and removed, ``run_keys`` and ``ledger`` the record of earlier commits, ``retry`` the number and
time of attempts, ``retention`` which snapshots expire.

Elsewhere: the operations themselves (``operations``), and the loop that follows the contract (``loop``).

    history = History(table, branch, starting_snapshot_id)
"""
