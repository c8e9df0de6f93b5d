"""Operations as values, conflict validation, and the one loop that may move a table's pointer.

The rooms, top to bottom: ``operations`` (one value for each way to change a table), ``validation`` (one function a conflict),
``manifests`` (a snapshot's manifests), ``loop`` (the committer), ``protocol`` (what they all agree on).

**The way of an operation**, from value to snapshot. An append of one file::

    operation = AppendFiles(added=(data_file,), run_key="load-2026-07-01")
    done = commit(catalog, table, operation)
    done.snapshot.summary["added-data-files"]  # "1"

1. ``commit`` loads the table. Where a snapshot carries the run key already, that commit is the answer.
2. ``operation.prepare(table)``, once: what does not depend on the attempt. For an append a ``SnapshotDraft``, which writes the
   manifest of the new file and keeps it over all attempts.
3. ``operation.validate(table, history)``: is it still right, given the snapshots that others committed since it was planned?
   ``history`` holds those that no attempt has validated. An append asks whether the table still has the columns of its files. A
   conflict is a ValidationError: nothing is committed.
4. ``operation.stage(prepared, table)``: a ``StagedCommit`` of requirements (the branch is where it was, the schema is the one of
   the files) and updates (a snapshot, the branch moved to it). Nothing of the table changes.
5. ``catalog.commit_table(table, requirements, updates)`` swaps the pointer, or refuses. Refused: back to 1 on fresh metadata. No
   answer: the committer looks for its snapshot, and never swaps or deletes blindly.
6. What losing attempts wrote goes through the gate (``iceberg_ops.deletion``), which proves first that the table does not refer
   to it.

Not here: which files an operation names (``planning``, ``actions``), and how a pointer is kept (``catalog``).
"""
