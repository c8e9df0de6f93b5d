"""All JSON of Iceberg: table metadata, schemas, specs, snapshots, updates, single values (spec: Appendix C).

One module per part of the metadata, each with a pair of functions. Unknown fields survive a rewrite: ``json_objects`` keeps them.

Elsewhere: what the values mean (``spec``), and the documents of this package (``config``).

    metadata = metadata_from_json(data, name)
"""
