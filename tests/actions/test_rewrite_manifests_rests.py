"""The output of a manifest rewrite is never due again, whatever the target size, the codec and the number of files."""

from __future__ import annotations

import random

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.spec.content_files import DataFile
from tests.actions.lake import Lake, make_lake
from tests.builders import data_file


def filled(files: int, target: int, codec: str, seed: int) -> Lake:
    """Files of a few partitions and of none, in several commits, with paths that do and do not compress."""
    chance = random.Random(seed)
    properties = {
        "commit.manifest.target-size-bytes": str(target),
        "commit.manifest-merge.enabled": "false",
        "write.manifest.compression-codec": codec,
    }
    lake = make_lake(partitioned=True, properties=properties)
    location = lake.table.location
    rest = [made(f"{location}/data", i, chance) for i in range(files)]
    while rest:
        count = chance.randint(1, files)
        added, rest = tuple(rest[:count]), rest[count:]
        commit(lake.catalog, lake.table, AppendFiles(added=added, merge=False))
    return lake


def made(folder: str, i: int, chance: random.Random) -> DataFile:
    name = chance.choice([f"{i:05d}", f"{chance.getrandbits(200):x}"])
    region = chance.choice([None, *(f"r{n}" for n in range(6))])
    return data_file(f"{folder}/{name}.parquet", partition=(region,), ids=(chance.getrandbits(60), i + 1))


@pytest.mark.parametrize("codec", ["gzip", "uncompressed", "zstd"])
@pytest.mark.parametrize("target", [500, 1000, 5000, 8000, 20_000, 100_000])
@pytest.mark.parametrize("files", [1, 2, 20, 600])
def test_a_second_run_finds_nothing_to_do(files: int, target: int, codec: str) -> None:
    lake = filled(files, target, codec, seed=files * target)
    lake.run("rewrite_manifests")
    again = lake.run("rewrite_manifests")
    assert (again.status, [group.reason for group in again.groups]) == ("nothing-to-do", [])
