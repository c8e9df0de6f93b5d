"""A catalog in Nessie, by its own API (version 2).

Modules, from the bottom: ``references`` (a reference, and a table's name with one), ``settings`` (the properties of Iceberg Java's
NessieCatalog), ``nessie_client`` (calls that say whether a change happened), ``nessie_table`` (what Nessie keeps of a table),
``nessie_catalog``.
"""
