"""The seed at which each fault is found with its old rule (written by ``test_faults_are_found``, run as a module)."""

from __future__ import annotations

SEEDS: dict[str, int] = {
    "1a a Puffin file of two specs": 138,
    "1b a Puffin file in rolled manifests": 238,
    "2 interrupted after a swap": 491,
    "3 names swapped during an expiry": 831,
    "4d a short metadata log": 595,
    "5a an equality delete on the old spec": 41,
    "5c an upsert to a branch that it makes": 69,
    "5d an equality delete by a dropped column": 1689,
    "5e a column that came back": 697,
    "6a a data path of another spelling": 248,
    "6b a warehouse of another spelling": 101,
    "9a a delete under an append's key": 15,
    "9b publishing under the staging key": 599,
    "9c an append to another branch": 313,
    "10a two imports at once": 558,
    "12a a removal under the adder's id": 1290,
    "12b a removal that is not entered": 1290,
    "12c a delete that adds a file": 1723,
    "12e deletes in a copy of an older manifest": 146,
}
