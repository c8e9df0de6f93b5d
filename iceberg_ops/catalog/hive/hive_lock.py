"""The metastore's exclusive lock on a table, used as in Iceberg Java (``MetastoreLock``).

The metastore removes a lock that gets no heartbeat for ``hive.txn.timeout`` (5 minutes by default). A commit holds its lock for
two calls, each of which ends within ``metastore.TIMEOUT_MS``, and sends a heartbeat right before it changes the table.
"""

from __future__ import annotations

import logging
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pymetastore.hive_metastore.ttypes import (
    CheckLockRequest,
    HeartbeatRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)

from iceberg_ops.catalog.hive.metastore import FailedError, Metastore, MetastoreRefusal, NoSuchLock, user_name
from iceberg_ops.catalog.pointer import NotAppliedError, RefusedError
from iceberg_ops.errors import CatalogUnavailableError, CommitStateUnknownError, IcebergOpsError

log = logging.getLogger(__name__)

WAIT_S = 180.0
"""How long to wait for a lock (Java: ``iceberg.hive.lock-timeout-ms``)."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


@dataclass(slots=True)
class HiveLock:
    """A lock that one commit holds. ``in_doubt``: a change under it got no answer, and may still arrive."""

    metastore: Metastore
    lock_id: int
    table: str
    in_doubt: bool = False

    def check(self) -> None:
        """Call this right before a change. Raises NotAppliedError if the metastore has removed the lock."""
        try:
            self.metastore.call(lambda client: client.heartbeat(HeartbeatRequest(lockid=self.lock_id)))
        except NoSuchLock as e:
            raise NotAppliedError(f"table {self.table}: the metastore removed lock {self.lock_id}") from e
        except CatalogUnavailableError as e:
            raise NotAppliedError(str(e)) from e

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Within, one change. Only what the metastore does not answer leaves a doubt."""
        before, self.in_doubt = self.in_doubt, True
        try:
            yield
        except (MetastoreRefusal, FailedError, NotAppliedError, RefusedError):
            self.in_doubt = before
            raise
        self.in_doubt = before


@contextmanager
def locked(metastore: Metastore, database: str, name: str, sleep: Callable[[float], None] = time.sleep) -> Iterator[HiveLock]:
    """Hold the lock: during this time no other writer that takes locks changes the table. After a change that got no answer, and
    whose outcome is unknown, the lock is kept until it expires, because the change may still arrive. Raises NotAppliedError if the
    lock is not acquired."""
    lock = HiveLock(metastore, _acquired(metastore, database, name, sleep), f"{database}.{name}")
    try:
        yield lock
    except BaseException as e:
        is_known = isinstance(e, IcebergOpsError) and not isinstance(e, CommitStateUnknownError)
        if is_known or not lock.in_doubt:
            _release(metastore, lock.lock_id)
        else:
            log.warning("table %s: lock %s remains until the metastore expires it", lock.table, lock.lock_id)
        raise
    _release(metastore, lock.lock_id)


def _acquired(metastore: Metastore, database: str, name: str, sleep: Callable[[float], None]) -> int:
    agent = f"Iceberg-{uuid.uuid4()}"
    component = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname=database, tablename=name)
    request = LockRequest(component=[component], user=user_name(), hostname=socket.gethostname(), agentInfo=agent)
    try:
        response = metastore.call(lambda client: client.lock(request))
    except (NotAppliedError, RefusedError):
        raise
    except BaseException as e:
        _give_back_if_there(metastore, database, name, agent)
        if isinstance(e, CatalogUnavailableError):
            raise NotAppliedError(f"table {database}.{name}: no lock: {e}") from e
        raise
    lock_id, state, pause, until = response.lockid, response.state, _FIRST_PAUSE_S, time.monotonic() + WAIT_S
    try:
        while state == LockState.WAITING and time.monotonic() < until:
            sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
            state = metastore.call(lambda client: client.check_lock(CheckLockRequest(lockid=lock_id))).state
    except NoSuchLock as e:
        raise NotAppliedError(f"table {database}.{name}: the metastore removed lock {lock_id} while the job waited for it") from e
    except BaseException as e:
        _release(metastore, lock_id)
        if isinstance(e, CatalogUnavailableError):
            raise NotAppliedError(f"table {database}.{name}: no lock: {e}") from e
        raise
    if state == LockState.ACQUIRED:
        return int(lock_id)
    _release(metastore, lock_id)
    raise NotAppliedError(
        f"table {database}.{name}: its lock in the Hive Metastore was not acquired within {WAIT_S:.0f} s, because another writer "
        "holds it, or died while it held it (SHOW LOCKS in Hive lists locks; the metastore removes those without a heartbeat)"
    )


def _release(metastore: Metastore, lock_id: int) -> None:
    """A lock that cannot be released expires by itself: its error must not hide the result of the commit. A call without an answer
    is made once more, because others wait for the lock."""
    for is_last in (False, True):
        try:
            metastore.call(lambda client: client.unlock(UnlockRequest(lockid=lock_id)))
        except NoSuchLock:
            return
        except Exception as e:  # noqa: BLE001 - see above
            if is_last:
                log.warning("lock %s remains until the metastore expires it: %s", lock_id, e)
        else:
            return


def _give_back_if_there(metastore: Metastore, database: str, name: str, agent: str) -> None:
    """The request for a lock got no answer: release the lock if the metastore granted it."""
    try:
        shown = metastore.call(lambda client: client.show_locks(ShowLocksRequest(dbname=database, tablename=name)))
    except Exception as e:  # noqa: BLE001 - it runs out by itself
        log.warning("table %s.%s: a lock may remain until the metastore expires it: %s", database, name, e)
        return
    for lock in shown.locks or ():
        if lock.agentInfo == agent:
            _release(metastore, lock.lockid)
