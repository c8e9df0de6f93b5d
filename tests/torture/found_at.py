"""The seed at which each fault is found when its rule is as it was (written by ``test_faults_are_found``, run as a module)."""

from __future__ import annotations

SEEDS: dict[str, int] = {
    "1a a Puffin file of two specs": 79,
    "1b a Puffin file in rolled manifests": 42,
    "1c a folder imported twice": 1,
    "2 interrupted after a swap": 96,
    "3 names swapped during an expiry": 831,
    "4a an error after the version's file": 8,
    "4b a lost answer under another commit": 6,
    "4d a short metadata log": 4,
    "5a an equality delete on the old spec": 8,
    "5b an upsert whose rows moved": 3,
    "5c an upsert to a branch that it makes": 3,
    "6a a data path of another spelling": 10,
    "6b a warehouse of another spelling": 10,
    "7 the schema of a dropped key": 15,
    "9a a delete under an append's key": 13,
    "9b publishing under the staging key": 571,
    "9c an append to another branch": 113,
    "9d staged, and expired unpublished": 449,
    "9e a key that left the ledger": 9,
    "10a two imports at once": 962,
    "10c a zombie and its retry": 1,
}
