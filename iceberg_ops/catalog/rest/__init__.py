"""Catalogs behind the Iceberg REST protocol (``rest-catalog-open-api.yaml``): the server keeps the pointer and writes the metadata.

``rest_catalog`` is the catalog. ``connection`` asks the server and sorts its answers; ``authorization`` and what it builds on prove
who asks; ``commits`` says what of a commit the server can check; ``storage`` builds the FileIO that a table's files are reached by.
"""
