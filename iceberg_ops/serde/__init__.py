"""The files of the format, from and to bytes: metadata JSON, manifests and manifest lists (Avro), Puffin.

Each ``*_json`` module has a pair of functions for one part of the metadata; ``json_objects`` names what is wrong in a document.
``manifest_avro`` and ``manifest_list_avro`` read and write entries; ``manifest_columnar`` reads millions of them as columns;
``manifest_splicing`` copies blocks that do not change. ``puffin``, ``deletion_vector`` and ``theta_sketch`` are the formats of
statistics and deletes. Whatever is not as the spec says is a CorruptTableError with the file and the field.

Not here: what the values mean (``spec``), and where the bytes come from (``io``).

    metadata = metadata_from_json(data, location)
    data = metadata_to_json(replace(metadata, properties={"owner": "ops"}))
"""
