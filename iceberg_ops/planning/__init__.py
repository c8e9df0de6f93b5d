"""What maintenance would do, as values: which files, in which groups, in which order. Nothing is written.

One module per action that plans (``rewrite_data_files``, ``rewrite_manifests``, ``remove_orphan_files`` and so on), and what they
share: ``file_groups`` packs files, ``output_sizes`` says how large new ones get, ``sort_orders`` and ``clustering`` how rows are
ordered, ``live_deletes`` and ``dangling_deletes`` which delete files still apply.

Not here: running a plan (``actions``).

    plan = plan_rewrite_data_files(table, rewrite_data_files_options({}, table.properties))
    plan.groups, plan.skipped, plan.estimates
"""
