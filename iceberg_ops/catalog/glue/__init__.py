"""AWS Glue's Data Catalog, laid out as Iceberg Java's GlueCatalog: Java, Athena, EMR and Glue jobs work on the same tables.

- ``glue_client``: calls to Glue. It says of each change whether it may have had an effect.
- ``glue_table``: what Glue records of a table: parameters and columns.
- ``glue_catalog``: the catalog.

A first example::

    catalog = GlueCatalog("lake", Glue("lake", {"client.region": "eu-west-1"}), io, warehouse="s3://bucket/wh")
    catalog.load_table(("sales", "orders"))
"""
