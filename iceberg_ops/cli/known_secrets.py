"""The secrets that a command line knows: those of the configured catalogs, and of the job spec that it names.

A driver or a library may put them into its message in a form that no pattern finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from iceberg_ops.catalog.configuration import read_catalogs
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.secrets import secrets_of
from iceberg_ops.errors import OptionError

_JOB_SPEC = "--job-spec"


def known_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """Every secret, longest first. A document that cannot be read has none that anything could have been done with."""
    found = {*_of_catalogs(), *(secret for path in _job_specs(arguments) for secret in _of_job(path))}
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def _of_catalogs() -> set[str]:
    try:
        return {secret for config in read_catalogs() for secret in secrets_of(config.properties)}
    except (OptionError, OSError):
        return set()


def _of_job(path: str) -> tuple[str, ...]:
    try:
        return from_json(Path(path).read_bytes(), JobSpec, path).secrets()
    except (OptionError, OSError):
        return ()


def _job_specs(arguments: Sequence[str]) -> list[str]:
    after = [value for option, value in pairwise(arguments) if option == _JOB_SPEC]
    return after + [a.partition("=")[2] for a in arguments if a.startswith(f"{_JOB_SPEC}=")]
