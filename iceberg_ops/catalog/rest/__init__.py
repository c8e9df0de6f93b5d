"""Catalogs behind the Iceberg REST protocol (``rest-catalog-open-api.yaml``): the server keeps the pointer and writes the metadata.

``rest_catalog`` is the catalog. ``connection`` sends requests and classifies the answers; ``authorization`` and its helpers
authenticate them; ``commits`` selects the requirements that the server can check; ``storage`` builds the FileIO of a table's files.
"""
