"""The Hive Metastore as a catalog, laid out as Iceberg Java's HiveCatalog: Java, Trino and Hive work on the same tables.

- ``metastore``: the thrift client. It says of each call whether it may have had an effect.
- ``hive_lock``: the metastore's exclusive lock on a table.
- ``hive_table``: what the metastore records of a table: parameters, columns, storage.
- ``hive_catalog``: the catalog.

A first example::

    catalog = HiveCatalog("lake", Metastore("lake", "thrift://metastore:9083"), io, warehouse="s3://bucket/wh")
    catalog.load_table(("sales", "orders"))
"""
