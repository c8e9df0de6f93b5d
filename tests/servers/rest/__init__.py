"""Iceberg's own REST adapter (``RESTCatalogAdapter`` over a JDBC catalog) as a server for tests; ``make jars`` gets it."""
