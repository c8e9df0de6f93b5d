"""Operations as values, conflict validation, and the one loop that may move a table's pointer.

The subpackages, top to bottom: ``operations`` (one value for each way to change a table), ``validation`` (one function per
conflict), ``manifests`` (a snapshot's manifests), ``loop`` (the committer), ``protocol`` (the shared contracts).

**The steps of an operation**, from value to snapshot. An append of one file::

    operation = AppendFiles(added=(data_file,), run_key="load-2026-07-01")
    done = commit(catalog, table, operation)
    done.snapshot.summary["added-data-files"]  # "1"

1. ``commit`` loads the table. If a snapshot already carries the run key, that commit is the result.
2. ``operation.prepare(table)``, once: the work that does not depend on the attempt. For an append it is a ``SnapshotDraft``, which
   writes the manifest of the new file and keeps it for all attempts.
3. ``operation.validate(table, history)``: is the operation still correct, given the snapshots that others committed since it was
   planned? ``history`` holds those that no attempt has validated. An append checks that the table still has the columns of its
   files. A conflict is a ValidationError: nothing is committed.
4. ``operation.stage(prepared, table)``: a ``StagedCommit`` of requirements (the branch has not moved, the schema is the one of
   the files) and updates (a snapshot, the branch moved to it). Nothing in the table changes.
5. ``catalog.commit_table(table, requirements, updates)`` swaps the pointer, or refuses. If it refuses, the loop starts again at 1
   with fresh metadata. If there is no answer, the committer looks for its snapshot, and never swaps or deletes blindly.
6. The gate (``iceberg_ops.deletion``) deletes the files of losing attempts, after it has proven that the table does not refer to
   them.

Decided elsewhere: which files an operation names (``planning``, ``actions``), and how a pointer is kept (``catalog``).
"""
