"""Work in groups of files, committed by groups: what the four rewrites share.

``group_commits`` is the service, with ``group_plans`` (what it is given), ``group_batches`` (one commit), ``group_record`` (what
the report says) and ``group_failures``. ``data_file_groups`` and ``delete_groups`` are the groups; ``certificate`` proves that a
rewritten group has the rows of the old one, ``replanning`` plans again what a conflict took.

Not here: which files make a group (``planning``), and how rows are rewritten (``data.rewriting``).
"""
