"""Where the pointer to a table's current metadata lives, and how it is swapped.

- ``catalog`` is the protocol, ``load`` builds a catalog from its configuration, and ``configuration`` finds that by its name.
- One module or subpackage per kind: ``memory``, ``filesystem``, ``sql``, ``rest``, ``hive``, ``nessie``, ``glue``. What they
  share: ``base`` (all kinds), ``pointer`` (those that move one pointer by compare-and-swap), ``recording`` (those that record more
  than the pointer) and ``one_level`` (those with one level of namespaces).
- ``next_metadata`` computes a commit's metadata, ``outcomes`` decides whether an interrupted change happened.
- ``dropping``, ``neighbours``, ``near_tables``, ``second_catalogs`` and ``registration`` find other tables that a drop or a
  deletion would damage.
- ``probe`` tries a catalog step by step; ``foreign`` reads the settings of PyIceberg and Spark.

Elsewhere: what a commit changes (``commit``), and which files are deleted (``deletion``).

    catalog = load_catalog(CatalogConfig(name="prod", type="sql", properties={"uri": ..., "warehouse": ...}))
    table = catalog.load_table(("db", "t"))
"""
