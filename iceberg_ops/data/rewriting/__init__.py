"""Rows of files, rewritten as new files: compaction, copy-on-write, sorts of large groups, changelogs.

``rewrite`` rewrites one file group on any machine, with ``GroupWork`` as input and ``GroupResult`` as output, both JSON;
``copy_without`` leaves rows out; ``staged_sort`` splits one large sort into tasks; ``row_places`` finds the new places of rows.
Every rewrite counts its input and output rows.

Elsewhere: which files form a group (``planning``), and the runners (``actions.workers.runner``).

    result = rewrite_group(GroupWork.from_json(text))
"""
