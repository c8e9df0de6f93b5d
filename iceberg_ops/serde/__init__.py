"""The files of the format, from and to bytes: metadata JSON, manifests and manifest lists (Avro), Puffin.

The rooms: ``manifests`` (entries, by rows or as columns, copied where they do not change) stands on ``avro``; ``json`` has a pair
of functions for each part of the metadata; ``puffins`` are the formats of statistics and deletion vectors. Whatever is not as the
spec says is a CorruptTableError with the file and the field.

Not here: what the values mean (``spec``), and where the bytes come from (``io``).

    metadata = metadata_from_json(data, location)
    data = metadata_to_json(replace(metadata, properties={"owner": "ops"}))
"""
