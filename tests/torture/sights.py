"""Which oddities of real tables occurred in the tables of a world, for counting: an allowed oddity does not always occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.torture.reading import DATA, EQUALITY, Layout, Metadata
from tests.torture.rows import KIND

SIGHTS = frozenset(
    {
        "a Puffin file with several vectors",
        "a column name again",
        "a column of another type",
        "a copy of a manifest under its id",
        "a file is live twice",
        "a file of avro",
        "a file of orc",
        "a file that another engine compacted",
        "a manifest list without counts",
        "a manifest list with numbers below 0",
        "a partition field name again",
        "a partition field whose source is dropped",
        "a picked snapshot of another engine",
        "a picked snapshot",
        "a snapshot of no branch",
        "a snapshot that another engine picked",
        "a snapshot without a manifest list",
        "a snapshot without an operation",
        "a summary with false counts",
        "a table that moved",
        "a tag",
        "a void partition field",
        "an equality delete of an older spec",
        "another branch than main",
        "another data path",
        "another engine on a branch",
        "another engine's staged snapshot",
        "another metadata path",
        "compressed metadata",
        "data of several specs",
        "delete manifests rolled",
        "deletes in an append",
        "main begun again",
        "renamed beside a branch",
        "replaced beside a branch",
        "snapshots that another engine expired",
        "upgraded with others at work",
    }
)


def of_metadata(metadata: Metadata) -> Iterator[str]:
    """What a table's metadata shows."""
    fields = [f for spec in metadata["partition-specs"] for f in spec["fields"]]
    columns = [f for schema in metadata["schemas"] for f in schema["fields"]]
    current = {f["id"] for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"] for f in s["fields"]}
    if any(f["transform"] == "void" for f in fields):
        yield "a void partition field"
    if any(f["source-id"] not in current for f in fields if f["transform"] != "void"):
        yield "a partition field whose source is dropped"
    if _comes_again([{f["name"] for f in spec["fields"] if f["transform"] != "void"} for spec in metadata["partition-specs"]]):
        yield "a partition field name again"
    if len({f["id"] for f in columns if f["name"] == KIND}) > 1:
        yield "a column name again"
    if len({f["type"] for f in columns if f["id"] == 4}) > 1:
        yield "a column of another type"
    if any(".gz." in entry["metadata-file"] for entry in metadata.get("metadata-log", ())):
        yield "compressed metadata"
    beginnings = [s for s in metadata.get("snapshots", ()) if s.get("parent-snapshot-id") is None]
    if len({s.get("schema-id") for s in beginnings}) > 1 or (beginnings and metadata.get("current-snapshot-id") in (None, -1)):
        yield "main begun again"
    kinds = {ref["type"] for name, ref in metadata.get("refs", {}).items() if name != "main"}
    yield from (name for kind, name in (("tag", "a tag"), ("branch", "another branch than main")) if kind in kinds)


def of_snapshot(metadata: Metadata, snapshot: Mapping[str, Any], layout: Layout, manifests: list[dict[str, Any]]) -> Iterator[str]:
    """What a new snapshot shows, with its manifest list."""
    vectors = Counter(f.path for f in layout.live if f.is_vector)
    if any(n > 1 for n in vectors.values()):
        yield "a Puffin file with several vectors"
    data = [f for f in layout.live if f.content == DATA]
    yield from (f"a file of {f.path.rpartition('.')[2]}" for f in data if not f.path.endswith(".parquet"))
    if len({f.path for f in data}) < len(data):
        yield "a file is live twice"
    if len({f.spec_id for f in data}) > 1:
        yield "data of several specs"
    if any(f.spec_id < metadata["default-spec-id"] for f in layout.live if f.content == EQUALITY):
        yield "an equality delete of an older spec"
    new = [m for m in manifests if m.get("sequence_number") and m["sequence_number"] == snapshot.get("sequence-number")]
    if any(m["added_snapshot_id"] != snapshot["snapshot-id"] for m in new):
        yield "a copy of a manifest under its id"
    if snapshot.get("summary", {}).get("operation") == "append" and any(m.get("content") == 1 for m in new):
        yield "deletes in an append"
    if sum(m.get("content") == 1 and m["added_snapshot_id"] == snapshot["snapshot-id"] for m in manifests) > 1:
        yield "delete manifests rolled"
    if "wap.id" in snapshot.get("summary", {}):
        yield "a snapshot of no branch"
    yield from _of_another_engine(metadata, snapshot, manifests)


def _of_another_engine(metadata: Metadata, snapshot: Mapping[str, Any], manifests: list[dict[str, Any]]) -> Iterator[str]:
    summary = snapshot.get("summary", {})
    if "manifests" in snapshot:
        yield "a snapshot without a manifest list"
    if "operation" not in summary:
        yield "a snapshot without an operation"
    if "manifest-list" in snapshot and any(m.get("added_files_count", m.get("added_data_files_count")) is None for m in manifests):
        yield "a manifest list without counts"
    if any(m.get("added_files_count") == -1 for m in manifests):
        yield "a manifest list with numbers below 0"
    if (source := summary.get("source-snapshot-id")) is not None:
        yield "a picked snapshot"
        sources = [s for s in metadata["snapshots"] if str(s["snapshot-id"]) == source]
        if any("engine-name" in s["summary"] for s in sources) and "engine-name" not in summary:
            yield "a picked snapshot of another engine"


def _comes_again(names: list[set[str]]) -> bool:
    """Whether a name was present, then missing, and is present again."""
    gone: set[str] = set()
    known: set[str] = set()
    for now in names:
        if gone & now:
            return True
        known |= now
        gone = known - now
    return False
