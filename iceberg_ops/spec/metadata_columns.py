"""Reserved field ids and their metadata columns (spec: "Reserved Field IDs").

Column ids of users stay at or below ``HIGHEST_USER_FIELD_ID``; higher ids belong to the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iceberg_ops.spec.types import BOOLEAN, INT, LONG, STRING, NestedField, StructType

HIGHEST_USER_FIELD_ID = 2147483447

FILE_ID = 2147483646
POS_ID = 2147483645
DELETED_ID = 2147483644
SPEC_ID_ID = 2147483643
PARTITION_ID = 2147483642
DELETE_FILE_PATH_ID = 2147483546
DELETE_FILE_POS_ID = 2147483545
DELETE_FILE_ROW_ID = 2147483544
CHANGE_TYPE_ID = 2147483543
CHANGE_ORDINAL_ID = 2147483542
COMMIT_SNAPSHOT_ID_ID = 2147483541
ROW_ID_ID = 2147483540
LAST_UPDATED_SEQUENCE_NUMBER_ID = 2147483539

FILE = NestedField(FILE_ID, "_file", STRING, True, "Path of the file in which a row is stored")
POS = NestedField(POS_ID, "_pos", LONG, True, "Ordinal position of a row in the source data file")
DELETED = NestedField(DELETED_ID, "_deleted", BOOLEAN, True, "Whether the row has been deleted")
SPEC_ID = NestedField(SPEC_ID_ID, "_spec_id", INT, True, "Spec ID used to track the file containing a row")
DELETE_FILE_PATH = NestedField(DELETE_FILE_PATH_ID, "file_path", STRING, True, "Path of a file in which a deleted row is stored")
DELETE_FILE_POS = NestedField(DELETE_FILE_POS_ID, "pos", LONG, True, "Ordinal position of a deleted row in the data file")
CHANGE_TYPE = NestedField(CHANGE_TYPE_ID, "_change_type", STRING, True, "Record type in changelog")
CHANGE_ORDINAL = NestedField(CHANGE_ORDINAL_ID, "_change_ordinal", INT, True, "Change ordinal in changelog")
COMMIT_SNAPSHOT_ID = NestedField(COMMIT_SNAPSHOT_ID_ID, "_commit_snapshot_id", LONG, True, "Commit snapshot ID")
ROW_ID = NestedField(ROW_ID_ID, "_row_id", LONG, False, "Implicit row ID that is automatically assigned")
LAST_UPDATED_SEQUENCE_NUMBER = NestedField(
    LAST_UPDATED_SEQUENCE_NUMBER_ID, "_last_updated_sequence_number", LONG, False, "Sequence number when the row was last updated"
)

METADATA_COLUMNS: Mapping[str, NestedField] = {
    f.name: f
    for f in (FILE, POS, DELETED, SPEC_ID, CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)
}
"""By name. ``_partition`` is not included: its type depends on the table (see ``partition_column``)."""


LINEAGE_COLUMNS = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)
"""The columns with these names that data files of a v3 table hold besides the table's columns."""


def lineage_twin(columns: Iterable[NestedField], format_version: int) -> str | None:
    """The name among top-level ``columns``, ignoring case, that files of a v3 table use for lineage; None if there is none."""
    taken = {f.name for f in LINEAGE_COLUMNS} if format_version >= 3 else set()
    return next((f.name for f in columns if f.name.lower() in taken), None)


def partition_column(partition_type: StructType) -> NestedField:
    """``_partition`` for a table with partition tuples of that type."""
    return NestedField(PARTITION_ID, "_partition", partition_type, False, "Partition to which a row belongs")
