"""Detects a process that was forked from one that had used a client of a store.

Such a client uses threads, which a fork does not copy, and connections, which a fork shares: in the child a call would wait for
ever, or read the answers for the parent. So the child gets an error. A process that is forked before the first use, such as Spark's
Python workers, is not affected.
"""

from __future__ import annotations

import os

from iceberg_ops.errors import UnsupportedError


class ForkGuard:
    """The guard of one client. ``what``: the stores that it serves, as messages name them."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_used = False
        self.is_forked = False
        """Whether the client must not be called in this process."""
        os.register_at_fork(after_in_child=self._forked)

    def use(self) -> None:
        """To be called before a client is. Raises UnsupportedError in a forked process."""
        self.check()
        self._is_used = True

    def check(self) -> None:
        """To be called before something is used that a client, or threads that call it, have made: an open file, a listing. Raises
        UnsupportedError in a forked process."""
        if self.is_forked:
            raise UnsupportedError(
                f"not supported: {self._what} in a process that was forked from one that has used them, because the client's "
                "threads do not exist there: start new processes (multiprocessing's spawn), or fork before the first use"
            )

    def _forked(self) -> None:
        self.is_forked = self.is_forked or self._is_used


OBJECT_STORES = ForkGuard("object stores")
HDFS = ForkGuard("files in HDFS")
