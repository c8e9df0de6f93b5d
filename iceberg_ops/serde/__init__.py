"""Converts the files of the format from and to bytes: metadata JSON, manifests and manifest lists (Avro), Puffin.

The subpackages: ``manifests`` (entries, by rows or as columns, unchanged ones copied) uses ``avro``; ``json`` has a pair of
functions for each part of the metadata; ``puffins`` are the formats of statistics and deletion vectors. Anything that breaks the
spec is a CorruptTableError with the file and the field.

Elsewhere: what the values mean (``spec``), and where the bytes are stored (``io``).

    metadata = metadata_from_json(data, location)
    data = metadata_to_json(replace(metadata, properties={"owner": "ops"}))
"""
