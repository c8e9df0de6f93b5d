"""Plans of maintenance as values: which files, in which groups, in which order. Nothing is written.

One module per action that plans (``rewrite_data_files``, ``rewrite_manifests``, ``remove_orphan_files`` and so on), and their
shared modules: ``file_groups`` packs files, ``output_sizes`` computes the sizes of new ones, ``sort_orders`` and ``clustering``
handle the order of rows, ``live_deletes`` and ``dangling_deletes`` find the delete files that still apply.

Elsewhere: running a plan (``actions``).

    plan = plan_rewrite_data_files(table, rewrite_data_files_options({}, table.properties))
    plan.groups, plan.skipped, plan.estimates
"""
