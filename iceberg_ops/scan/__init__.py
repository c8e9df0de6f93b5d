"""Which files a read needs, with which deletes.

``planning`` plans a scan: ``snapshot_choice`` chooses its snapshot and schema, ``spec_filter`` and ``columnar_pruning`` select
manifests and files, ``delete_index`` and ``delete_overlap`` find the delete files of each. ``incremental`` plans the changes
between two snapshots. ``tasks`` are the result.

Elsewhere: reading the rows (``data``), and conditions (``expressions``).

    for task in plan(table, Scan(where=parse_where("day >= DATE '2026-01-01'"))).tasks: ...
"""
