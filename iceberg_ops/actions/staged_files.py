"""Files a run wrote that no commit refers to, and how they go away.

Every file of a run has the run's operation id in its name, so even what a killed worker left behind is found by name. Nothing is
deleted while a commit's outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import identity_under


def delete_staged(io: FileIO, locations: Iterable[str]) -> list[str]:
    """Delete files; returns those that could not be deleted, for the orphan job."""
    found = list(dict.fromkeys(locations))
    return [failure.location for failure in io.delete_many(found)] if found else []


def delete_leftovers(io: FileIO, data_location: str, operation_id: str, keep: Collection[str]) -> list[str]:
    """Delete every file below ``data_location`` that carries ``operation_id`` in its name and is not in ``keep``.

    Used only after a worker failed, because it lists the whole location. Returns those that could not be deleted.
    """
    identity = identity_under(io)
    kept = {identity(location) for location in keep}
    found = [
        info.location
        for info in io.list_prefix(data_location)
        if operation_id in info.location.rsplit("/", 1)[-1] and identity(info.location) not in kept
    ]
    return delete_staged(io, found)
