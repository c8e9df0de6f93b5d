"""What an operation, the committer and their helpers agree on: values, history since the start, run keys, retries.

``operation`` is the contract, ``history`` the snapshots that others committed since an operation was planned, ``run_keys`` and
``ledger`` the memory of what was committed before, ``retry`` how often and how long is tried, ``retention`` what expires.

    history = History(table, branch, starting_snapshot_id)
"""
