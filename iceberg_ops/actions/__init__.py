"""What a job does, from its job spec to its report, on any engine.

``dispatch.run_job`` looks the action up, loads the table, and writes the report, however the job ends. Then:

- one module per action: ``rewrite_data_files``, ``expire_snapshots``, ``append``, ``delete``, ``merge`` and so on.
- ``run``: what an action is given, and what it gives back.
- ``groups``: work in groups of files, and the service that commits groups.
- ``rows``: row operations on any engine. ``local``: the engine in this process.
- ``workers``: the protocol of what runs work, and this machine's processes.

Not here: what is due and how files are grouped (``planning``), how rows are read and written (``data``), what conflicts
(``commit``), and what may be deleted (``deletion``).

    report = run_job(JobSpec(job="rewrite_data_files", table="prod.db.t", catalog=CatalogConfig(name="prod", type="sql", ...)))
    report.status, report.snapshot_ids, report.metrics
"""
