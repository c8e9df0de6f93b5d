"""One run of one job: what an action is given, and what becomes of it.

``context`` is the ``Run`` (job, table, clock, lease, steps) with its ``Outcome``, what is known of the job if it fails. ``results``
are what an action gives back if it does not. ``run_identity`` says which piece of work a run key names, ``staged_files`` deletes
what a run wrote and did not commit, ``ending_error`` and ``report_file`` say how a failed run ended.

Not here: which action a job is (``dispatch``), and how anything is committed (``commit``).

    with run.step("plan"), run.lease(snapshot_id):
        ...
    return NothingToDo(found=run.outcome.found())
"""
