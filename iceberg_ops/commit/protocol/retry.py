"""How long and how often the committer retries, and looks for the result of a swap without an answer.

A table's ``commit.retry.num-retries`` is a limit only if the table sets it; otherwise only the time budget
(``commit.retry.total-timeout-ms``) ends the loop, because with four retries a slow committer starves among fast ones. Waits grow
from ``min-wait-ms`` by a factor of 2 up to ``max-wait-ms`` (2 s if the table does not set it: a conflict means that the table is
busy, not that the catalog is down). Each wait is random between half of that and all of it, so that losers do not collide again.

The result of an unanswered swap is looked up once, and ``commit.status-check.num-retries`` more times. These waits grow in the same
way, within the limits of ``commit.status-check.*``, and are not random: no other process does this look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iceberg_ops.config.properties import (
    COMMIT_MAX_RETRY_WAIT_MS,
    COMMIT_MIN_RETRY_WAIT_MS,
    COMMIT_NUM_RETRIES,
    COMMIT_STATUS_CHECKS,
    COMMIT_STATUS_CHECKS_MAX_WAIT_MS,
    COMMIT_STATUS_CHECKS_MIN_WAIT_MS,
    COMMIT_STATUS_CHECKS_TOTAL_TIME_MS,
    COMMIT_TOTAL_RETRY_TIME_MS,
)

BUSY_MAX_WAIT_MS = 2_000
LONGEST_WAIT_MS = 2**31 - 1
"""24 days, the longest value of Iceberg Java; the operating system cannot sleep for every time that a property may hold."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``retries`` None: as many as the time allows. Times are milliseconds."""

    retries: int | None
    min_wait_ms: int
    max_wait_ms: int
    total_ms: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """Raises OptionError for a property that is not a number."""
        longest = COMMIT_MAX_RETRY_WAIT_MS.of(properties)
        return cls(
            COMMIT_NUM_RETRIES.of(properties) if COMMIT_NUM_RETRIES.name in properties else None,
            COMMIT_MIN_RETRY_WAIT_MS.of(properties),
            longest if COMMIT_MAX_RETRY_WAIT_MS.name in properties else min(longest, BUSY_MAX_WAIT_MS),
            COMMIT_TOTAL_RETRY_TIME_MS.of(properties),
        )

    @classmethod
    def of_status_checks(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """Raises OptionError for a property that is not a number."""
        return cls(
            COMMIT_STATUS_CHECKS.of(properties),
            COMMIT_STATUS_CHECKS_MIN_WAIT_MS.of(properties),
            COMMIT_STATUS_CHECKS_MAX_WAIT_MS.of(properties),
            COMMIT_STATUS_CHECKS_TOTAL_TIME_MS.of(properties),
        )

    def wait_seconds(self, failures: int, elapsed_seconds: float, random: Callable[[], float]) -> float | None:
        """The wait after that many failures; None: give up."""
        if self.retries is not None and failures > self.retries:
            return None
        if elapsed_seconds * 1000 >= self.total_ms:
            return None
        longest: int = min(self.max_wait_ms, self.min_wait_ms * 2 ** min(failures - 1, 30), LONGEST_WAIT_MS)
        return longest * (0.5 + random() / 2) / 1000
