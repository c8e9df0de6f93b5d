"""A new snapshot's manifests: written, filtered, merged, and counted in its summary.

``snapshot_operation`` is the base of operations that make a snapshot; ``snapshot_draft`` turns their ``Changes`` into manifests;
``manifest_filter`` removes files, ``manifest_merge`` packs manifests, ``snapshot_summary`` counts.

Elsewhere: the bytes of manifests (``serde.manifests``), and the conflict checks (``validation``).

    write_manifests_to_append(table, data_files)
"""
