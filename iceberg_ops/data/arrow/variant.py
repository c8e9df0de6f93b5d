"""Variant columns (v3): bytes of metadata and value, in the Parquet variant encoding.

Canonical Arrow form: struct<metadata: binary, value: binary>, unshredded; so a rewrite writes shredded variants unshredded. Neither
part is ever null, even if the variant is: Parquet's writer refuses a null there, although it is not visible. ``variant_values``
decodes values for output; ``variant_shredding`` reassembles shredded columns.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.arrow import variant_encoding as encoding
from iceberg_ops.data.arrow.arrow_schema import VARIANT_STORAGE
from iceberg_ops.data.arrow.variant_shredding import unshredded
from iceberg_ops.errors import CorruptTableError


def read_variant(array: pa.Array, name: str) -> pa.Array:
    """A file's variant column in canonical form. Raises CorruptTableError if it does not have a variant's structure."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    names = [array.type.field(i).name for i in range(array.type.num_fields)] if pa.types.is_struct(array.type) else []
    if "metadata" not in names or not {"value", "typed_value"} & set(names):
        raise CorruptTableError(f"column {name}: the file stores {array.type}, which cannot be read as variant")
    if "typed_value" in names:
        parts = list(unshredded(array, name))
    else:
        parts = [array.field(part).cast(pa.binary()) for part in ("metadata", "value")]
    if any(part.null_count for part in parts):
        parts = _without_nulls(array, parts, name)
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT_STORAGE), mask=array.is_null())


def _without_nulls(array: pa.Array, parts: list[pa.Array], name: str) -> list[pa.Array]:
    """Puts some bytes where the variant is null. A present variant without a value is a variant null, like a shredded one; one
    without metadata is a CorruptTableError."""
    metadata, value = parts
    present, nothing = array.is_valid(), pa.scalar(b"", pa.binary())
    metadata = pc.if_else(present, metadata, nothing)
    if metadata.null_count:
        raise CorruptTableError(f"variant column {name}: its metadata is null")
    return [metadata, pc.if_else(present, value.fill_null(encoding.NULL), nothing)]
