"""Row operations on any engine: plan, evaluate, write, commit.

``row_engine`` is the protocol of what finds and writes rows. ``evaluations`` evaluates a statement again after a conflict,
``row_statement`` is a delete, update or merge, ``changed_rows`` makes its commit in either write mode, ``source_commits`` commits
an append or overwrite. ``merge_checks`` and ``upsert_plan`` say what these two need before a row is read.

Not here: any engine (``local``; Spark's is in ``spark_jobs``).
"""
