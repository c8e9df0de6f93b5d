"""What a job does, from its job spec to its report, on any engine.

``dispatch.run_job`` looks the action up, loads the table, and writes the report, however the job ends. Then:

- one module per action: ``rewrite_data_files``, ``expire_snapshots``, ``append``, ``delete``, ``merge`` and so on.
- ``context``: the ``Run`` that an action is given (job, table, clock, lease, steps) and the ``Outcome``: what is known of the job
  if it fails. ``results``: what it gives back where it does not.
- ``runner``: the protocol of what rewrites file groups; ``local_runner`` and ``worker_processes``, each of which runs
  ``worker_main``, do it on this machine; ``worker_frames`` is how they talk.
- ``row_engine``: the protocol of what finds and writes the rows of row operations. ``local_engine`` does it in this process, with
  ``local_rows``, ``local_update``, ``local_merge``, ``local_upsert`` and ``source_files``.
- ``evaluations``, ``row_statement``, ``changed_rows``, ``source_commits``: what row operations share, on any engine.
- ``group_commits``: the service that runs and commits groups, with ``group_plans`` (what it is given), ``group_batches`` (one
  commit) and ``group_record``; ``data_file_groups`` and ``delete_groups`` are the groups. ``row_commits``: how row changes are
  committed.

Not here: what is due and how files are grouped (``planning``), how rows are read and written (``data``), what conflicts
(``commit``), and what may be deleted (``deletion``).

    report = run_job(JobSpec(job="rewrite_data_files", table="prod.db.t", catalog=CatalogConfig(name="prod", type="sql", ...)))
    report.status, report.snapshot_ids, report.metrics
"""
