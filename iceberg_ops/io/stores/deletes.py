"""Deletes many objects of one bucket, and reports the result for each.

The answer to a bulk request lists the failed keys, and the client returns only the first of them. So if one failed, each of the
request's keys is deleted by a separate request: an object that is already gone is not a failure. If the store does not answer, or
refuses the whole request, nothing more is tried, and all remaining objects are failures; those of that request may be deleted
nevertheless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import obstore
from obstore.store import ObjectStore

from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.stores.answers import has_status, is_cut, missing_bucket, store_error

_AT_ONCE = 16
_TRIES = 3

Answer = tuple[str, IcebergOpsError]
"""(location, why its object could not be deleted)."""


def delete_objects(store: ObjectStore, files: Mapping[str, str], bulk: int) -> list[DeleteFailure]:
    """Delete objects, given as key -> location; returns the failures. ``bulk``: keys of one request (1: no bulk requests)."""
    failures: list[DeleteFailure] = []
    hopeless: IcebergOpsError | None = None
    for batch in _batches(files.items(), max(bulk, _AT_ONCE)):
        if hopeless is None:
            failed = _in_one_request(store, batch) if bulk > 1 else _one_by_one(store, batch)
            failures += [DeleteFailure(location, str(error)) for location, error in failed]
            if len(failed) == len(batch) and all(isinstance(error, CatalogUnavailableError) for _, error in failed):
                hopeless = failed[0][1]
        else:
            failures += [DeleteFailure(location, str(hopeless)) for _, location in batch]
    return failures


def delete_object(store: ObjectStore, key: str, location: str) -> IcebergOpsError | None:
    """Delete one object; returns the error if that failed. A missing object is not a failure."""
    error: IcebergOpsError | None = None
    for _ in range(_TRIES):
        try:
            obstore.delete(store, key)
        except FileNotFoundError as e:
            return missing_bucket(location, str(e))
        except Exception as e:  # noqa: BLE001 - whatever it is, it is the answer for this file
            error = store_error(e, location)
            if not is_cut(e):
                return error
        else:
            return None
    return error


def _in_one_request(store: ObjectStore, batch: list[tuple[str, str]]) -> list[Answer]:
    """The client does not repeat such a request if its connection is lost; it is safe to delete twice."""
    error: IcebergOpsError | None = None
    for _ in range(_TRIES):
        try:
            obstore.delete(store, [key for key, _ in batch])
            return []
        except Exception as e:  # noqa: BLE001 - whatever it is, it is the answer for these files
            if not _is_about_all(e):
                return [answer for part in _batches(batch, _AT_ONCE) for answer in _one_by_one(store, part)]
            error = store_error(e, batch[0][1])
            if has_status(e):
                break
        except BaseException as e:
            if type(e).__name__ != "PanicException":
                raise
            return [answer for part in _batches(batch, _AT_ONCE) for answer in _one_by_one(store, part)]
    assert error is not None
    return [(location, error) for _, location in batch]


def _one_by_one(store: ObjectStore, batch: list[tuple[str, str]]) -> list[Answer]:
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delete") as threads:
        errors = threads.map(lambda item: delete_object(store, *item), batch)
        return [(location, error) for (_, location), error in zip(batch, errors, strict=True) if error is not None]


def _is_about_all(error: Exception) -> bool:
    """Whether the request failed as a whole, and not one of its files."""
    return "?delete" in str(error) or "comp=batch" in str(error)


def _batches(items: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    all_items = list(items)
    return (all_items[start : start + size] for start in range(0, len(all_items), size))
