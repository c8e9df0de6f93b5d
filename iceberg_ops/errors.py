"""Every error this package raises on purpose, sorted by what the caller may do about it.

::

    IcebergOpsError
    ├── RetryableError                  the same call may succeed later, nothing was changed
    │   ├── CommitFailedError           the pointer moved: refresh, validate again, stage again
    │   └── CatalogUnavailableError     the catalog or store did not answer, or refused for now
    ├── CommitStateUnknownError         the swap may have happened: look for the run key, clean up nothing
    │   ├── CommitInterruptedError      the same, because of a Ctrl-C (also a KeyboardInterrupt)
    │   └── JobDiedError                a job's process ended without saying how its work ended
    ├── IncompleteError                 a part of the job is committed or done, the rest failed: the message says what is left
    │   └── IncompleteInterruptedError  the same, because of a Ctrl-C (also a KeyboardInterrupt)
    ├── TerminalError                   the call cannot succeed as it is
    │   ├── ValidationError             a concurrent change makes this commit wrong (names snapshot, operation, file)
    │   │   └── GcDisabledError, SharedTableError, FilesNotListedError, PartialMatchError, NotAncestorError,
    │   │       NotPublishableError, FormerTypesError: errors that no other plan avoids
    │   ├── CorruptTableError           a file of the table is missing, or does not say what the spec demands
    │   ├── VerificationError           a rewrite did not keep its rows: nothing was committed
    │   ├── UnsupportedError            a known limit of this package, refused by name
    │   │   ├── NeedsSparkError         what only Spark evaluates, converts or reads, on lane local
    │   │   └── FormerColumnsError      a file of former columns of a table that another engine has replaced
    │   ├── RuntimeMissingError         Java, Spark or a library is missing or too old
    │   ├── MachineLimitError           this process ran out of open files, or of space for temporary files
    │   └── InternalError               an exception that is not of this tree, reported by another process
    └── BadInputError                   what a person wrote is wrong: names the thing, the value and the rule
        ├── NoSuchTableError, NoSuchNamespaceError, NoSuchSnapshotError
        ├── AlreadyExistsError
        ├── OptionError                 an option, property or policy key or value
        ├── RunKeyReusedError           a run key already stands for other work
        ├── SchemaError                 a schema, partition spec, sort order or evolution step that the spec forbids
        ├── WhereError                  a WHERE that does not parse, or names what is not there
        └── DataError                   rows that do not fit the table

Every class has a ``code``: a stable word for logs, reports and retry policies. ``ERROR_KINDS`` is the one table of what each code
means: the next step that reports name, whether a scheduler retries, and the run book. ``error_of_code`` gives the exception of a
code that came from another process: workers, reports and last lines of output carry codes.
"""

from __future__ import annotations

from dataclasses import dataclass


class IcebergOpsError(Exception):
    """Root of the tree. ``str(error)`` is one line that names the thing, the value and the rule."""

    code = "ICEBERG_OPS"

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class RetryableError(IcebergOpsError):
    """Nothing was changed; the same call may succeed later."""

    code = "RETRYABLE"


class CommitFailedError(RetryableError):
    """The catalog refused the swap because a requirement did not hold (Java: CommitFailedException)."""

    code = "COMMIT_FAILED"


class CatalogUnavailableError(RetryableError):
    """The catalog or its store cannot be reached; nothing was changed."""

    code = "CATALOG_UNAVAILABLE"


class CommitStateUnknownError(IcebergOpsError):
    """The swap may or may not have happened (Java: CommitStateUnknownException). Never clean up, never swap again blindly."""

    code = "COMMIT_STATE_UNKNOWN"


class CommitInterruptedError(CommitStateUnknownError, KeyboardInterrupt):
    """Ctrl-C between a swap and its answer: an interrupt for code that handles interrupts, an unknown outcome for code that cleans
    up."""


class JobDiedError(CommitStateUnknownError):
    """A process ended without reporting how its work ended: it was killed, or its report is incomplete or of another run. The
    message has its exit code and last line."""

    code = "JOB_DIED"


class IncompleteError(IcebergOpsError):
    """A part of the job is committed or done, and the rest failed. The message names what failed; the report says what is done."""

    code = "INCOMPLETE"
    only_clean_up = False
    """Whether all of the job's work is committed. Without a run key, running the job again would do the work twice."""


class IncompleteInterruptedError(IncompleteError, KeyboardInterrupt):
    """Ctrl-C after a part of the job was committed or done: an interrupt for code that handles interrupts; the report says what is
    done."""


class TerminalError(IcebergOpsError):
    """The call cannot succeed as it is."""

    code = "TERMINAL"


class ValidationError(TerminalError):
    """A concurrent change makes this commit wrong (Java: ValidationException).

    ``snapshot_id``, ``operation``, ``file_path`` and ``partition`` name the conflicting change where one is known; ``file_paths``
    lists every file of *ours* that the conflict touches, which is what salvage needs.
    """

    code = "CONFLICT"

    def __init__(
        self,
        message: str,
        *,
        snapshot_id: int | None = None,
        operation: str | None = None,
        file_path: str | None = None,
        partition: str | None = None,
        file_paths: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.snapshot_id = snapshot_id
        self.operation = operation
        self.file_path = file_path
        self.partition = partition
        self.file_paths = file_paths


class GcDisabledError(ValidationError):
    """The table property ``gc.enabled`` is false: nothing may be deleted, because other tables may use the files."""

    code = "GC_DISABLED"


class SharedTableError(ValidationError):
    """Another name in the catalog holds the same table, so the owner of the files cannot be identified."""

    code = "SHARED_TABLE"


class FilesNotListedError(ValidationError):
    """A listing lacks files that the table's metadata records: listing and metadata may describe different files."""

    code = "FILES_NOT_LISTED"


class PartialMatchError(ValidationError):
    """The condition for replacing whole files holds for only a part of a file's rows."""

    code = "PARTIAL_MATCH"


class NotAncestorError(ValidationError):
    """A branch cannot be rolled back to a snapshot that it never had, or fast-forwarded to one that does not descend from it."""

    code = "NOT_AN_ANCESTOR"


class NotPublishableError(ValidationError):
    """A staged snapshot cannot be published, or picked for a branch: its rows are there already, or are no longer valid there."""

    code = "NOT_PUBLISHABLE"


class FormerTypesError(ValidationError):
    """A branch or snapshot holds rows with column types from before another engine replaced the table."""

    code = "FORMER_TYPES"


class CorruptTableError(TerminalError):
    """A file of the table is missing, unreadable or breaks the spec; the message names the file."""

    code = "CORRUPT_TABLE"


class VerificationError(TerminalError):
    """A rewrite's certificate failed: rows in and rows out differ. Nothing was committed."""

    code = "VERIFICATION_FAILED"


class UnsupportedError(TerminalError):
    """A known limit, refused by name ("not supported: X, because Y")."""

    code = "UNSUPPORTED"


_WITHOUT_SPARK, _ON_SPARK = "not supported without Spark: ", ": run it with --lane spark"


class NeedsSparkError(UnsupportedError):
    """Lane local does not evaluate, convert or read something that Spark does. Nothing was changed; lane spark supports it."""

    @classmethod
    def to(cls, what: str, *, evaluated: str = "") -> NeedsSparkError:
        """``what``: an expression, a source, a conversion. ``evaluated``: what lane local supports of its kind."""
        others = f"; without Spark are evaluated {evaluated}" if evaluated else ""
        return cls(f"{_WITHOUT_SPARK}{what}{_ON_SPARK}{others}")

    @property
    def what(self) -> str:
        """``needs Spark: `` and the expression, source or conversion."""
        return f"needs Spark: {str(self).removeprefix(_WITHOUT_SPARK).rpartition(_ON_SPARK)[0]}"


class FormerColumnsError(UnsupportedError, CorruptTableError):
    """A file of the table has former columns: another engine replaced the table (CREATE OR REPLACE TABLE) after the file was
    written. Nothing is damaged. It is a CorruptTableError too, so that code which skips damaged files skips this one."""

    @classmethod
    def from_error(cls, error: CorruptTableError) -> FormerColumnsError:
        return cls(
            f"{error}: it was written for former columns, and another engine has replaced the table since "
            f"(CREATE OR REPLACE TABLE); a scan of a snapshot from before that reads it"
        )


class RuntimeMissingError(TerminalError):
    """Something this machine must have (Java 17+, Spark, an optional library) is missing or too old."""

    code = "RUNTIME_MISSING"


class MachineLimitError(TerminalError):
    """This process ran out of open files, or of space for temporary files; the message says which limit to raise."""

    code = "MACHINE_LIMIT"


class InternalError(TerminalError):
    """An exception outside this tree, raised in another process: a fault of this package or of a library."""

    code = "INTERNAL"


class BadInputError(IcebergOpsError):
    """A person's input is wrong."""

    code = "BAD_INPUT"


class NoSuchTableError(BadInputError):
    """The catalog has no such table, or the path holds none."""

    code = "NO_SUCH_TABLE"


class NoSuchNamespaceError(BadInputError):
    """The catalog has no such namespace."""

    code = "NO_SUCH_NAMESPACE"


class NoSuchSnapshotError(BadInputError):
    """No snapshot has that id, ref or time."""

    code = "NO_SUCH_SNAPSHOT"


class AlreadyExistsError(BadInputError):
    """A table, namespace or file of that name is already there."""

    code = "ALREADY_EXISTS"


class OptionError(BadInputError):
    """An option, table property, policy or job-spec key is unknown, or its value breaks a rule."""

    code = "BAD_OPTION"


class RunKeyReusedError(BadInputError):
    """A run key is used for other work than before."""

    code = "RUN_KEY_REUSED"


class SchemaError(BadInputError):
    """A schema, partition spec, sort order or evolution step the spec forbids."""

    code = "BAD_SCHEMA"


class WhereError(BadInputError):
    """A WHERE that does not parse, names an unknown column, or compares what cannot be compared."""

    code = "BAD_WHERE"


class TypesNotComparedError(WhereError):
    """A WHERE compares two types of which Spark converts one first (for example text and a number); this package does not
    convert."""


class DataError(BadInputError):
    """Rows that do not fit the table: a missing required value, a value out of range, a cardinality violation."""

    code = "BAD_DATA"


@dataclass(frozen=True, slots=True)
class Retry:
    """Whether a scheduler runs a failed job again, and why. ``after_s``: seconds until then; None: it does not."""

    after_s: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """What a code means for the caller. ``error`` is the class of the code; None for a code that only ends a command line."""

    code: str
    error: type[IcebergOpsError] | None
    next_step: str
    retry: Retry | None = None

    @property
    def run_book(self) -> str:
        """The anchor of its run book's heading in ``docs/runbooks.md``."""
        return f"#{self.code.lower()}"


CORRECT = "correct what the message names and run the job again"
"""The next step for a code that has no other one."""


def _kind(error: type[IcebergOpsError], retry: Retry, next_step: str = CORRECT) -> ErrorKind:
    return ErrorKind(error.code, error, next_step, retry)


_OUTCOME_UNKNOWN = Retry(60, "outcome unknown: the next try looks for the run key first")
_TERMINAL = Retry(None, "the job cannot succeed as it is")
_WRONG_INPUT = Retry(None, "the input is wrong: correct the policy, option or statement")

ERROR_KINDS: tuple[ErrorKind, ...] = (
    _kind(
        CommitFailedError,
        Retry(10, "the table has changed: plan and commit again"),
        "run the job again: other commits were faster than its retries (commit.retry.* sets how many it makes)",
    ),
    _kind(
        CatalogUnavailableError,
        Retry(60, "catalog or store did not answer: nothing was changed"),
        "check that the catalog and the store answer, then run the job again: nothing was changed",
    ),
    _kind(
        RetryableError,
        Retry(30, "nothing was changed: the same job may succeed later"),
        "run the job again: nothing was changed; if a process was killed because memory ran out, give it more memory",
    ),
    _kind(
        JobDiedError,
        _OUTCOME_UNKNOWN,
        "read the end of the log, look for the run key in the table's snapshots; then run again with the same run key",
    ),
    _kind(
        CommitStateUnknownError,
        _OUTCOME_UNKNOWN,
        "look for the run key in the table's snapshots first; then run again with the same run key",
    ),
    _kind(
        IncompleteError,
        Retry(60, "a part is done: the next try does the rest"),
        "see in the report what is done (snapshot-ids, groups, files), then run the job again: it does the rest",
    ),
    _kind(
        GcDisabledError,
        _TERMINAL,
        "leave the files, or set gc.enabled to true if no other table uses them; with Nessie, nessie-gc deletes files",
    ),
    _kind(SharedTableError, _TERMINAL, "drop one of the two names without --purge, then run the job again"),
    _kind(FilesNotListedError, _TERMINAL, "run 'iceberg-ops check' on the table; see whether its location is spelled in two ways"),
    _kind(PartialMatchError, _TERMINAL, "use a delete and an append, or a merge: they change files of which only some rows match"),
    _kind(NotAncestorError, _TERMINAL, "list the branch's history with 'iceberg-ops inspect TABLE history'"),
    _kind(
        NotPublishableError,
        _TERMINAL,
        "see with 'iceberg-ops inspect TABLE snapshots' whether its rows are there; else write them again",
    ),
    _kind(FormerTypesError, _TERMINAL, "read the rows by their snapshot id (scan --snapshot-id), and write them again"),
    _kind(
        ValidationError,
        Retry(30, "a concurrent change conflicts: plan again on the new snapshot"),
        "run the job again: it makes a new plan on the table as it is now; a narrower where conflicts less",
    ),
    _kind(
        CorruptTableError,
        Retry(None, "the table is damaged: see iceberg-ops check"),
        "run 'iceberg-ops check' on the table; restore the file it names, or roll back to a snapshot without it",
    ),
    _kind(
        VerificationError,
        Retry(None, "a rewrite did not keep its rows: nothing was committed; report it"),
        "keep the report: a rewrite did not keep its rows, and nothing was committed; this is a bug to report",
    ),
    _kind(UnsupportedError, _TERMINAL, "see the limits in the documentation; the table was not changed"),
    _kind(RuntimeMissingError, Retry(None, "this worker lacks what the job needs"), "install what the message names"),
    _kind(MachineLimitError, _TERMINAL, "raise the limit that the message names, then run the job again: nothing was changed"),
    _kind(
        InternalError,
        _TERMINAL,
        "read the log of the run; run again once its cause is gone: nothing half-written was committed",
    ),
    _kind(TerminalError, _TERMINAL),
    _kind(RunKeyReusedError, _WRONG_INPUT, "give the run its own key"),
    _kind(NoSuchTableError, _WRONG_INPUT, "check the name, and which catalogs file is in use (ICEBERG_OPS_CATALOGS)"),
    _kind(NoSuchNamespaceError, _WRONG_INPUT, "check the name of the namespace"),
    _kind(NoSuchSnapshotError, _WRONG_INPUT, "list snapshots and refs with 'iceberg-ops inspect'"),
    _kind(AlreadyExistsError, _WRONG_INPUT),
    _kind(OptionError, _WRONG_INPUT, "correct the option; 'iceberg-ops policy lint' checks a whole policy"),
    _kind(SchemaError, _WRONG_INPUT),
    _kind(WhereError, _WRONG_INPUT, "correct the WHERE; 'iceberg-ops files TABLE --where' shows what it selects"),
    _kind(DataError, _WRONG_INPUT),
    _kind(BadInputError, _WRONG_INPUT),
    _kind(IcebergOpsError, _TERMINAL),
    ErrorKind("INTERRUPTED", None, "run the job again: nothing was changed"),
    ErrorKind("IO", None, "correct the path or the rights that the message names"),
    ErrorKind("USAGE", None, "see 'iceberg-ops COMMAND --help'"),
)
"""One row per code; a subclass comes before its base. A subclass with the code of its base has no row."""

_BY_CODE = {kind.code: kind for kind in ERROR_KINDS}

ONLY_CLEAN_UP = (
    "do not run the job again without its run key: its work is committed (snapshot-ids); files that were not cleaned up are left "
    "to remove_orphan_files"
)
"""The next step of an IncompleteError whose work is all committed."""


def kind_of_code(code: str) -> ErrorKind | None:
    """The row of a code; None if this version does not know the code."""
    return _BY_CODE.get(code)


def next_step(code: str) -> str:
    """What to do next, in one sentence; a general one if this version does not know the code."""
    return _BY_CODE.get(code, _BY_CODE[TerminalError.code]).next_step


def next_step_after(error: IcebergOpsError) -> str:
    """The next step for an error object."""
    return ONLY_CLEAN_UP if isinstance(error, IncompleteError) and error.only_clean_up else next_step(error.code)


def error_of_code(code: str, message: str) -> IcebergOpsError:
    """The exception class of ``code``. A code without a class, or one that this version does not know, becomes a TerminalError that
    names it."""
    kind = _BY_CODE.get(code)
    return TerminalError(f"{code}: {message}") if kind is None or kind.error is None else kind.error(message)
