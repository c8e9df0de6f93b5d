"""Sorted rows, in memory or on disk: by a sort order, Z-order or a Hilbert curve.

``external_sort`` sorts more rows than memory holds, ``sorted_writer`` writes rows in the table's order, ``key_sample`` and
``zorder`` find the ranges of keys.

Elsewhere: the keys (``columns.sort_keys``).

    writer = table_writer(context, io, operation_id=operation_id)
"""
