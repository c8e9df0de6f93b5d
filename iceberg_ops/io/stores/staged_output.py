"""A new object that is written in pieces, and exists only after it is closed.

A small one is kept in memory and created by one exclusive request, when it is closed. A large one is uploaded in parts; a discarded
or failed upload is aborted, so that its parts do not cause costs in the store. An upload in parts cannot be completed exclusively:
before its first part it is checked that the name is free. Files of that size are data files with unique names.

If a process dies, its parts are left, invisible to listings: a life-cycle rule of the bucket removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import obstore
from obstore.store import ObjectStore

from iceberg_ops.errors import CatalogUnavailableError, UnsupportedError
from iceberg_ops.io.forks import OBJECT_STORES
from iceberg_ops.io.stores.answers import named_errors, server_text
from iceberg_ops.io.stores.creation import ATTEMPT, Creation, new_attempt, read_attempt_id
from iceberg_ops.io.whole_output import OutputInParts

if TYPE_CHECKING:
    from obstore import WritableFile

log = logging.getLogger(__name__)

PART = 8 << 20
"""Bytes of a part, and of what is kept in memory before there are parts: many files may be open."""
MOST_PARTS = 10_000
"""As many parts a store takes (S3, Google; Azure takes more). With the default that is a file of 78 GiB."""
_PARTS_AT_ONCE = 4
_ENDED = "already closed"
"""The client's word for an upload that it could not complete: it has aborted that one itself."""


class StagedOutput(OutputInParts):
    """``check_free`` is called before the first of several parts, and raises FileExistsError if the name is taken."""

    def __init__(self, store: ObjectStore, key: str, location: str, check_free: Callable[[], None], *, part: int = PART) -> None:
        super().__init__(part)
        self._check_free = check_free
        self._store, self._key, self._location = store, key, location
        self._attempt = new_attempt()
        self._upload: WritableFile | None = None
        self._done = False

    def _make_file(self) -> None:
        OBJECT_STORES.check()
        if self._upload is None:
            Creation(self._store).create(self._key, bytes(self._buffer), self._location)
            return
        if self._buffer:
            self._send()
        self._complete(self._upload)
        self._upload = None

    def _drop(self) -> None:
        self._buffer = bytearray()
        upload, self._upload = self._upload, None
        if upload is not None and not OBJECT_STORES.is_forked:
            _abort(upload)

    def _send(self) -> None:
        """Pass the buffered bytes to the client, which uploads them in the background."""
        OBJECT_STORES.check()
        if self.tell() > MOST_PARTS * self._part:
            raise UnsupportedError(
                f"not supported: {self._location} with more than {MOST_PARTS * self._part} bytes, because a store takes "
                f"{MOST_PARTS} parts of a file, and a part has {self._part} bytes: write smaller files "
                "(write.target-file-size-bytes), or set s3.multipart.part-size-bytes to more"
            )
        if self._upload is None:
            self._check_free()
        data, self._buffer = self._buffer, bytearray()
        with named_errors(self._location):
            if self._upload is None:
                self._upload = obstore.open_writer(
                    self._store,
                    self._key,
                    attributes={ATTEMPT: self._attempt},
                    buffer_size=self._part,
                    max_concurrency=_PARTS_AT_ONCE,
                )
            self._upload.write(data)
        self._sent += len(data)

    def _complete(self, upload: WritableFile) -> None:
        """If the answer to a completion is lost, the client sends it again, and it is refused then: the object's attempt id
        decides."""
        try:
            with named_errors(self._location):
                upload.close()
        except Exception:
            if not self._is_there():
                raise

    def _is_there(self) -> bool:
        try:
            with named_errors(self._location):
                return read_attempt_id(self._store, self._key) == self._attempt
        except (FileNotFoundError, CatalogUnavailableError):
            return False


def _abort(upload: WritableFile) -> None:
    """Parts of an upload that cannot be aborted are left in the store."""
    try:
        upload.__exit__(RuntimeError, RuntimeError(), None)
    except Exception as e:  # noqa: BLE001 - nothing depends on it
        if _ENDED not in str(e):
            log.warning("an unfinished upload may be left in the store: %s", server_text(str(e)))
