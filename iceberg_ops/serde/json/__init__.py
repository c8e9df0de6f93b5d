"""Everything that Iceberg writes as JSON: table metadata, schemas, specs, snapshots, updates, single values (spec: Appendix C).

Fields that are not known survive a rewrite.

    metadata = metadata_from_json(data, name)
"""
