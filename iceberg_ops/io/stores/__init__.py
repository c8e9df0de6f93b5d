"""Object stores: S3, Google Cloud Storage and Azure Blob Storage, spoken to by obstore.

- ``places``: what a location names in a store, and which locations no client can reach.
- ``s3``, ``gcs``, ``azure``: from Iceberg's properties to a client; each imported only when a location of its scheme is met.
- ``answers``: what a client's error means to the caller.
- ``object_store``: the FileIO; ``ranged_input`` and ``staged_output`` are its open files, ``creation``, ``deletes``
and ``listings`` what they say.
"""
