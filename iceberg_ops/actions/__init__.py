"""Runs a job from its job spec to its report, on any engine.

``dispatch.run_job`` finds the action, loads the table, and writes the report, however the job ends. The modules:

- one module per action: ``rewrite_data_files``, ``expire_snapshots``, ``append``, ``delete``, ``merge`` and so on.
- ``run``: the input of an action, and its result.
- ``groups``: work in groups of files, and the service that commits groups.
- ``rows``: row operations on any engine. ``local``: the engine in this process.
- ``workers``: the protocol of runners, and this machine's processes.

Elsewhere: which work is due and how files are grouped (``planning``), how rows are read and written (``data``), which commits
conflict (``commit``), and which files may be deleted (``deletion``).

    report = run_job(JobSpec(job="rewrite_data_files", table="prod.db.t", catalog=CatalogConfig(name="prod", type="sql", ...)))
    report.status, report.snapshot_ids, report.metrics
"""
