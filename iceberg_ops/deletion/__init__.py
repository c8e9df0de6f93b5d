"""The only package that deletes files.

No other module of the product calls ``FileIO.delete`` or ``delete_many``; a static test checks this. Each module states what proves
that a file may be deleted:

- ``own_files``: the writer created the file itself and has not handed it over to anybody.
- ``gate.discard_staged``: a run wrote the file for a commit that did not happen, and the current table does not refer to it.
- ``gate.delete_unreferenced``: the current table does not refer to the file.
- ``expired``: only removed snapshots refer to these files. ``orphans`` and ``expiry`` choose the candidates, the gate deletes them.
- ``metadata_files``: a metadata file that a catalog refused, or that dropped out of the metadata log.
- ``purge``: all files of a table that its catalog no longer has.
- ``leases`` and ``notes``: small files in which running jobs record which files must stay; ``places`` defines their folders.

A file without such a proof stays and is reported; a later orphan removal deletes it. Decided elsewhere: which snapshots expire
(``commit.retention``) and which listed files are orphans (``planning.remove_orphan_files``).

    done = discard_staged(table, lambda: catalog.load_table(name), ["s3://wh/t/data/00000-…parquet"])
    done.deleted, done.kept, done.failures
"""
