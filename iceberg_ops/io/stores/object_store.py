"""Files in object stores, as a FileIO: one request for a small file, ranges for parts of large ones, bulk deletes, paged listings.

There are no folders: in a listing, a folder is a prefix that ends at a slash. Objects whose key ends with a slash, which some tools
create to mark a folder, are not files, and are left out.

The client retries requests for about twenty seconds. After that, the error is a CatalogUnavailableError if the store does not
answer, and a TerminalError if it refuses (access, expired credentials, no such bucket). A missing bucket is never reported as a
missing file.

One instance serves all threads. A process that is forked from one that has used it cannot (see ``io.forks``): workers are new
processes, which build their FileIO from ``properties``.
"""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from iceberg_ops.errors import IcebergOpsError, OptionError, UnsupportedError
from iceberg_ops.io.file_io import DeleteFailure, FileInfo
from iceberg_ops.io.forks import OBJECT_STORES
from iceberg_ops.io.renewal import CurrentProperties, Renewal
from iceberg_ops.io.stores import azure, gcs, s3
from iceberg_ops.io.stores.answers import named_errors, server_text, store_error
from iceberg_ops.io.stores.creation import ATTEMPT, Creation, new_attempt
from iceberg_ops.io.stores.deletes import delete_object, delete_objects
from iceberg_ops.io.stores.listings import folder_content, objects_below
from iceberg_ops.io.stores.places import Place, file_place, folder_place
from iceberg_ops.io.stores.ranged_input import ObjectTail, RangedInput
from iceberg_ops.io.stores.staged_output import PART, StagedOutput
from iceberg_ops.io.temporary_names import temporary_name

_REFUSED = re.compile(r"status code: 40[13]")


@dataclass(frozen=True, slots=True)
class Family:
    """The differences between kinds of stores. ``bulk``: keys of one delete request; 1 if the store has no bulk requests."""

    name: str
    schemes: tuple[str, ...]
    client: Callable[[str, Mapping[str, str], Renewal | None], ObjectStore]
    bulk: int
    suffix_ranges: bool = True


FAMILIES = {
    family.name: family
    for family in (
        Family("s3", s3.SCHEMES, s3.s3_store, bulk=1_000),
        Family("gcs", gcs.SCHEMES, gcs.gcs_store, bulk=1),
        Family("azure", azure.SCHEMES, azure.azure_store, bulk=256, suffix_ranges=False),
    )
}


class ObjectStoreFileIO:
    """FileIO over the buckets of one family of stores, with the credentials of ``properties``. Raises OptionError."""

    def __init__(self, family: str, properties: Mapping[str, str] | None = None) -> None:
        self._family = FAMILIES[family]
        self._properties = {**(properties or {}), "io-impl": family}
        self._part = s3.part_size(self._properties, PART)
        self._renewal: Renewal | None = None
        self._clients: dict[str, ObjectStore] = {}
        self._seen: set[str] = set()
        self._proven: set[str] = set()
        self._lock = threading.Lock()

    def renew_with(self, renewal: Renewal) -> None:
        """See ``RenewsCredentials``."""
        self._renewal = renewal

    @property
    def properties(self) -> Mapping[str, str]:
        return self._properties if self._renewal is None else CurrentProperties(self._renewal, {"io-impl": self._family.name})

    def read(self, location: str) -> bytes:
        store, place = self._file(location)
        with named_errors(location):
            return obstore.get(store, place.key).bytes().to_bytes()

    def open_input(self, location: str) -> BinaryIO:
        return self.open_far(location, 0)()

    def is_far(self, location: str) -> bool:
        """See ``FarFiles``."""
        return True

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        """See ``FarFiles``."""
        store, place = self._file(location)
        ending = ObjectTail.of(store, place.key, location, size=size, suffix_ranges=self._family.suffix_ranges)
        return lambda: cast(BinaryIO, RangedInput(ending))

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        store, place = self._file(location)
        if not overwrite:
            Creation(store).create(place.key, data, location)
            return
        with named_errors(location):
            obstore.put(store, place.key, data, use_multipart=False, attributes={ATTEMPT: new_attempt()})

    def open_output(self, location: str) -> BinaryIO:
        store, place = self._file(location)
        return cast(BinaryIO, StagedOutput(store, place.key, location, lambda: self._check_free(location), part=self._part))

    def _check_free(self, location: str) -> None:
        if self.exists(location):
            raise FileExistsError(errno.EEXIST, "file exists", location)

    def exists(self, location: str) -> bool:
        return self._size(location) is not None

    def length(self, location: str) -> int:
        if (size := self._size(location)) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", location)
        return size

    def delete(self, location: str) -> None:
        store, place = self._file(location)
        if (error := delete_object(store, place.key, location)) is not None:
            raise error

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        """See ``deletes``."""
        failures: list[DeleteFailure] = []
        by_bucket: dict[str, dict[str, list[str]]] = {}
        for location in locations:
            try:
                _, place = self._file(location)
            except IcebergOpsError as e:
                failures.append(DeleteFailure(location, str(e)))
                continue
            by_bucket.setdefault(place.bucket, {}).setdefault(place.key, []).append(location)
        for bucket, files in by_bucket.items():
            spelled = {names[0]: names for names in files.values()}
            for failure in delete_objects(self._client(bucket), {key: names[0] for key, names in files.items()}, self._family.bulk):
                failures += [DeleteFailure(location, failure.reason) for location in spelled[failure.location]]
        return failures

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        store, place = self._folder(prefix)
        above, start = prefix.rstrip("/"), len(place.key) + 1 if place.key else 0
        for meta in objects_below(store, place.key, prefix):
            info = _info(f"{above}/{meta['path'][start:]}", meta)
            if info.size or self.exists(info.location):
                yield info

    def list_folder(self, location: str) -> tuple[list[str], list[FileInfo]]:
        """See ``ListsFolders``."""
        store, place = self._folder(location)
        above, start = location.rstrip("/"), len(place.key) + 1 if place.key else 0
        folders, objects = folder_content(store, place.key, location)
        files = [_info(f"{above}/{meta['path'][start:]}", meta) for meta in objects]
        return (
            [f"{above}/{path[start:]}" for path in folders],
            [info for info in files if info.size or self.exists(info.location)],
        )

    def list_names(self, location: str) -> list[str]:
        """See ``ListsNames``."""
        folders, files = self.list_folder(location)
        return [*(folder.rpartition("/")[2] for folder in folders), *(info.location.rpartition("/")[2] for info in files)]

    def prove_exclusive_creation(self, folder: str) -> None:
        """See ``ProvesExclusiveCreation``: an object is created twice, and deleted. Tested once for each bucket."""
        store, place = self._folder(folder)
        if place.bucket in self._proven:
            return
        name = temporary_name("exclusive-creation")
        if not Creation(store).is_exclusive(f"{place.key}/{name}" if place.key else name, folder):
            raise UnsupportedError(
                f"not supported: commits by the names of files in {folder}, because this store overwrites an object that must not "
                "exist (it ignores If-None-Match): two writers would overwrite each other's commits. Keep the tables in a catalog "
                "of type sql, or in a store with conditional writes"
            )
        self._proven.add(place.bucket)

    def local_path(self, location: str) -> str | None:
        return None

    # places and clients

    def _file(self, location: str) -> tuple[ObjectStore, Place]:
        place = file_place(location)
        return self._client_for(place, location), place

    def _folder(self, location: str) -> tuple[ObjectStore, Place]:
        place = folder_place(location)
        return self._client_for(place, location), place

    def _client_for(self, place: Place, location: str) -> ObjectStore:
        if place.scheme not in self._family.schemes:
            raise UnsupportedError(
                f"not supported: location {location} with io-impl {self._family.name}, because its scheme is none of "
                f"{', '.join(self._family.schemes)}"
            )
        return self._client(place.bucket)

    def _client(self, bucket: str) -> ObjectStore:
        OBJECT_STORES.use()
        with self._lock:
            if (client := self._clients.get(bucket)) is None:
                client = self._clients[bucket] = self._made(bucket)
            return client

    def _made(self, bucket: str) -> ObjectStore:
        try:
            return self._family.client(bucket, self._properties, self._renewal)
        except (BaseError, ValueError) as e:
            raise OptionError(
                f"bucket {bucket}: the client of {self._family.name} refuses the properties ({server_text(str(e))})"
            ) from None

    def _size(self, location: str) -> int | None:
        """Bytes of the object; None if it does not exist."""
        store, place = self._file(location)
        try:
            with named_errors(location):
                return obstore.head(store, place.key)["size"]
        except FileNotFoundError:
            self._check_bucket(place.bucket, store, location)
            return None

    def _check_bucket(self, bucket: str, store: ObjectStore, location: str) -> None:
        """The answer to a HEAD request has no text, so the existence of each bucket is checked once. If the store
        refuses the listing, it has the bucket."""
        if bucket in self._seen:
            return
        try:
            next(iter(obstore.list(store, "iceberg-ops-no-such-folder", chunk_size=1)), None)
        except (BaseError, OSError) as e:
            if _REFUSED.search(str(e)) is None:
                raise store_error(e, location) from None
        self._seen.add(bucket)


def _info(location: str, meta: Mapping[str, Any]) -> FileInfo:
    return FileInfo(location, meta["size"], int(meta["last_modified"].timestamp() * 1000))
