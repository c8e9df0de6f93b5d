"""All JSON of Iceberg: table metadata, schemas, specs, snapshots, updates, single values (spec: Appendix C).

Unknown fields survive a rewrite.

    metadata = metadata_from_json(data, name)
"""
