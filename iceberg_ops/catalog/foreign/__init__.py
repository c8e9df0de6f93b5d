"""Catalogs out of the configuration of other programs, on request (see ``catalog.configuration``).

- ``taken``: what one such catalog is here, and what of its settings has no effect.
- ``pyiceberg_settings``: ``.pyiceberg.yaml`` and ``PYICEBERG_CATALOG__*``.
- ``spark_settings``: ``spark.sql.catalog.*`` of a properties file, which ``java_properties`` reads; ``jdbc`` turns its URLs, and
  ``hadoop_files`` the settings of Hadoop's clients.
"""
