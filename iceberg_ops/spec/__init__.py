"""The format as immutable values: no I/O and no JSON.

- ``table_metadata``, ``snapshots``, ``manifests``, ``content_files`` and ``statistics`` are the documents of the spec.
- ``types`` and ``schema``, ``partitioning`` and ``transforms``, ``sorting``: columns, partition specs and sort orders. The modules
  named ``*_evolution`` build new ones, ``validity`` checks them.
- ``updates`` and ``requirements`` are what a commit consists of; ``metadata_builder`` applies updates.
- ``values``, ``epoch``, ``wkb`` and ``bounds`` convert values of a type; ``name_mapping`` and ``promotion`` relate files to later
  schemas.

Elsewhere: the bytes (``serde``), and conditions on values (``expressions``).

    schema = Schema(StructType((NestedField(1, "id", LONG, required=True),)))
"""
