"""Object stores: S3, Google Cloud Storage and Azure Blob Storage, through obstore.

- ``places``: what a location names in a store, and which locations no client can reach.
- ``s3``, ``gcs``, ``azure``: from Iceberg's properties to a client; each imported only for the first location of its scheme.
- ``answers``: the package's error for each error of a client.
- ``object_store``: the FileIO; ``ranged_input`` and ``staged_output`` are its open files; ``creation``, ``deletes``
and ``listings`` are its other operations.
"""
