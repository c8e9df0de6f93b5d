"""Avro for manifests: containers, schemas, records; decoded as columns if the schema allows it.

``avro_container`` finds the blocks of a file, ``avro_schema`` makes its schema one that decodes by field id, ``avro_records``
decodes record by record, and ``avro_columns`` column by column. ``manifest_fields`` lists the fields of manifests and manifest
lists.

Elsewhere: entries and manifest lists as values (``manifests``).

    container = read_container(data, name)
"""
