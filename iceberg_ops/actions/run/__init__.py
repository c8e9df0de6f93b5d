"""One run of one job: the input of an action, and its result.

``context`` is the ``Run`` (job, table, clock, lease, steps) with its ``Outcome``, the state of the job if it fails. ``results`` are
the results of an action that does not fail. ``run_identity`` says which piece of work a run key names, ``staged_files`` deletes the
files that a run wrote and did not commit, ``ending_error`` and ``report_file`` report how a failed run ended.

Elsewhere: which action a job is (``dispatch``), and how changes are committed (``commit``).

    with run.step("plan"), run.lease(snapshot_id):
        ...
    return NothingToDo(findings=run.outcome.findings())
"""
