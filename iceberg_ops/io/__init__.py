"""Storage: reads and writes files at locations.

- ``file_io`` is the protocol, ``load`` builds a FileIO from properties, and ``resolving`` selects the store by a location's
  scheme.
- ``local``, ``memory``, ``hdfs`` and ``stores`` (S3, GCS, Azure) are the stores; ``aws`` finds credentials. ``wrapped`` is the
  base of those that change a few methods of another: ``mapped``, ``read_only``, ``changing_files``.
- ``locations`` decides whether two locations name the same file.
- ``far_files`` and ``windowed_input`` save requests; ``renewal`` renews temporary credentials.

Elsewhere: who may delete a file (``deletion``), and what the bytes mean (``serde``, ``data``).

    io = load_file_io({"s3.endpoint": "http://127.0.0.1:9000"})
    io.read("s3://bucket/warehouse/db/t/metadata/v1.metadata.json")
"""
