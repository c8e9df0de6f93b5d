"""How far a change of a catalog has come when an error or an interrupt ends it: nothing happened, it is unknown, or it is done.

Whoever reads the error decides by it whether to do the work again, so a bare interrupt, and an error that says that nothing was
changed, must come from before the change was tried.
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
"""To be called right before a change is tried, with the place of the metadata that shows it."""


@contextmanager
def nothing_published(what: str) -> Iterator[None]:
    """Whatever fails within fails before anything is published, so it is a refusal (``Catalog.commit_table``) and no unknown
    outcome. An exception that is not of this package becomes a TerminalError: what may pass by itself, stores report as a
    CatalogUnavailableError."""
    try:
        yield
    except IcebergOpsError:
        raise
    except Exception as e:
        raise TerminalError(f"{what}: {e}; nothing was committed") from e


def unknown_outcome(message: str, why: BaseException | None) -> CommitStateUnknownError:
    """The error for a change that may have happened; for one that an interrupt ended, it is an interrupt, too."""
    return CommitInterruptedError(message) if isinstance(why, KeyboardInterrupt) else CommitStateUnknownError(message)


def reason(why: BaseException | None) -> str:
    """The reason for a message; an interrupt and a lack of memory have no text of their own."""
    return str(why) or type(why).__name__ if isinstance(why, Exception) else f"it was interrupted by {type(why).__name__}"


@contextmanager
def unknown_if_it_fails(unknown: Callable[[BaseException], CommitStateUnknownError]) -> Iterator[None]:
    """Within, a change that the store makes or refuses, until its answer is dealt with. Errors of this package say themselves what
    they leave; whatever else ends it (an interrupt, a lack of memory, an error of a driver) leaves an unknown outcome."""
    try:
        yield
    except IcebergOpsError:
        raise
    except BaseException as e:
        raise unknown(e) from e


@contextmanager
def unknown_once_tried(what: str) -> Iterator[Tried]:
    """The same from the first call of the given function on; before it, nothing was changed."""
    places: list[str] = []
    try:
        yield places.append
    except IcebergOpsError:
        raise
    except BaseException as e:
        if not places:
            raise
        raise unknown_outcome(
            f"{what} got no answer: {reason(e)}; it happened if the table is at {places[-1]}, or has it in its metadata log", e
        ) from e


@contextmanager
def incomplete_if_interrupted(done: str) -> Iterator[None]:
    """Within, what remains to be done after ``done`` happened: an interrupt says so. Errors pass."""
    with state_if_interrupted(done) as happened:
        happened()
        yield


@contextmanager
def state_if_interrupted(done: str) -> Iterator[Callable[[], None]]:
    """Within, a change and what remains to be done after it; calls the given function as soon as the change has happened. From then
    on an interrupt says ``done``. One that comes later than an error that says what is done, or that nobody knows, says the same.
    Errors pass."""
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
    """The error that was on its way when the interrupt came, if it says what state the table is in."""
    error = interrupt.__context__
    while error is not None and not isinstance(error, CommitStateUnknownError | IncompleteError):
        error = error.__context__
    return error


def dropped_in_part(identifier: Identifier) -> str:
    """What an interrupt says once a table is dropped, and not all of it is deleted."""
    return f"table {'.'.join(identifier)} is dropped, but not all of its files and folders are deleted"
