"""Rows of files, written again as new files: compaction, copy-on-write, sorts of large groups, changelogs.

``rewrite`` does one file group on any machine, as ``GroupWork`` in and ``GroupResult`` out, both JSON; ``copy_without`` leaves rows
out; ``staged_sort`` splits one large sort into tasks; ``row_places`` says where rows went. Every rewrite counts rows in and out.

Not here: which files form a group (``planning``), and what runs it (``actions.workers.runner``).

    result = rewrite_group(GroupWork.from_json(text))
"""
