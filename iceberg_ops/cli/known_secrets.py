"""The secrets known to a command line: those of the configured catalogs, and of its job.

A driver or a library may put them into its message in a form that no pattern detects. Each document is read once: a job spec may
come from a pipe, which cannot be read a second time, and log lines must not read files.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

_of_jobs: set[str] = set()


def begin() -> None:
    """Start a command line: nothing is known from the one before, if a process runs several."""
    _of_jobs.clear()
    _of_catalogs.cache_clear()


def learn(secrets: Iterable[str]) -> None:
    """Add secrets of a job spec that was just read, or of a job from options."""
    _of_jobs.update(secrets)


def known_secrets() -> tuple[str, ...]:
    """Every secret, longest first."""
    from iceberg_ops.config.secrets import longest_first

    return longest_first((*_of_catalogs(), *_of_jobs))


@cache
def _of_catalogs() -> frozenset[str]:
    """A document that cannot be read has no secrets, because nothing could have used it."""
    from iceberg_ops.catalog.configuration import read_catalogs
    from iceberg_ops.config.secrets import secrets_in_properties
    from iceberg_ops.errors import OptionError

    try:
        return frozenset(secret for config in read_catalogs() for secret in secrets_in_properties(config.properties))
    except (OptionError, OSError):
        return frozenset()
