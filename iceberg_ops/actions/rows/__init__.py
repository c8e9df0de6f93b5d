"""Row operations on any engine: plan, evaluate, write, commit.

``row_engine`` is the protocol of engines, which find and write rows. ``evaluations`` re-evaluates a statement after a conflict,
``row_statement`` is a delete, update or merge, ``changed_rows`` makes its commit in either write mode, ``source_commits`` commits
an append or overwrite. ``merge_checks`` and ``upsert_plan`` hold the checks of these two before a row is read.

Elsewhere: the engines (``local``; Spark's is in ``spark_jobs``).
"""
