"""The one room that deletes files.

No other module of the product calls ``FileIO.delete`` or ``delete_many``; a static test holds it. Each door states what proves that
a file may go:

- ``own_files``: a maker created the file itself and has not handed it to anybody.
- ``gate.discard_staged``: a run wrote the file for a commit that did not happen, and the table as it is now does not refer to it.
- ``gate.delete_unreferenced``: the table once referred to the file, or nothing ever did; the table as it is now does not.
- ``expired``: which files only removed snapshots refer to; ``orphans`` and ``expiry`` decide on candidates, the gate on deletion.
- ``metadata_files``: a metadata file that a catalog refused, or that fell out of the metadata log.
- ``purge``: all files of a table that its catalog has forgotten.
- ``leases`` and ``notes``: small files by which running jobs tell each other what to keep; ``places`` says where they lie.

What cannot be proven stays, and is reported; the orphan job takes it later. Not here: which snapshots expire
(``commit.retention``), which listed files are orphans (``planning.remove_orphan_files``).

    done = discard_staged(table, lambda: catalog.load_table(name), ["s3://wh/t/data/00000-…parquet"])
    done.deleted, done.kept, done.failures
"""
