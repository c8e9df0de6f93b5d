"""A table as loaded from its catalog, and the information in its metadata.

``table.Table`` holds the identifier, the metadata, its location and a FileIO. ``manifests`` and ``entry_cache`` read its manifests;
``reachable`` lists every file that the metadata refers to; ``own_folders`` says which folders are the table's own; ``inspection``
builds the metadata tables; ``integrity`` compares the recorded and the stored files; ``state`` gives the size of the table for
reports.

Elsewhere: scans (``scan``), rows (``data``), changes (``commit``), deletion (``deletion``).

    table = catalog.load_table(("db", "t"))
    table.metadata.current_snapshot, table.schema, table.properties
"""
