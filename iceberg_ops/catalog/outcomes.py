"""The outcome of a catalog change that an error or an interrupt ends: not done, unknown, or done.

The caller decides by the error whether to do the work again. So a bare interrupt, and an error which says that nothing was changed,
must come from before the change was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.errors import (
    CommitInterruptedError,
    CommitStateUnknownError,
    IcebergOpsError,
    IncompleteError,
    IncompleteInterruptedError,
    TerminalError,
)

Tried = Callable[[str], None]
"""Called right before a change is tried, with the location of the metadata that shows it."""


@contextmanager
def nothing_published(what: str) -> Iterator[None]:
    """Any failure within this context comes before anything is published, so it is a refusal (``Catalog.commit_table``) and not an
    unknown outcome. An exception from outside this package becomes a TerminalError; stores report a temporary failure as a
    CatalogUnavailableError."""
    try:
        yield
    except IcebergOpsError:
        raise
    except Exception as e:
        raise TerminalError(f"{what}: {e}; nothing was committed") from e


def unknown_outcome(message: str, why: BaseException | None) -> CommitStateUnknownError:
    """The error for a change that may have happened. If an interrupt ended the change, the error is an interrupt, too."""
    return CommitInterruptedError(message) if isinstance(why, KeyboardInterrupt) else CommitStateUnknownError(message)


def reason(why: BaseException | None) -> str:
    """The reason for a message; an interrupt and a lack of memory have no text of their own."""
    return str(why) or type(why).__name__ if isinstance(why, Exception) else f"it was interrupted by {type(why).__name__}"


@contextmanager
def unknown_if_it_fails(unknown: Callable[[BaseException], CommitStateUnknownError]) -> Iterator[None]:
    """Wraps a change that the store makes or refuses, until its answer is handled. Errors of this package state their outcome
    themselves. Any other exception (an interrupt, a lack of memory, an error of a driver) leaves an unknown outcome."""
    try:
        yield
    except IcebergOpsError:
        raise
    except BaseException as e:
        raise unknown(e) from e


@contextmanager
def unknown_once_tried(what: str) -> Iterator[Tried]:
    """The same, from the first call of the given function on; before that call nothing was changed."""
    places: list[str] = []
    try:
        yield places.append
    except IcebergOpsError:
        raise
    except BaseException as e:
        if not places:
            raise
        raise unknown_outcome(
            f"{what} got no answer: {reason(e)}; it succeeded if the table is at {places[-1]}, or has it in its metadata log", e
        ) from e


@contextmanager
def incomplete_if_interrupted(done: str) -> Iterator[None]:
    """Wraps the steps that remain after ``done`` has happened: an interrupt says so. Errors pass unchanged."""
    with state_if_interrupted(done) as happened:
        happened()
        yield


@contextmanager
def state_if_interrupted(done: str) -> Iterator[Callable[[], None]]:
    """Wraps a change and the steps that remain after it; the code within calls the given function as soon as the change has
    happened. From then on an interrupt says ``done``. An interrupt that follows an error which states the outcome, or an unknown
    outcome, states the same. Errors pass unchanged."""
    state: list[str] = []
    try:
        yield lambda: state.append(done)
    except Exception:
        raise
    except BaseException as e:
        known = _state_said_before(e)
        if isinstance(known, CommitStateUnknownError):
            raise unknown_outcome(str(known), e) from e
        if known is None and not state:
            raise
        message = f"{done}: {reason(e)}" if known is None else str(known)
        raise (IncompleteInterruptedError if isinstance(e, KeyboardInterrupt) else IncompleteError)(message) from e


def _state_said_before(interrupt: BaseException) -> CommitStateUnknownError | IncompleteError | None:
    """The pending error when the interrupt came, if it states the table's state."""
    error = interrupt.__context__
    while error is not None and not isinstance(error, CommitStateUnknownError | IncompleteError):
        error = error.__context__
    return error


def dropped_in_part(identifier: Identifier) -> str:
    """The text of an interrupt after a table is dropped, and before all of its files are deleted."""
    return f"table {'.'.join(identifier)} is dropped, but not all of its files and folders are deleted"
