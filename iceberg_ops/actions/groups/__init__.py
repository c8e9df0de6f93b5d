"""Work in groups of files that are committed by group: the shared part of the four rewrites.

``group_commits`` is the service, with ``group_plans`` (its input), ``group_batches`` (one commit), ``group_record`` (the content of
the report) and ``group_failures``. ``data_file_groups`` and ``delete_groups`` are the groups; ``certificate`` proves that a
rewritten group has the rows of the old one; ``replanning`` plans groups again after a conflict.

Elsewhere: which files make a group (``planning``), and how rows are rewritten (``data.rewriting``).
"""
