"""Whether this process was forked from one that had used object stores.

The client works by threads, which a fork does not copy: in the child every call would wait for ever. So the child is told. A
process that is forked before the first use is none of these, as Spark's Python workers are.
"""

from __future__ import annotations

import os

from iceberg_ops.errors import UnsupportedError


class _State:
    used = False
    is_forked = False


def _forked() -> None:
    _State.is_forked = _State.is_forked or _State.used


os.register_at_fork(after_in_child=_forked)


def using_stores() -> None:
    """To be called before the client is. Raises UnsupportedError in a forked process."""
    if _State.is_forked:
        raise UnsupportedError(
            "not supported: object stores in a process that was forked from one that has used them, because the client's threads "
            "are not there: start processes anew (multiprocessing's spawn), or fork before the first use"
        )
    _State.used = True


def is_forked() -> bool:
    """Whether the client must not be called in this process."""
    return _State.is_forked
