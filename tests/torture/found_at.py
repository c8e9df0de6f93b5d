"""The seed at which each fault is found when its rule is as it was (written by ``test_faults_are_found``, run as a module)."""

from __future__ import annotations

SEEDS: dict[str, int] = {
    "1a a Puffin file of two specs": 79,
    "1b a Puffin file in rolled manifests": 42,
    "2 interrupted after a swap": 96,
    "3 names swapped during an expiry": 831,
    "4a an error after the version's file": 1162,
    "4b a lost answer under another commit": 664,
    "4d a short metadata log": 77,
    "5c an upsert to a branch that it makes": 281,
    "6a a data path of another spelling": 170,
    "6b a warehouse of another spelling": 101,
    "9a a delete under an append's key": 13,
    "9b publishing under the staging key": 571,
    "9c an append to another branch": 113,
    "9d staged, and expired unpublished": 449,
    "10a two imports at once": 962,
}
