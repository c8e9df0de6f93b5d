"""Every golden vector is used: each file of the folder has a test file that reads it, listed here and checked in both
directions."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

from tests.fixture_paths import GOLDEN, requires_fixtures

pytestmark = [requires_fixtures, pytest.mark.fixtures]
TESTS = Path(__file__).resolve().parents[1]
USERS = {
    "index.json": ("serde/test_metadata_json.py", "index.json"),
    "deletion-vectors/*.bin": ("serde/test_deletion_vector.py", "deletion-vectors"),
    "deletion-vectors/*.puffin": ("serde/test_puffin.py", "deletion-vectors/"),
    "evolution-java/inspection*/*.json": ("spec/test_evolution_golden.py", '("inspection", "inspection_history")'),
    "evolution-java/*/*/*.metadata.json": ("spec/test_evolution_golden.py", "java_evolved.metadata.json"),
    "evolution-java/ops.json": ("spec/test_evolution_golden.py", "ops.json"),
    "evolution-java/unknown_type/java.metadata.json": ("serde/test_metadata_json.py", '"**/*.metadata.json"'),
    "evolution-java/unknown_type/java.schema.json": ("serde/test_schema_json.py", "java.schema.json"),
    "manifests/icebird_*": ("serde/test_golden_manifests.py", "icebird_*.avro"),
    "manifests/pglake_*-m0.avro": ("serde/test_golden_manifests.py", "*-m0.avro"),
    "manifests/pglake_snap-*.avro": ("serde/test_golden_manifests.py", "*snap-*.avro"),
    "manifests/rust_avro_schema_manifest_entry.json": ("serde/test_golden_manifests.py", "rust_avro_schema_manifest_entry"),
    "manifests/rust_avro_schema_manifest_file_v?.json": ("serde/test_golden_manifests.py", "rust_avro_schema_manifest_file_v"),
    "manifests/rust_manifest-list-*.avro": ("serde/test_golden_manifests.py", "*manifest-list*.avro"),
    "puffin/*.bin": ("serde/test_puffin.py", "puffin/"),
    "table-metadata/*.json": ("serde/test_metadata_json.py", "table-metadata/"),
    "table-metadata-spark-evolution/*.json": ("serde/test_metadata_json.py", "table-metadata-spark-evolution/"),
    "variant/*": ("data/test_variant_shredding.py", "case-*.parquet"),
    "view-metadata/*.json": ("serde/test_metadata_json.py", "view-metadata"),
    "vectors/bounds_truncation.json": ("spec/test_bounds.py", "bounds_truncation"),
    "vectors/datetime_transforms.json": ("spec/test_transform_functions.py", "datetime_transforms"),
    "vectors/expression_json.json": ("expressions/test_json.py", "expression_json"),
    "vectors/hash_bucket.json": ("spec/test_transform_functions.py", "hash_bucket"),
    "vectors/name_mapping.json": ("serde/test_schema_json.py", "name_mapping"),
    "vectors/partition_paths.json": ("spec/test_partition_paths.py", "partition_paths"),
    "vectors/single_value_binary.json": ("spec/test_values.py", "single_value_binary"),
    "vectors/single_value_json.json": ("serde/test_single_value_json.py", "single_value_json"),
    "vectors/snapshot_ref_json.json": ("serde/test_metadata_json.py", "snapshot_ref_json"),
    "vectors/spec_and_sort_json.json": ("serde/test_schema_json.py", "spec_and_sort_json"),
    "vectors/table_metadata_rules.json": ("spec/test_metadata_builder.py", "table_metadata_rules"),
    "vectors/truncate.json": ("spec/test_transform_functions.py", "truncate"),
}
"""A pattern of files: the test file that reads them, and the words there that name them."""


def _files() -> list[str]:
    assert GOLDEN is not None
    return sorted(str(p.relative_to(GOLDEN)) for p in GOLDEN.rglob("*") if p.is_file() and p.suffix != ".md")


def test_every_golden_file_has_a_test() -> None:
    assert [f for f in _files() if not any(fnmatch.fnmatchcase(f, pattern) for pattern in USERS)] == []


@pytest.mark.parametrize("pattern", USERS)
def test_the_test_of_a_golden_file_names_it(pattern: str) -> None:
    file, words = USERS[pattern]
    assert words in (TESTS / file).read_text("utf-8")
    assert fnmatch.filter(_files(), pattern), "no such golden files any more"
