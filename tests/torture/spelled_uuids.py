"""Metadata files that spell their table's uuid as other engines may: one version in upper case, the next one in lower case."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from iceberg_ops.catalog import filesystem
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table import metadata_files


def _spelled(write: Callable[..., bytes]) -> Callable[..., bytes]:
    """The same metadata always gets the same spelling, because it may be written again after a lost answer."""

    def written(metadata: TableMetadata, **more: Any) -> bytes:
        in_upper_case = (len(metadata.metadata_log) + metadata.last_sequence_number) % 2 == 0
        uuid = metadata.table_uuid.upper() if in_upper_case else metadata.table_uuid.lower()
        return write(replace(metadata, table_uuid=uuid), **more)

    return written


@contextmanager
def uuids_in_both_cases() -> Any:
    with ExitStack() as stack:
        for module in (filesystem, metadata_files):
            stack.enter_context(mock.patch.object(module, "metadata_to_json", _spelled(module.metadata_to_json)))
        yield
