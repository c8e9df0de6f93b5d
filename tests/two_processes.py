"""How ``make test`` shares the suite out between two processes: what takes longest comes first, so that both end at once.

``SECONDS`` is of CPU time, on one core, of files that take fifteen or more. Only the order hangs on it, so it is corrected by hand
when a file has become another one (``--durations=0`` tells).
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

JAVA = "Iceberg Java"
"""The share of files that ask Iceberg Java, which is started once for them."""
SECONDS: dict[str, int] = {}
BY_MARK = {"slow": 14, "java": 12, "spark": 10, "airflow": 8}
"""What a file takes that ``SECONDS`` does not know, by the marks of its tests."""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by what their shares take; shares of one length keep their order."""
    files: dict[str, int] = {}
    for item in items:
        marked = max((seconds for mark, seconds in BY_MARK.items() if item.get_closest_marker(mark)), default=0)
        file = _file(item.nodeid)
        files[file] = SECONDS.get(file, max(files.get(file, 0), marked))
    shares: dict[str, int] = {}
    for file, seconds in files.items():
        shares[share(file)] = shares.get(share(file), 0) + seconds
    items.sort(key=lambda item: -shares[share(_file(item.nodeid))])


def share(file: str) -> str:
    """What is given to one process as a whole."""
    return JAVA if file.startswith("tests/interop/") else file


class Shares(LoadFileScheduling):
    """A process takes the next share when it is nearly done with one."""

    def _split_scope(self, nodeid: str) -> str:
        return share(_file(nodeid))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
