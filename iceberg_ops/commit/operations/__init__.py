"""The operations: one value for each way to change a table.

Each operation says what to add and remove, is validated against concurrent commits, and is staged as requirements and updates.
Nothing here swaps a pointer: ``commit.loop.committer`` does.

    commit(catalog, table, AppendFiles(added=data_files, run_key="2026-07-01"))
"""
