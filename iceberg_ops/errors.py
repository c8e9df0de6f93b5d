"""Every error this package raises on purpose, sorted by what the caller may do about it.

::

    IcebergOpsError
    ├── RetryableError                  the same call may succeed later, nothing was changed
    │   ├── CommitFailedError           the pointer moved: refresh, validate again, stage again
    │   └── CatalogUnavailableError     the catalog or store did not answer, or refused for now
    ├── CommitStateUnknownError         the swap may have happened: look for the run key, clean up nothing
    │   └── CommitInterruptedError      the same, because of a Ctrl-C (also a KeyboardInterrupt)
    ├── IncompleteError                 a part of the job is committed or done, the rest failed: the message says what is left
    │   └── IncompleteInterruptedError  the same, because of a Ctrl-C (also a KeyboardInterrupt)
    ├── TerminalError                   the call can not succeed as it is
    │   ├── ValidationError             a concurrent change makes this commit wrong (names snapshot, operation, file)
    │   ├── CorruptTableError           a file of the table is missing, or does not say what the spec demands
    │   ├── VerificationError           a rewrite did not keep its rows: nothing was committed
    │   ├── UnsupportedError            a known limit of this package, refused by name
    │   ├── RuntimeMissingError        Java, Spark or a library is missing or too old
    │   └── MachineLimitError          this process ran out of open files, or of space for temporary files
    └── BadInputError                   what a person wrote is wrong: names the thing, the value and the rule
        ├── NoSuchTableError, NoSuchNamespaceError, NoSuchSnapshotError
        ├── AlreadyExistsError
        ├── OptionError                 an option, property or policy key or value
        ├── RunKeyReusedError           a run key already stands for other work
        ├── SchemaError                 a schema, partition spec, sort order or evolution step that the spec forbids
        ├── WhereError                  a WHERE that does not parse, or names what is not there
        └── DataError                   rows that do not fit the table

Every class carries ``code``: a stable word for logs, reports and retry policies.
"""

from __future__ import annotations


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
    """The catalog or its store can not be reached; nothing was changed."""

    code = "CATALOG_UNAVAILABLE"


class CommitStateUnknownError(IcebergOpsError):
    """The swap may or may not have happened (Java: CommitStateUnknownException). Never clean up, never swap again blindly."""

    code = "COMMIT_STATE_UNKNOWN"


class CommitInterruptedError(CommitStateUnknownError, KeyboardInterrupt):
    """Ctrl-C between a swap and its answer: an interrupt to whoever handles interrupts, an unknown outcome to whoever cleans up."""


class IncompleteError(IcebergOpsError):
    """A part of the job is committed or done, and the rest failed. The message names what failed; the report says what is done."""

    code = "INCOMPLETE"
    only_clean_up = False
    """Whether all of the job's work is committed: run without a run key, it would be done twice."""


class IncompleteInterruptedError(IncompleteError, KeyboardInterrupt):
    """Ctrl-C after a part of the job was committed or done: an interrupt to whoever handles interrupts, and the report says what is
    done."""


class TerminalError(IcebergOpsError):
    """The call can not succeed as it is."""

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


class CorruptTableError(TerminalError):
    """A file of the table is missing, unreadable or breaks the spec; the message names the file."""

    code = "CORRUPT_TABLE"


class VerificationError(TerminalError):
    """A rewrite's certificate failed: rows in and rows out differ. Nothing was committed."""

    code = "VERIFICATION_FAILED"


class UnsupportedError(TerminalError):
    """A known limit, refused by name ("not supported: X, because Y")."""

    code = "UNSUPPORTED"


class RuntimeMissingError(TerminalError):
    """Something this machine must have (Java 17+, Spark, an optional library) is missing or too old."""

    code = "RUNTIME_MISSING"


class MachineLimitError(TerminalError):
    """This process ran out of open files, or of space for temporary files; the message says which limit to raise."""

    code = "MACHINE_LIMIT"


class BadInputError(IcebergOpsError):
    """What a person wrote is wrong."""

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
    """A run key is given to other work than it already stands for."""

    code = "RUN_KEY_REUSED"


class SchemaError(BadInputError):
    """A schema, partition spec, sort order or evolution step the spec forbids."""

    code = "BAD_SCHEMA"


class WhereError(BadInputError):
    """A WHERE that does not parse, names an unknown column, or compares what can not be compared."""

    code = "BAD_WHERE"


class DataError(BadInputError):
    """Rows that do not fit the table: a missing required value, a value out of range, a cardinality violation."""

    code = "BAD_DATA"
