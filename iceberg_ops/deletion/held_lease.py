"""A lease that is renewed in the background while a job works, and checked once more before the job's commit.

An error of one renewal (a store that does not answer for a moment) does not stop the renewals: it is logged, and the renewal is
retried soon. A lease can still expire, if the store fails for as long as the lease lasts or if the machine sleeps. Orphan removal
may then have deleted files that the job has staged. So before the commit the job takes its lease again, checks that no deletion is
running, and checks that all its files exist. Imports use the same protocol (``notes``): a deletion that begins later sees the
lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from iceberg_ops.deletion.leases import Lease, acquire_lease, release_lease
from iceberg_ops.deletion.notes import forbid_running_deletion
from iceberg_ops.errors import ValidationError
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

_RENEWALS = 4
"""Renewals within the time of one lease."""
_TRIES = 60
"""Attempts to renew within the time of one lease, after an error."""
_PATIENCE_S = 60.0
"""How long the end of a job waits for a running renewal: a store that does not answer must not block it for ever."""
_NAMED = 3


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class HeldLease:
    """The lease of one job. ``needed`` returns the current table and the lease to write; its ``expires_at_ms`` is replaced.

    ``lasts_ms``: how long the lease lasts after each renewal. The renewing thread and the job's thread may use this object
    together."""

    needed: Callable[[], tuple[Table, Lease]]
    lasts_ms: int
    take: Callable[[Table, Lease], str] = acquire_lease
    now_ms: Callable[[], int] = _now_ms
    _location: str = ""
    _until_ms: int = 0
    _lapsed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)
    _renewer: threading.Thread | None = None

    def begin(self) -> None:
        """Take the lease and renew it until ``end``. Raises the errors of the store."""
        self._take()
        self._renewer = threading.Thread(target=self._renew_until_ended, name="lease", daemon=True)
        self._renewer.start()

    def renew(self) -> None:
        """Write the current lease. Raises the errors of the store."""
        with self._lock:
            self._lapsed |= not self._is_in_force()
            self._take()

    def end(self, *, give_back: bool) -> None:
        """Stop renewing, also if ``begin`` was interrupted. A lease that is not given back expires by itself. So does one that a
        renewal writes after ``_PATIENCE_S``, because the store answered late."""
        self._ended.set()
        if self._renewer is not None and self._renewer.is_alive():  # an interrupt may come before the thread starts
            self._renewer.join(_PATIENCE_S)
            if self._renewer.is_alive():
                table, lease = self.needed()
                log.warning("lease of run %s on %s: its renewal got no answer, and is not waited for", lease.holder, table.name)
        if give_back:
            release_lease(*self.needed())

    def check_files(self, staged: Collection[str]) -> None:
        """Call this right before the commit. If the lease was not in force all the time, it is taken again, and all files at
        ``staged`` must exist.

        Raises ValidationError if one is missing, and CatalogUnavailableError while files of the table are being deleted."""
        with self._lock:
            if not self._is_in_force():
                self._lapsed = True
                self._take()
        if not self._lapsed:
            return
        table, lease = self.needed()
        log.warning("the lease of run %s on %s had expired: checking whether its files still exist", lease.holder, table.name)
        forbid_running_deletion(table)
        if missing := [location for location in staged if not table.io.exists(location)]:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            raise ValidationError(
                f"table {table.name}: the lease of run {lease.holder} expired before its commit, and files that it had written "
                f"were deleted in the meantime ({', '.join(missing[:_NAMED])}{more}): nothing was committed; run it again",
                file_path=missing[0],
                file_paths=tuple(missing),
            )

    def _is_in_force(self) -> bool:
        """The lease has not expired, and no other job whose clock is ahead has deleted it."""
        table, _ = self.needed()
        return self.now_ms() < self._until_ms and table.io.exists(self._location)

    def _take(self) -> None:
        table, lease = self.needed()
        until = self.now_ms() + self.lasts_ms
        self._location = self.take(table, replace(lease, expires_at_ms=until))
        self._until_ms = until

    def _renew_until_ended(self) -> None:
        wait = self.lasts_ms / 1000 / _RENEWALS
        while not self._ended.wait(wait):
            try:
                self.renew()
                wait = self.lasts_ms / 1000 / _RENEWALS
            except Exception as e:  # noqa: BLE001 - whatever the error, without a lease the job's files may be deleted
                wait = self.lasts_ms / 1000 / _TRIES
                table, lease = self.needed()
                log.warning("lease of run %s on %s is not renewed, next try in %.0f s: %s", lease.holder, table.name, wait, e)
