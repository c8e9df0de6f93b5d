"""A new snapshot's manifests: written, filtered, merged, and counted in its summary.

``snapshot_operation`` is the base of operations that make a snapshot, ``snapshot_draft`` what becomes of its ``Changes``;
``manifest_filter`` takes files out, ``manifest_merge`` packs manifests, ``snapshot_summary`` counts.

Not here: bytes of manifests (``serde.manifests``), and what may not be committed (``validation``).

    write_manifests_to_append(table, data_files)
"""
