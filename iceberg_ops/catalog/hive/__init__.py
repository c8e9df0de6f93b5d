"""The Hive Metastore as a catalog, in the layout of Iceberg Java's HiveCatalog: Java, Trino and Hive can use the same tables.

- ``metastore``: the thrift client. For each call it reports whether the call may have had an effect.
- ``hive_lock``: the metastore's exclusive lock on a table.
- ``hive_table``: the metastore's record of a table: parameters, columns, storage.
- ``hive_catalog``: the catalog.

A first example::

    catalog = HiveCatalog("lake", Metastore("lake", "thrift://metastore:9083"), io, warehouse="s3://bucket/wh")
    catalog.load_table(("sales", "orders"))
"""
