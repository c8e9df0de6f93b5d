"""Live rows of scan tasks and tables: read, without deleted rows, filtered, with the requested columns.

``reader`` is the entry point; ``json_rows`` prints rows, ``distinct_values`` counts them, ``deep_check`` compares files with their
manifests.

    for batch in read_task(task, ReadContext.for_table(table.metadata), table.io): ...
"""
