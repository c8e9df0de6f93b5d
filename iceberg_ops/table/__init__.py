"""A table as its catalog gave it, and what can be asked of its metadata.

``table.Table`` holds the identifier, the metadata, its location and a FileIO. ``manifests`` and ``entry_cache`` read its manifests;
``reachable`` lists every file that the metadata refers to; ``own_folders`` says which folders are the table's own; ``inspection``
builds the metadata tables; ``integrity`` checks what is recorded against what is stored; ``state`` says how large the table is, for
reports.

Not here: scans (``scan``), rows (``data``), changes (``commit``), deletion (``deletion``).

    table = catalog.load_table(("db", "t"))
    table.metadata.current_snapshot, table.schema, table.properties
"""
