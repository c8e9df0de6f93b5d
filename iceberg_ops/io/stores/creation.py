"""Creating an object exclusively: a conditional PUT (``If-None-Match: *``, ``x-goog-if-generation-match: 0``), and the check of its
outcome.

A PUT whose answer is lost is sent again, by the client or by a gateway, and then finds the object that it has created itself:
"already exists" alone does not show which writer created it. So every object has the id of the attempt that created it in its
metadata. If the name exists, this id is read, and only an object of another attempt is a FileExistsError. For a store without
metadata the content is compared: equal bytes count as ours, because no two writers write the same bytes to an exclusive file.

A conflict of two concurrent requests (409) may leave no object at all: then the creation is tried again.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import ObjectStore

from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.stores.answers import named_errors

ATTEMPT = "icebergopsattempt"
"""Name of the metadata of an object: one word, because stores and gateways treat hyphens and underscores in several ways."""
_TRIES = 5
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Creation:
    """Creates objects of one store; ``sleep`` waits between tries, in seconds."""

    store: ObjectStore
    sleep: Callable[[float], None] = time.sleep

    def create(self, key: str, data: bytes, location: str) -> None:
        """Raises FileExistsError if another attempt created the object, CatalogUnavailableError (it may exist, or appear later),
        and TerminalError if the store refuses."""
        attempt = new_attempt()
        for number in range(_TRIES):
            if number:
                self.sleep(_PAUSE_S * 2**number)
            try:
                with named_errors(location):
                    if self._put(key, data, attempt):
                        return
            except CatalogUnavailableError:
                if self._is_ours(key, data, attempt, location):
                    return
                raise
            if (owner := self._owner(key, location)) is None:
                continue  # two requests met, and neither made the object, or it is deleted again
            if owner == attempt or (not owner and self._holds(key, data, location)):
                return
            raise FileExistsError(errno.EEXIST, "file exists", location)
        raise CatalogUnavailableError(
            f"{location}: the store repeatedly says that it exists, and that it does not. In a bucket that keeps former versions, "
            "some stores (versitygw) refuse the name of a deleted object: use a bucket without versions"
        )

    def is_exclusive(self, key: str, location: str) -> bool:
        """Whether the store refuses to create an existing object. Creates one under a new name, and deletes it."""
        with named_errors(location):
            self._put(key, b"", new_attempt())
            try:
                return not self._put(key, b"", new_attempt())
            finally:
                obstore.delete(self.store, key)

    def _put(self, key: str, data: bytes, attempt: str) -> bool:
        """False where the name is taken."""
        try:
            obstore.put(self.store, key, data, mode="create", attributes={ATTEMPT: attempt})
        except AlreadyExistsError:
            return False
        return True

    def _is_ours(self, key: str, data: bytes, attempt: str, location: str) -> bool:
        """After a request without an answer; False also if this cannot be determined."""
        try:
            owner = self._owner(key, location)
            return owner == attempt or (owner == "" and self._holds(key, data, location))
        except CatalogUnavailableError:
            return False

    def _owner(self, key: str, location: str) -> str | None:
        """The attempt that created the object: empty if it has no id, None if there is no object."""
        try:
            with named_errors(location):
                return read_attempt_id(self.store, key)
        except FileNotFoundError:
            return None

    def _holds(self, key: str, data: bytes, location: str) -> bool:
        try:
            with named_errors(location):
                return obstore.get(self.store, key).bytes() == data
        except FileNotFoundError:
            return False


def new_attempt() -> str:
    """An id that no other attempt has."""
    return uuid.uuid4().hex


def read_attempt_id(store: ObjectStore, key: str) -> str:
    """The attempt id of an object; empty if it has none. Raises FileNotFoundError, and the client's errors."""
    attributes = obstore.get(store, key, options={"head": True}).attributes
    return next((value for name, value in attributes.items() if name.lower() == ATTEMPT), "")
