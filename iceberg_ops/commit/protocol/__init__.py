"""The contracts between an operation and the committer: values, history since the start, run keys, retries.

``operation`` is the contract, ``history`` the snapshots that others committed since an operation was planned, ``run_keys`` and
``ledger`` the record of earlier commits, ``retry`` the number and time of attempts, ``retention`` which snapshots expire.

    history = History(table, branch, starting_snapshot_id)
"""
