"""The next thing to try after each kind of failure, for reports and run books."""

from __future__ import annotations

_NEXT_STEPS = {
    "RETRYABLE": "run the job again: nothing was changed; a process that was killed for want of memory needs more of it",
    "COMMIT_FAILED": "run the job again: other commits were faster than its retries (commit.retry.* sets how many it makes)",
    "CATALOG_UNAVAILABLE": "check that the catalog and the store answer, then run the job again: nothing was changed",
    "RUN_KEY_REUSED": "give the run a key of its own",
    "COMMIT_STATE_UNKNOWN": "look for the run key in the table's snapshots first; then run again with the same run key",
    "INCOMPLETE": "see what is done in the report (snapshot-ids, groups, files), then run the job again: it does the rest",
    "CONFLICT": "run the job again: it plans anew on the table as it is now; a narrower where conflicts less",
    "CORRUPT_TABLE": "run 'iceberg-ops check' on the table; restore the file it names, or roll back to a snapshot without it",
    "VERIFICATION_FAILED": "keep the report: a rewrite did not keep its rows, and nothing was committed; this is a bug to report",
    "UNSUPPORTED": "see the limits in the documentation; the table was not changed",
    "RUNTIME_MISSING": "install what the message names",
    "MACHINE_LIMIT": "raise the limit that the message names, then run the job again: nothing was changed",
    "NO_SUCH_TABLE": "check the name, and which catalogs file is in use (ICEBERG_OPS_CATALOGS)",
    "NO_SUCH_NAMESPACE": "check the name of the namespace",
    "NO_SUCH_SNAPSHOT": "list snapshots and refs with 'iceberg-ops inspect'",
    "BAD_OPTION": "correct the option; 'iceberg-ops policy lint' checks a whole policy",
    "BAD_WHERE": "correct the WHERE; 'iceberg-ops files TABLE --where' shows what it selects",
    "INTERRUPTED": "run the job again: nothing was changed",
    "INTERNAL": "read the log of the run; run again once its cause is gone: nothing half-written was committed",
}

ONLY_CLEAN_UP = (
    "do not run the job again without its run key: its work is committed (snapshot-ids); files that were not cleaned up are left "
    "to remove_orphan_files"
)
"""For INCOMPLETE where all of the work is committed."""


def next_step(code: str) -> str:
    """One sentence for an error code; a general one for codes without their own."""
    return _NEXT_STEPS.get(code, "correct what the message names and run the job again")
