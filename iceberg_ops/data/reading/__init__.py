"""Live rows of scan tasks and tables: read, minus deletes, filtered, with the columns that are asked for.

``reader`` is the way in; ``json_rows`` prints rows, ``distinct_values`` counts them, ``deep_check`` compares files with their
manifests.

    for batch in read_task(task, ReadContext.for_table(table.metadata), table.io): ...
"""
