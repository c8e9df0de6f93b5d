"""Catalogs from the configuration of other programs, on request (see ``catalog.configuration``).

- ``taken``: one such catalog as a configuration of this package, and its settings that have no effect.
- ``pyiceberg_settings``: ``.pyiceberg.yaml`` and ``PYICEBERG_CATALOG__*``.
- ``spark_settings``: ``spark.sql.catalog.*`` of a properties file, which ``java_properties`` reads; ``jdbc`` converts its URLs,
  ``hadoop_files`` the settings of Hadoop's clients.
"""
